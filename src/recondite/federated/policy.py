"""What a client decides for itself, and the little that a server may ask of it.

Nothing here knows a framework: whoever connects one hands over what the node was given and what
the server sent, as mappings, and trains by the policy that comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from recondite import _validate
from recondite.accounting.schedules import SAMPLINGS
from recondite.defences import Defence, defences
from recondite.federated.shared_noise import in_shares
from recondite.mechanisms import Mechanism

__all__ = ["ASKED", "PLACES", "Policy", "StayOutError", "typed_values"]

# All that a client reads of what a server configures, beside what names a round in its ledger
# (server-round, federation).
ASKED = ("learning_rate", "local_steps")
# Where noise may be added.
PLACES = ("client", "sum", "server")
# A node's place among the shares: pinned on the node too, and no part of the policy.
_PLACE = ("partition_id", "num_partitions")

P = TypeVar("P", bound="Policy")


class StayOutError(Exception):
    """The client takes no part in this round.

    The message goes to the server too: it depends on settings and counts, never on the data.
    """


@dataclass(frozen=True)
class Policy:
    """A client's own decisions: pinned where the client runs, never by the server.

    Guarantee: :meth:`under` changes nothing but the learning rate and the number of local steps,
    and neither beyond what is pinned here. Any other field that a server sets is refused, whatever
    its value, so that a refusal tells nothing of what is pinned. Assumes that the code of the
    client is what the client reviewed: a policy does not bind other code.

    Configurations know no null: 0 and "" stand for "not set". Only ``defence`` has to be pinned.

    Attributes:
      defence: none, clip, a mechanism's name, or a channel's.
      level: Whether a mechanism noises the whole update ("client") or every step ("record").
      strength: The mechanism's noise parameter.
      max_norm: Bound on the update (client) or on a record's gradient (record).
      capacity: Of a channel, in nats per feature.
      noise: Of a channel: once or per_step.
      seed: Repeats everything, noise included: a simulation. -1 for none.
      ledger: Folder of the ledger, or of those of several clients.
      budget_epsilon: A client's budget, at δ = 1e-5; 0 for none.
      local_steps: E, steps of a round: 1 is FedSGD. A server may ask for fewer.
      learning_rate: Of the SGD, without momentum. A server may ask for a smaller one.
      batch_size: Expected records in a local batch.
      sampling: poisson, allocation, shuffled or fixed-size.
      data: A data set's name.
      data_dir: Where data sets are.
      prepare: crop16, resize32, …; by default the network's own.
      model: A network's name.
      clients: How many shares the records are cut into.
      partition: "iid" or "dirichlet".
      alpha: Concentration of the Dirichlet law.
      records: Records of the whole data set to use; 0 for all.
      truth: Folder where simulated clients leave what they trained on, for the auditor's scores.
      noise_at: Where a client-level mechanism's noise is added: by this client to its own update
        ("client"), in shares that protect the sum ("sum"), or by a server that is trusted with the
        bounded update ("server").
      secure: 1 lets updates leave inside secure sums (SecAgg+) only.
      honest: The fewest clients in a sum; with noise in shares, those whose shares make up the
        noise: assumed to be honest.
    """

    defence: str = ""
    level: str = "client"
    strength: float = 0.0
    max_norm: float = 1.0
    capacity: float = 0.1
    noise: str = "once"
    seed: int = -1
    ledger: str = ""
    budget_epsilon: float = 0.0
    local_steps: int = 1
    learning_rate: float = 0.1
    batch_size: int = 4
    sampling: str = "shuffled"
    data: str = "mnist-5k"
    data_dir: str = ""
    prepare: str = ""
    model: str = "mlp"
    clients: int = 10
    partition: str = "iid"
    alpha: float = 0.3
    records: int = 0
    truth: str = ""
    noise_at: str = "client"
    secure: int = 0
    honest: int = 2

    def __post_init__(self) -> None:
        if not self.defence:
            raise ValueError("defence must be pinned: none, clip, a mechanism or a channel")
        for name in ("clients", "local_steps", "batch_size"):
            _validate.at_least(name, getattr(self, name), 1)
        _validate.at_least("records", self.records, 0)
        for name in ("learning_rate", "max_norm", "capacity", "alpha"):
            _validate.positive(name, getattr(self, name))
        _validate.non_negative("budget_epsilon", self.budget_epsilon)
        _validate.choice("partition", self.partition, ("iid", "dirichlet"))
        _validate.choice("sampling", self.sampling, SAMPLINGS)
        _validate.choice("level", self.level, ("client", "record"))
        _validate.choice("noise", self.noise, ("once", "per_step"))
        _validate.choice("defence", self.defence, tuple(_known()))
        _validate.choice("noise_at", self.noise_at, PLACES)
        _validate.choice("secure", self.secure, (0, 1))
        _validate.at_least("honest", self.honest, 2)
        if self.mechanism_name and self.strength <= 0:
            parameter = self.described.parameter
            raise ValueError(f"strength must be above 0: the {parameter} of {self.defence}")
        if self.noise_at != PLACES[0]:
            self._check_place()

    def _check_place(self) -> None:
        mechanism = self.mechanism()
        if mechanism is None or self.level != "client":
            raise ValueError("noise_at is for mechanisms on whole updates: level client")
        if self.shares_noise:
            if not self.secure:
                raise ValueError("noise_at sum needs secure = 1: a share alone protects too little")
            in_shares(mechanism, self.max_norm, self.honest)
        elif mechanism.stage == "record":
            raise ValueError(f"{self.defence} noises each update by itself: noise_at client")

    @classmethod
    def pinned(cls, node: Mapping[str, Any], app: Policy | None = None) -> Policy:
        """The policy of a node, from the configuration that its owner started it with.

        Args:
          node: The node's configuration; names may have dashes. It wins over ``app``.
          app: A policy that the app itself pins, for simulations: who wrote the app owns both
            sides.

        Raises:
          StayOutError: No defence is pinned, or it adds noise and no ledger is there to count it.
          ValueError: A key that no policy has, or a bad value.
        """
        known = {field.name for field in fields(Policy)} | set(_PLACE)
        for name in node:
            if name.replace("-", "_") not in known:
                raise ValueError(f"{name} of the node's configuration is no part of a policy")
        values = typed_values(Policy, {} if app is None else app.to_config(), node)
        if not values.get("defence"):
            raise StayOutError("no defence is pinned on this node, so it does not train")
        found = Policy(**values)
        if app is None and not found.undefended and not found.ledger:
            raise StayOutError("no ledger is pinned on this node, so it does not train")
        return found

    def under(self, *asked: Mapping[str, Any]) -> Policy:
        """The policy for one round, with what the server asked for where it may ask.

        Args:
          *asked: What a server configured, for the run and for this message; a later one wins.
            Keys that are neither asked for nor protected are not read.

        Raises:
          StayOutError: The server sets what is the client's own, or asks beyond its limits. The
            reason holds names and limits, never another pinned value.
        """
        protected = {field.name for field in fields(Policy)} | set(_PLACE)
        values: dict[str, Any] = {}
        for configuration in asked:
            for name, value in configuration.items():
                field = name.replace("-", "_")
                if field in ASKED:
                    values[field] = self._within(field, value)
                elif field in protected:
                    raise StayOutError(
                        f"the server sets {field.replace('_', '-')}, which is this client's own: "
                        "it may choose learning-rate and local-steps only"
                    )
        return replace(self, **values)

    def _within(self, field: str, value: Any) -> Any:
        try:
            found = typed_values(Policy, {field: value})[field]
            _validate.positive(field, found)
        except ValueError:
            raise StayOutError(f"the server's {field.replace('_', '-')} is unusable") from None
        most = getattr(self, field)
        if found > most:
            raise StayOutError(
                f"the server asks for {field.replace('_', '-')} = {found:g}, above this client's "
                f"limit of {most:g}"
            )
        return found

    def to_config(self) -> dict[str, Any]:
        """As a configuration of strings and numbers, with dashes in names."""
        return {name.replace("_", "-"): value for name, value in asdict(self).items()}

    def with_values(self: P, **changes: Any) -> P:
        """The same with some values changed."""
        return replace(self, **changes)

    @property
    def shares_noise(self) -> bool:
        """Whether this client adds a share of the noise on a sum."""
        return self.noise_at == PLACES[1]

    @property
    def trusts_server(self) -> bool:
        """Whether the server adds the noise."""
        return self.noise_at == PLACES[2]

    @property
    def undefended(self) -> bool:
        """Whether the update leaves as it is."""
        return not (self.described.private or self.described.bounds)

    @property
    def seed_or_none(self) -> int | None:
        """The seed, if one is set."""
        return None if self.seed < 0 else self.seed

    @property
    def described(self) -> Defence:
        """What is known of the defence."""
        return _known()[self.defence]

    @property
    def mechanism_name(self) -> str:
        """The defence, where it is a mechanism with noise."""
        return self.defence if self.described.on_gradients else ""

    def mechanism(self) -> Mechanism | None:
        """The mechanism, if the defence is one."""
        if not self.described.on_gradients:
            return None
        made: Any = self.described.build(self.strength)
        chosen: Mechanism = made
        return chosen

    @property
    def label(self) -> str:
        """The defence as a person writes it."""
        if self.described.on_records:
            return f"{self.described.title}, {self.capacity:g} nat a feature"
        return self.described.label(self.strength, {})


def _known() -> dict[str, Defence]:
    """What a client can be pinned to: a policy has no place for weights of features."""
    return {name: each for name, each in defences().items() if "beta" not in each.settings}


def typed_values(kind: type[Policy], *configurations: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that configurations set, a later one winning, each as its field's type."""
    known = {field.name: str(field.type) for field in fields(kind)}
    values: dict[str, Any] = {}
    for configuration in configurations:
        for name, value in configuration.items():
            field = name.replace("-", "_")
            if field in known:
                values[field] = _typed(known[field], field, value)
    return values


def _typed(kind: str, name: str, value: Any) -> Any:
    """Numbers that came as whole ones where fractions are meant, and the other way round."""
    if kind == "str":
        return str(value)
    try:
        return _validate.integer(name, float(value)) if kind == "int" else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name.replace('_', '-')} must be a number, got {value!r}") from None
