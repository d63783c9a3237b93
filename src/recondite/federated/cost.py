"""What a client's releases cost so far, every line of its ledger composed, and what they may."""

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from recondite import _validate
from recondite.accounting.composition import rdp_epsilon
from recondite.accounting.pld import pld_epsilon
from recondite.accounting.run import compose
from recondite.accounting.schedules import (
    FixedSize,
    Poisson,
    RandomAllocation,
    Schedule,
    Shuffled,
)
from recondite.federated.ledger import Line
from recondite.federated.shared_noise import with_slack
from recondite.mechanisms import Mechanism, UndefinedNotionError
from recondite.mechanisms.registry import mechanisms
from recondite.notions import MechanismRun, account_for, format_bound, json_ready, notions
from recondite.notions.base import Scope
from recondite.notions.registry import built_in

__all__ = ["NOT_BOUNDED", "Budget", "Spent", "overspent", "spent"]

NOT_BOUNDED = "not bounded"
_WHOLE = "the client: its whole share of the data, replaced by any other (so each record in it too)"
_RECORD = "a record of the client"
_FEATURES = "the features of a record of the client (information only: no ε is claimed)"
_NOTHING = "nothing was released"
_IN_SHARES = "no bound is proved for noise that clients add in shares"
# Where noise is added, and from whom it protects; the weakest first.
_AGAINST = {
    "server": "whoever sees the models; not the server, which adds the noise and is trusted",
    "sum": "a server that follows the protocol of secure aggregation and sees sums only, where {0} "
    "honest clients added their shares of the noise",
    "client": "a server that sees every message of this client",
}

Account = Mapping[str, Any]  # a channel's own, or that of a share of noise, as JSON
Runs = list[tuple[Mechanism, Schedule]]
Reasons = dict[str, str]


@dataclass(frozen=True)
class Budget:
    """Limits on all that one client releases, over rounds, runs and restarts.

    A round that would exceed any of them is not released: the client stays out of it.

    Attributes:
      epsilon: The largest ε, at ``delta``.
      delta: δ for ``epsilon``; chosen by the client, below one over what it protects.
      information: The largest mutual information, in nats.
      capacity: The largest log Bayes' capacity, in nats.
      rounds: The most releases.
    """

    epsilon: float | None = None
    delta: float = 1e-5
    information: float | None = None
    capacity: float | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        _validate.probability("delta", self.delta)
        for name in ("epsilon", "information", "capacity"):
            if getattr(self, name) is not None:
                _validate.positive(name, getattr(self, name))
        if self.rounds is not None:
            _validate.at_least("rounds", self.rounds, 1)


