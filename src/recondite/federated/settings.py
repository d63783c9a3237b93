"""What the ready app needs to know: from Flower's run, message and node configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from recondite import _validate
from recondite.mechanisms import Mechanism
from recondite.mechanisms.registry import mechanisms

__all__ = ["CHANNELS", "Settings"]

CHANNELS = ("natural-channel", "white-channel", "minimum-power-channel")


@dataclass(frozen=True)
class Settings:
    """One federation. Flower's configurations know no null: 0 and "" stand for "not set".

    Attributes:
      data: A data set's name.
      data_dir: Where data sets are.
      prepare: crop16, resize32, …; by default the network's own.
      model: A network's name.
      clients: How many shares the records are cut into.
      partition: "iid" or "dirichlet".
      alpha: Concentration of the Dirichlet law.
      records: Records of the whole data set to use; 0 for all.
      rounds: Rounds of training.
      local_steps: E, steps of a client in a round: 1 is FedSGD.
      batch_size: Expected records in a local batch.
      learning_rate: Of the clients' SGD, without momentum.
      defence: none, clip, a mechanism's name, or a channel's.
      level: Whether a mechanism noises the whole update ("client") or every step ("record").
      strength: The mechanism's noise parameter.
      max_norm: Bound on the update (client) or on a record's gradient (record).
      capacity: Of a channel, in nats per feature.
      noise: Of a channel: once or per_step.
      sampling: poisson, shuffled or fixed-size.
      fraction: Share of the clients asked in a round.
      seed: Repeats everything, noise included: a simulation. -1 for none.
      ledger: Folder of the clients' ledgers.
      truth: Folder where simulated clients leave what they trained on, for the auditor's scores.
      out: Folder of the server's results.
      audit_every: Rounds between audits; 0 for no auditor.
      audit_clients: Clients attacked in an audited round.
      audit_seconds: Time limit of one attack.
      attack: The auditor's attack; "" for the one that fits.
      attack_steps: Its iterations, where it has them.
      wait: Seconds a round waits for its clients.
      budget_epsilon: A client's budget, at δ = 1e-5; 0 for none.
    """

    data: str = "mnist-5k"
    data_dir: str = ""
    prepare: str = ""
    model: str = "mlp"
    clients: int = 10
    partition: str = "iid"
    alpha: float = 0.3
    records: int = 0
    rounds: int = 3
    local_steps: int = 1
    batch_size: int = 4
    learning_rate: float = 0.1
    defence: str = "none"
    level: str = "client"
    strength: float = 0.0
    max_norm: float = 1.0
    capacity: float = 0.1
    noise: str = "once"
    sampling: str = "shuffled"
    fraction: float = 1.0
    seed: int = -1
    ledger: str = ""
    truth: str = ""
    out: str = ""
    audit_every: int = 0
    audit_clients: int = 1
    audit_seconds: float = 20.0
    attack: str = ""
    attack_steps: int = 500
    wait: float = 600.0
    budget_epsilon: float = 0.0

    def __post_init__(self) -> None:
        for name in ("clients", "rounds", "local_steps", "batch_size", "audit_clients"):
            _validate.at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "max_norm", "capacity", "wait", "audit_seconds", "alpha"):
            _validate.positive(name, getattr(self, name))
        _validate.probability("fraction", self.fraction, closed_at_one=True)
        _validate.choice("partition", self.partition, ("iid", "dirichlet"))
        _validate.choice("level", self.level, ("client", "record"))
        known = ("none", "clip", *(name for name in mechanisms() if name != "none"), *CHANNELS)
        _validate.choice("defence", self.defence, known)
        if self.mechanism_name and self.strength <= 0:
            parameter = mechanisms()[self.defence].parameter
            raise ValueError(f"strength must be above 0: the {parameter} of {self.defence}")

    @classmethod
    def of(cls, *configurations: Mapping[str, Any]) -> Settings:
        """Settings from Flower's configurations; a later one wins. Names may have dashes."""
        known = {field.name: field.type for field in fields(cls)}
        values: dict[str, Any] = {}
        for configuration in configurations:
            for name, value in configuration.items():
                field = name.replace("-", "_")
                if field in known:
                    values[field] = value
        typed = {name: _typed(str(known[name]), name, value) for name, value in values.items()}
        return cls(**typed)

    def to_config(self) -> dict[str, Any]:
        """As a Flower configuration."""
        return {name.replace("_", "-"): value for name, value in asdict(self).items()}

    def with_values(self, **changes: Any) -> Settings:
        """The same with some values changed."""
        return replace(self, **changes)

    @property
    def seed_or_none(self) -> int | None:
        """The seed, if one is set."""
        return None if self.seed < 0 else self.seed

    @property
    def mechanism_name(self) -> str:
        """The defence, where it is a mechanism with noise."""
        return "" if self.defence in ("none", "clip", *CHANNELS) else self.defence

    def mechanism(self) -> Mechanism | None:
        """The mechanism, if the defence is one."""
        if not self.mechanism_name:
            return None
        kind = mechanisms()[self.defence]
        return kind(**{kind.parameter: self.strength})

    @property
    def label(self) -> str:
        """The defence as a person writes it."""
        if self.defence in CHANNELS:
            return f"{self.defence.replace('-', ' ')}, {self.capacity:g} nat a feature"
        symbol = {"kappa": "κ", "noise_multiplier": "σ"}
        chosen = self.mechanism()
        if chosen is None:
            return {"none": "no defence", "clip": "clipping only"}[self.defence]
        name = {"vmf": "VMF", "gaussian": "Gaussian"}.get(self.defence, self.defence)
        return f"{name} {symbol.get(chosen.parameter, chosen.parameter)} = {self.strength:g}"


def _typed(kind: str, name: str, value: Any) -> Any:
    """Numbers that came as whole ones where fractions are meant, and the other way round."""
    if kind == "str":
        return str(value)
    try:
        return _validate.integer(name, float(value)) if kind == "int" else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name.replace('_', '-')} must be a number, got {value!r}") from None
