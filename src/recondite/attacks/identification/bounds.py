"""What no attacker can exceed in an identification game, for the threat that is played."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from recondite.accounting.composition import Composition
from recondite.accounting.schedules import Schedule
from recondite.channels.base import Channel
from recondite.mechanisms import Mechanism, Neighbouring
from recondite.notions.exposures import known_success
from recondite.notions.pairs import ComposedPair, GaussianPair, Pair, shift

__all__ = ["Ceiling", "of_copies", "of_run", "told_of_run", "told_when"]

Array = npt.NDArray[np.float64]

_GROUPS = 6  # numbers of participations that are told apart; others count as the next larger


@dataclass(frozen=True)
class Ceiling:
    """The bound of a game.

    Guarantee: no attacker picks the record out of n candidates drawn alike more often than
    ``at(n)``, on average over the records played for, under ``relation``: with add-or-remove-one
    the reference is the run without the record, with replace-one the run with any fixed one.

    Attributes:
      at: From n to the bound; with ``weights`` of the games, of their weighted average.
      relation: Which data sets it compares.
    """

    at: Callable[..., float]
    relation: str


def of_run(mechanism: Mechanism, schedule: Schedule) -> Ceiling:
    """Of a run whose batches are secret as its account takes them to be."""
    pair = _pair(schedule.composition(mechanism))
    return _alike(pair, schedule.neighbouring(mechanism))


def told_when(
    mechanism: Mechanism, schedule: Schedule, taken_part: npt.NDArray[np.int64]
) -> Ceiling:
    """Of a run whose attacker is told in which steps the record took part.

    Nothing is amplified: as many unsampled releases as each record took part in, averaged over the
    records. Some numbers are rounded up, which the bound only grows by.
    """
    relation = schedule.neighbouring(mechanism)
    law = mechanism.loss(relation)
    steps = np.unique(taken_part)
    if len(steps) > _GROUPS:
        shares = np.linspace(0, 1, _GROUPS + 1)[1:]
        steps = np.unique(np.quantile(taken_part, shares, method="higher"))
    counts = steps[np.searchsorted(steps, taken_part)]
    pairs = {int(k): _pair(Composition.of([(law, int(k))])) for k in steps if k > 0}

    def at(n: int, weights: Array | None = None) -> float:
        each = {k: pair.success(1.0 / n) for k, pair in pairs.items()}
        return float(np.average([each.get(int(k), 1.0 / n) for k in counts], weights=weights))

    return Ceiling(at, relation.value)


def told_of_run(
    mechanism: Mechanism, schedule: Schedule, taken_part: npt.NDArray[np.int64]
) -> Ceiling:
    """As :func:`told_when`, of these records and of any that the schedule may draw.

    A few records may by chance have taken part less often than others would. Their own bound is
    right for their games, and too good for a record that nobody has played for: the larger of the
    two is given.
    """
    played = told_when(mechanism, schedule, taken_part)

    def at(n: int, weights: Array | None = None) -> float:
        return max(played.at(n, weights), known_success(mechanism, schedule, 1.0 / n))

    return Ceiling(at, played.relation)


def of_copies(channel: Channel, sides: npt.ArrayLike, copies: int) -> Ceiling:
    """Of noisy copies of a record, its features in a box of these sides, labels aside."""
    return _alike(GaussianPair(shift(channel, sides, copies)), Neighbouring.REPLACE)


def _alike(pair: Pair, relation: Neighbouring) -> Ceiling:
    """The same for every game."""

    def at(n: int, weights: Array | None = None) -> float:
        del weights
        return pair.success(1.0 / n)

    return Ceiling(at, relation.value)


@lru_cache(maxsize=16)
def _pair(composition: Composition) -> Pair:
    """Infinite losses leave the certain answer."""
    if any(not math.isfinite(float(law.renyi([2.0])[0])) for law, _ in composition.parts):
        return GaussianPair(math.inf)
    return ComposedPair(composition)
