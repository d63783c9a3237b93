"""How far records move an update in units of its noise, from scores: bounds and tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, f, t

__all__ = ["Displacement", "displacement", "equal_spread", "repeats", "would_notice"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Displacement:
    """The distance of two laws of scores over their standard deviation.

    Attributes:
      estimate: The estimate.
      low: A lower bound, wrong with probability at most ``miss``.
      difference: Of the means.
      difference_low: A lower bound on it, with the same ``miss``.
      spread: The standard deviation, an estimate.
    """

    estimate: float
    low: float
    difference: float
    difference_low: float
    spread: float


def displacement(first: Array, second: Array, miss: float) -> Displacement:
    """Of two sets of independent scores.

    Guarantee: if both have normal laws of one standard deviation, ``low`` is at most the true
    displacement except with probability ``miss``: a lower bound on the difference of the means
    (Student) over an upper bound on the standard deviation (χ²), each wrong with half of it.
    """
    n, m = len(first), len(second)
    free = n + m - 2
    squares = (n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)
    spread = float(np.sqrt(squares / free))
    gap = float(first.mean() - second.mean())
    low = gap - float(t.isf(miss / 2, free)) * spread * (1 / n + 1 / m) ** 0.5
    if spread == 0.0:
        return Displacement(np.inf if gap > 0 else 0.0, np.inf if gap > 0 else 0.0, gap, gap, 0.0)
    most = float(np.sqrt(squares / chi2.ppf(miss / 2, free)))
    return Displacement(gap / spread, low / most, gap, low, spread)


def would_notice(allowed: float, count: int, miss: float) -> float:
    """The share of the noise that is needed below which so many scores would contradict a claim.

    Half the time, that is, if the records tried move the update as far as any could.

    Args:
      allowed: The displacement that the claim allows.
      count: Scores a side.
      miss: As in :func:`displacement`.
    """
    free = 2 * count - 2
    factor = float(np.sqrt(free / chi2.ppf(miss / 2, free)))
    gap = float(t.isf(miss / 2, free)) * float(np.sqrt(2 / count))
    return 1.0 / (factor + gap / allowed)


def equal_spread(first: Array, second: Array, miss: float) -> tuple[bool, float]:
    """Whether two sets of normal scores may have one standard deviation, and the ratio of theirs.

    The test (F) says no where they have, with probability at most ``miss``.
    """
    one, two = float(first.var(ddof=1)), float(second.var(ddof=1))
    if one == 0.0 or two == 0.0:
        return one == two, np.inf if two == 0.0 and one > 0.0 else 1.0 if one == two else 0.0
    n, m = len(first) - 1, len(second) - 1
    ratio = one / two
    inside = float(f.ppf(miss / 2, n, m)) <= ratio <= float(f.isf(miss / 2, n, m))
    return inside, ratio**0.5


def repeats(first: Array, second: Array, miss: float) -> tuple[bool, float]:
    """Whether one sequence of noise repeats in another, and their correlation.

    Args:
      first: Noise of consecutive steps, one row each.
      second: That of another trainer.
      miss: Probability of saying yes to independent normal noise (Student's test of correlation).
    """
    one, two = (np.diff(rows, axis=0)[::2].ravel() for rows in (first, second))
    norms = float(np.linalg.norm(one) * np.linalg.norm(two))
    if norms == 0.0:
        return False, 0.0
    corr = float(one @ two) / norms
    free = one.size - 1
    if corr >= 1.0 or free < 1:
        return corr >= 1.0, corr
    return corr * (free / (1 - corr * corr)) ** 0.5 > float(t.isf(miss, free)), corr
