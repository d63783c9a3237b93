"""ε and δ of a mechanism under a schedule: the functions people call."""

from __future__ import annotations

from collections.abc import Iterable

from recondite import _validate
from recondite.accounting.composition import Composition, rdp_epsilon
from recondite.accounting.pld import pld_bracket, pld_delta, pld_epsilon
from recondite.accounting.schedules import Schedule
from recondite.mechanisms import Mechanism, Neighbouring

__all__ = ["compose", "delta", "epsilon", "epsilon_bracket", "renyi_epsilon"]


def compose(
    runs: Iterable[tuple[Mechanism, Schedule]], group_size: int = 1
) -> tuple[Composition, Neighbouring]:
    """The composition of several runs on the same records, and their common relation.

    Raises:
      ValueError: If the runs are accounted under different neighbouring relations.
    """
    total = Composition(())
    relations = set()
    for mechanism, schedule in runs:
        total = total + schedule.composition(mechanism, group_size)
        relations.add(schedule.neighbouring(mechanism))
    if len(relations) != 1:
        raise ValueError(
            "runs must share one neighbouring relation: Poisson batches use add-or-remove-one, "
            "shuffled and fixed-size batches replace-one"
        )
    return total, relations.pop()


def epsilon(
    mechanism: Mechanism, schedule: Schedule, delta: float, *, group_size: int = 1
) -> float:
    """Tight ε(δ) of a run.

    Guarantee: an upper bound on the true ε(δ) under the schedule's neighbouring relation, at
    most about 0.1% above it for the mechanism's dominating pair.

    >>> from recondite import Poisson, VonMisesFisher
    >>> run = Poisson(rate=128 / 60_000, steps=1_407)
    >>> round(epsilon(VonMisesFisher(kappa=75, dim=13_700), run, delta=1 / 60_000), 3)
    0.791
    """
    target = _validate.probability("delta", delta)
    return pld_epsilon(schedule.composition(mechanism, group_size), target)


def epsilon_bracket(
    mechanism: Mechanism, schedule: Schedule, delta: float, *, group_size: int = 1
) -> tuple[float, float]:
    """A lower and an upper bound on ε(δ) of the dominating pair, computed the same way."""
    target = _validate.probability("delta", delta)
    return pld_bracket(schedule.composition(mechanism, group_size), target)


def renyi_epsilon(
    mechanism: Mechanism, schedule: Schedule, delta: float, *, group_size: int = 1
) -> tuple[float, float]:
    """ε(δ) through the exact Rényi curve, and the order that gives it: an upper bound."""
    target = _validate.probability("delta", delta)
    return rdp_epsilon(schedule.composition(mechanism, group_size), target)


def delta(
    mechanism: Mechanism, schedule: Schedule, epsilon: float, *, group_size: int = 1
) -> float:
    """Tight δ(ε) of a run, however small: an upper bound.

    >>> from recondite import Gaussian, Poisson
    >>> delta(Gaussian(noise_multiplier=1.0), Poisson(rate=1.0, steps=1), 1.0)  # 0.126936737...
    0.12693...
    """
    target = _validate.non_negative("epsilon", epsilon)
    return pld_delta(schedule.composition(mechanism, group_size), target)
