"""Steps that differ: a schedule of learning rate, clipping norm or noise, at five of its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from recondite.accounting import Poisson
from recondite.accounting.composition import Composition
from recondite.accounting.pld import pld_epsilon
from recondite.checking.claim import PrivacyClaim
from recondite.checking.displacement import displacement
from recondite.checking.findings import Verdict
from recondite.checking.pairs import BatchPair
from recondite.checking.probe import Probe
from recondite.mechanisms import Mechanism

__all__ = ["Measured", "Stage", "answer", "composed", "numbers", "stages"]

Array = npt.NDArray[np.float64]
_STAGES = 5


@dataclass(frozen=True)
class Measured:
    """A pair of batches, the direction in which they differ, and how far the claim lets them."""

    pair: BatchPair
    direction: Array
    limit: float


@dataclass(frozen=True)
class Stage:
    """One step of a run: what a record moves it by, over what the claim allows every step.

    Attributes:
      number: How many steps came before.
      estimate: Of the ratio.
      low: A lower bound.
    """

    number: int
    estimate: float
    low: float


def numbers(steps: int) -> tuple[int, ...]:
    """Where a run of so many steps is looked at: its first, its last, and evenly between."""
    return tuple(sorted({round(share * (steps - 1)) for share in np.linspace(0, 1, _STAGES)}))


def stages(
    probe: Probe, pairs: Sequence[Measured], steps: int, runs: int, miss: float
) -> list[Stage]:
    """Measures several steps of a run.

    Guarantee: all lower bounds hold together except with probability ``miss``, if noise is normal
    and alike for both batches of a pair.

    Args:
      probe: Of a trainer with a schedule.
      pairs: What is compared at each of them.
      steps: Of the whole run.
      runs: Releases a side of each comparison.
      miss: Over all comparisons.
    """
    found = []
    where = numbers(steps)
    share = miss / (len(where) * len(pairs))
    for number in where:
        estimates, lows = [], []
        at = probe.at(number)
        for one in pairs:
            first = at.scores(one.pair.first, one.direction, runs)
            second = at.scores(one.pair.second, one.direction, runs)
            moved = displacement(first, second, share)
            estimates.append(moved.estimate / one.limit)
            lows.append(moved.low / one.limit)
        found.append(Stage(number, max(estimates), max(lows)))
    return found


def answer(
    claim: PrivacyClaim, needed: Mechanism, found: Sequence[Stage], slack: float, poor: bool
) -> tuple[Verdict, str]:
    """What the measured steps say of a claim.

    A run whose every step has the noise that the claim needs of all is consistent. Where some have
    less, they may be made up for by others: the steps are composed, each measured one standing for
    those nearest to it.

    Args:
      claim: The claim.
      needed: The noise that it needs of steps that are all alike.
      found: What was measured.
      slack: What calibration may round.
      poor: Whether the records tried are seen too badly to tell.
    """
    told = ", ".join(f"{1 / max(one.estimate, 1e-9):.2f}" for one in found)
    where = ", ".join(str(one.number + 1) for one in found)
    line = f"noise at steps {where} is {told} of what the claim needs of every step"
    bare = [one.number + 1 for one in found if math.isinf(one.low)]
    if bare:
        return "violates", f"step {bare[0]} has no noise"
    over = [one for one in found if one.low > slack]
    if not over:
        if poor:
            return "cannot tell", f"{line}, but records are hardly seen: give more runs"
        return "consistent", line
    if len(over) == len(found):
        return "violates", f"{line}: too little at each of them"
    if needed.scale_free or claim.schedule.sampling != "poisson":
        return "cannot tell", (
            f"{line}: whether others make up for the least is known for Poisson batches and noise "
            "on sums only"
        )
    total = composed(claim, needed, found, slack)
    said = f"{line}: composed, each for those nearest to it, at least ε = {total:.2f}"
    return ("violates" if total > claim.epsilon else "consistent"), said


def composed(claim: PrivacyClaim, needed: Mechanism, found: Sequence[Stage], slack: float) -> float:
    """ε of a run with the noise that was measured, at the lower bounds of what records move."""
    steps = claim.schedule.steps
    middles = [(a.number + b.number) / 2 for a, b in pairwise(found)]
    ends = [0, *(math.ceil(middle) for middle in middles), steps]
    whole = Composition(())
    for one, (start, end) in zip(found, pairwise(ends), strict=True):
        moved = one.low / slack
        if moved > 0 and end > start:
            made = needed.with_strength(needed.strength / moved)
            whole += Poisson(claim.rate, end - start).composition(made)
    return pld_epsilon(whole, claim.delta) if whole.parts else 0.0
