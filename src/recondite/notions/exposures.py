"""What is proven against intruders who see less, or know more, than an account takes for granted.

An account is of a whole run whose batches are secret. One update that a record took part in, and a
run whose server can tell when it took part, are other releases: nothing is amplified there. Both
follow from the settings that an account states, with the same mechanism and relation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scipy.stats import binom

from recondite.accounting.composition import Composition
from recondite.accounting.schedules import FixedSize, Poisson, RandomAllocation, Schedule
from recondite.laws import LossLaw
from recondite.mechanisms import Mechanism, UndefinedNotionError, mechanisms
from recondite.notions.pairs import ComposedPair

__all__ = ["Exposure", "exposures", "known_success"]

_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999)  # of how often a record takes part
_CERTAIN = 0.999  # success of one release from which on more of them are taken for certain
_COVERED = ("shuffled",)  # nothing is sampled: the account holds for whoever is told
_OTHER = "its releases are not those of a mechanism on gradients that is known here"


@dataclass(frozen=True)
class Exposure:
    """Upper bounds against one intruder.

    Guarantee: for one record, under ``relation``, what the intruder sees is (ε, δ)-private, and
    nobody who sees it rebuilds a record, or picks it out of 1/prior, more often than ``rero``.
    Where steps are drawn at random and told, both hold on average over that draw: a record takes
    part more than ``releases`` times with probability at most δ/2, which δ pays for.

    Attributes:
      threat: ``update`` (one that the record took part in) or ``training``.
      participation: ``known``: the intruder is told in which steps the record took part.
      epsilon: ε at ``delta``; None where it is not defined, for ``reason``.
      rero: Chance of a reconstruction whose blind guess succeeds with ``prior``; None likewise.
      prior: Of the blind guess.
      delta: δ.
      releases: How many releases of the record ε counts.
      relation: Which data sets are compared.
      reason: Why a bound is not defined; empty where both are.
    """

    threat: str
    participation: str
    epsilon: float | None
    rero: float | None
    prior: float
    delta: float | None
    releases: int | None
    relation: str
    reason: str = ""


def exposures(privacy: Mapping[str, Any] | None, *, prior: float = 0.1) -> list[Exposure]:
    """Bounds for one update and for known participation, from an account's JSON.

    Args:
      privacy: The account; None without noise, when nothing is hidden.
      prior: Success of the blind guess.
    """
    if privacy is None:
        bare = "nothing protects the records"
        found = [Exposure(t, "known", math.inf, 1.0, prior, None, None, "", bare)
                 for t in ("update", "training")]  # fmt: skip
        return found
    mechanism, schedule = _mechanism(privacy), _schedule(privacy.get("schedule"))
    if schedule is None and _sampling(privacy) in _COVERED:
        return []
    delta = privacy.get("delta")
    if mechanism is None or schedule is None or privacy.get("group_size", 1) != 1:
        reason = "for groups of records no bound is worked out" if mechanism else _OTHER
        return [
            Exposure(threat, "known", None, None, prior, delta, None, "", reason)
            for threat in ("update", "training")]  # fmt: skip
    relation = schedule.neighbouring(mechanism)
    try:
        law = mechanism.loss(relation)
        found = [
            _of(law, "update", 1, 1.0, delta, prior, relation.value),
            _of(law, "training", *schedule.participations(), delta, prior, relation.value),
        ]
    except UndefinedNotionError as error:
        found = [Exposure(threat, "known", None, None, prior, delta, None, relation.value,
                          str(error)) for threat in ("update", "training")]  # fmt: skip
    return found


def known_success(mechanism: Mechanism, schedule: Schedule, prior: float) -> float:
    """Bound on naming a record of a run whose attacker is told in which steps it took part.

    Guarantee: on average over the draw of those steps, under the schedule's relation; an upper
    bound, since numbers of participations are rounded up.

    Args:
      mechanism: As it releases.
      schedule: How batches were drawn.
      prior: Success of the blind guess.
    """
    law = mechanism.loss(schedule.neighbouring(mechanism))
    return _average(law, *schedule.participations(), prior, _success(law, 1, prior))


def _of(
    law: LossLaw, threat: str, times: int, rate: float, delta: float | None, prior: float,
    relation: str,
) -> Exposure:  # fmt: skip
    """Of so many chances to take part, each with this probability, all of them told."""
    epsilon, count, reason = None, times, ""
    single = _success(law, 1, prior)
    if delta is None:
        reason = "ε needs a δ"
    else:
        spent = 0.0
        if rate < 1.0:
            count = max(1, int(binom.isf(0.5 * delta, times, rate)))
            while (spent := float(binom.sf(count, times, rate))) > 0.5 * delta:
                count += 1
        pair = ComposedPair(Composition.of([(law, count)]))
        # Where one release gives the record away the tight accountant is slow and says no more.
        loose = single >= _CERTAIN and count > 1
        epsilon = pair.renyi_epsilon(delta - spent)[0] if loose else pair.epsilon(delta - spent)
    return Exposure(threat, "known", epsilon, _average(law, times, rate, prior, single), prior,
                    delta, count, relation, reason)  # fmt: skip


def _average(law: LossLaw, times: int, rate: float, prior: float, single: float) -> float:
    """Success over the draw of the steps; numbers of participations are rounded up."""
    if rate >= 1.0:
        return _success(law, times, prior) if single < _CERTAIN or times == 1 else 1.0
    if single >= _CERTAIN:  # any participation gives the record away; without one there is a guess
        absent = math.exp(times * math.log1p(-rate))
        return 1.0 - absent * (1.0 - prior)
    total, below = 0.0, 0.0
    for count in sorted({int(binom.ppf(level, times, rate)) for level in _LEVELS}):
        share = float(binom.cdf(count, times, rate))
        total += (share - below) * (prior if count == 0 else _success(law, count, prior))
        below = share
    return min(1.0, total + (1.0 - below))


@lru_cache(maxsize=256)
def _success(law: LossLaw, count: int, prior: float) -> float:
    if not math.isfinite(float(law.renyi([2.0])[0])):
        return 1.0
    return ComposedPair(Composition.of([(law, count)])).success(prior)


def _sampling(privacy: Mapping[str, Any]) -> str:
    schedule = privacy.get("schedule")
    return str(schedule.get("sampling")) if isinstance(schedule, Mapping) else ""


def _mechanism(privacy: Mapping[str, Any]) -> Mechanism | None:
    """As it released, from its name and parameters; None where these do not make one."""
    kind = mechanisms().get(str(privacy.get("mechanism")))
    given = privacy.get("parameters")
    if kind is None or not isinstance(given, Mapping) or kind.stateful:
        return None
    plain = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    try:
        return kind(**plain)
    except (TypeError, ValueError):
        return None


def _schedule(given: Any) -> Schedule | None:
    """A schedule from its JSON; None for one that is not made of these numbers alone."""
    if not isinstance(given, Mapping):
        return None
    kinds: dict[str, tuple[type[Any], tuple[str, ...]]] = {
        "poisson": (Poisson, ("rate", "steps")),
        "allocation": (RandomAllocation, ("batches", "epochs")),
        "fixed-size": (FixedSize, ("batch_size", "records", "steps")),
    }
    kind, names = kinds.get(str(given.get("sampling")), (None, ()))
    if kind is None or any(given.get(name) is None for name in names):
        return None
    made: Schedule = kind(**{name: given[name] for name in names})
    return made