@dataclass(frozen=True)
class Spent:
    """What was released, in every notion that has a value. All are upper bounds.

    Guarantee: against whom ``against`` names, who may know which rounds the client took part in:
    no amplification by the sampling of clients is claimed. Not covered: how long a reply took,
    whether the client was there, and what the server knows from elsewhere.

    Attributes:
      protects: Whom or what the figures protect.
      level: "client", "record" or "channel"; "none" before the first release.
      against: From whom: by where the noise is added, the weakest of all releases.
      rounds: Rounds released, or that may have been.
      steps: Noised steps released (rounds, where the update is noised as a whole).
      delta: δ of ``epsilon``.
      epsilon: Tight ε; None where not defined.
      neighbouring: Which two data sets ε compares.
      information: Mutual information in nats: what all releases tell of what is noised.
      capacity: Log Bayes' capacity in nats.
      about: What capacity and information speak of.
      channel: The data channel's own account, where there is one.
      gamma: The three terms of Tan et al. (2024), Eq. (9): client, server, prior.
      simulation: Whether any noise followed from a seed: then nobody is protected.
      reasons: Why a figure is not defined.
      notions: Figures of notions that other packages add, by their keys.
    """

    protects: str
    level: str
    against: str
    rounds: int
    steps: int
    delta: float
    epsilon: float | None
    neighbouring: str | None
    information: float | None
    capacity: float | None
    about: str
    channel: Account | None
    gamma: dict[str, float | str]
    simulation: bool
    reasons: dict[str, str] = field(default_factory=dict)
    notions: dict[str, float | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """One JSON object; infinite values are the string "inf"."""
        plain: dict[str, Any] = json_ready(asdict(self))
        return plain


def spent(lines: Iterable[Line], delta: float = 1e-5) -> Spent:
    """Composes the lines of a ledger.

    Args:
      lines: The releases, as :class:`~recondite.federated.ledger.ReleaseLedger` holds them.
      delta: δ at which ε is given.
    """
    released = list(lines)
    reasons: dict[str, str] = {}
    runs = _runs(released)
    channel = _channel(released)
    level = _level(released)
    shares = _shares(released)
    nats, volume = _sums(runs, channel, shares, reasons)
    epsilon, relation = _epsilon(runs, channel, delta, shares, reasons)
    return Spent(
        protects={"client": _WHOLE, "record": _RECORD, "channel": _FEATURES}.get(level, _NOTHING),
        level=level,
        against=_against(released),
        rounds=len(released),
        steps=sum(int(line.get("schedule", {}).get("steps", 0)) for line in released),
        delta=delta,
        epsilon=epsilon,
        neighbouring=relation,
        information=nats,
        capacity=volume,
        about=_about(level, runs),
        channel=channel,
        gamma={
            "client": nats if nats is not None else NOT_BOUNDED,
            "server": NOT_BOUNDED,
            "prior": NOT_BOUNDED,
            "unit": "nats, all rounds and local steps of this client",
        },
        simulation=any(line.get("simulation", False) for line in released),
        reasons=reasons,
        notions=_others(runs, _undefined(runs, channel, shares), delta, reasons),
    )


def overspent(budget: Budget | None, lines: Sequence[Line]) -> str | None:
    """One line that says which limit these releases exceed; None where they fit."""
    if budget is None:
        return None
    if budget.rounds is not None and len(lines) > budget.rounds:
        return f"budget of {budget.rounds} rounds is spent"
    reasons: dict[str, str] = {}
    runs, channel = _runs(list(lines)), _channel(list(lines))
    shares = _shares(list(lines))
    told, volume = _sums(runs, channel, shares, reasons)
    limits = (
        ("epsilon", budget.epsilon, _at_most(runs, channel, budget, shares, reasons)),
        ("information", budget.information, told),
        ("capacity", budget.capacity, volume),
    )
    for name, limit, value in limits:
        if limit is None:
            continue
        if value is None:
            why = reasons.get(name, "it has no value here")
            return f"budget of {name} {limit:g} cannot be kept: {why}"
        if value > limit:
            made = format_bound(value)
            return f"budget of {name} {limit:g} is spent: this round would make it {made}"
    return None


def _at_most(
    runs: Runs, channel: Account | None, budget: Budget, shares: list[Account], reasons: Reasons
) -> float | None:
    """ε through the Rényi curve where that fits the budget, which is quick; else the tight one."""
    if budget.epsilon is None:
        return None
    if channel is None and not shares:
        with contextlib.suppress(ValueError):
            quick, _ = rdp_epsilon(compose(runs)[0], budget.delta)
            if quick <= budget.epsilon:
                return float(quick)
    return _epsilon(runs, channel, budget.delta, shares, reasons)[0]


def _level(lines: list[Line]) -> str:
    """The weakest of the levels: what all releases protect together."""
    levels = {line["level"] for line in lines}
    for level in ("channel", "record", "client"):
        if level in levels:
            return level
    return "none"


def _against(lines: list[Line]) -> str:
    """From whom the releases protect: by the weakest place where noise is added."""
    places = {line.get("noise_at", "client") for line in lines}
    honest = max((int(share["honest"]) for share in _shares(lines)), default=0)
    for place, whom in _AGAINST.items():
        if place in places:
            return whom.format(honest)
    return _AGAINST["client"]


def _shares(lines: list[Line]) -> list[Account]:
    """The lines' shares of noise, of those that are protected in sums only."""
    return [line["share"] for line in lines if "share" in line]


@functools.cache
def _known() -> dict[str, type[Mechanism]]:
    """Read once: looking through the installed packages takes as long as a round's noise."""
    return mechanisms()


def _mechanism(name: str, parameters: Mapping[str, Any]) -> Mechanism:
    known = _known()
    if name not in known:  # a package that was installed meanwhile
        _known.cache_clear()
        known = _known()
    if name not in known:
        raise ValueError(f"ledger names a mechanism {name!r} that is not installed here")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in parameters.items()}
    return known[name](**values)


def _runs(lines: list[Line]) -> Runs:
    """Lines that differ only in their counts are one run of the sum."""
    counts: dict[str, list[int]] = {}
    for line in lines:
        if line["level"] == "channel":
            continue
        plan = line["schedule"]
        same = {key: plan[key] for key in ("sampling", "batch_size", "records")}
        key = json.dumps([line["mechanism"], line["parameters"], same], sort_keys=True)
        total = counts.setdefault(key, [0, 0])
        total[0] += int(plan["steps"])
        total[1] += int(plan["passes"])
    runs = []
    for key, (steps, passes) in counts.items():
        name, parameters, same = json.loads(key)
        if steps:
            runs.append((_mechanism(name, parameters), _schedule(same, steps, passes)))
    return runs


def _schedule(same: Mapping[str, Any], steps: int, passes: int) -> Schedule:
    size, records = int(same["batch_size"]), int(same["records"])
    if same["sampling"] == "poisson":
        return Poisson(size / records, steps)
    if same["sampling"] == "fixed-size":
        return FixedSize(size, records, steps)
    batches = math.ceil(records / size)
    whole = max(passes, math.ceil(steps / batches))  # a pass that was begun counts whole
    if same["sampling"] == "allocation":
        return RandomAllocation(batches, whole)
    return Shuffled(whole, size, records)


def _sums(
    runs: Runs, channel: Account | None, shares: list[Account], reasons: Reasons
) -> tuple[float | None, float | None]:
    """Information and capacity of all releases together, a channel's among them."""
    if shares:
        reasons["information"] = reasons["capacity"] = _IN_SHARES
        return None, None
    told: float | None = 0.0 if channel is None else float(channel["per_record"])
    volume: float | None = 0.0
    if channel is not None:
        volume, reasons["capacity"] = None, "Bayes' capacity is not bounded for data channels"
    for mechanism, schedule in runs:
        run = MechanismRun(mechanism, schedule)
        told = _added(told, "information", run.mutual_information, reasons)
        volume = _added(volume, "capacity", run.log_bayes_capacity, reasons)
    return told, volume


def _added(
    total: float | None, name: str, leaked: Callable[[Scope], float], reasons: Reasons
) -> float | None:
    """What was leaked before and by another run; None where either is not defined."""
    try:
        more = leaked("run")
    except UndefinedNotionError as reason:
        reasons[name] = str(reason)
        return None
    return None if total is None else total + more


def _epsilon(
    runs: Runs, channel: Account | None, delta: float, shares: list[Account], reasons: Reasons
) -> tuple[float | None, str | None]:
    if channel is not None:
        reasons["epsilon"] = "a data channel bounds information; no ε is claimed for it"
        return None, None
    if not runs:
        return 0.0, None
    try:
        composition, relation = compose(runs)
    except ValueError as error:
        reasons["epsilon"] = str(error)
        return None, None
    if shares:
        # Sums of discrete noise have the Gaussian's Rényi curve, and no proved pair.
        return with_slack(lambda d: rdp_epsilon(composition, d)[0], delta, shares), relation.value
    return float(pld_epsilon(composition, delta)), relation.value


def _undefined(runs: Runs, channel: Account | None, shares: list[Account]) -> str:
    """Why notions of other packages have no value for these releases; "" where they have one."""
    if channel is not None:
        return "a ledger of a data channel bounds information only"
    if shares:
        return _IN_SHARES
    return "" if len(runs) == 1 else f"the releases are {len(runs)} runs: it is defined for one"


def _others(runs: Runs, why: str, delta: float, reasons: Reasons) -> dict[str, float | None]:
    """Figures of notions that other packages add."""
    ours = built_in()
    among = [notion for key, notion in notions().items() if key not in ours and notion.figures]
    keys = [figure.key for notion in among for figure in notion.figures]
    if why or not among:
        reasons.update(dict.fromkeys(keys, why))
        return dict.fromkeys(keys)
    account = account_for(MechanismRun(*runs[0], delta), among)
    values: dict[str, float | None] = {}
    for notion in among:
        for key, value in notion.row(account.to_dict()).items():
            values[key] = None if value is None else float(value)
            if value is None:
                reasons[key] = account.reasons.get(notion.key, "it has no value here")
    return values


def _channel(lines: list[Line]) -> Account | None:
    """The account with the most nats: the channel's own ledger adds up, it never shrinks."""
    accounts = [line["channel"] for line in lines if line["level"] == "channel"]
    if not accounts:
        return None
    most: Account = max(accounts, key=lambda account: float(account["per_record"]))
    return most


def _about(level: str, runs: Runs) -> str:
    if level == "channel":
        return "the features of one record"
    if level == "client":
        return "the client's update, each round"
    return runs[0][0].subject if runs else "nothing"
