"""Receiver operating characteristic of two sets of scores: exact with ties, all at once.

A score says how much a record looks like a member: higher is more. Ties are real (a saturated loss
is exactly 0 for many records), so a threshold never cuts through one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from recondite import _validate
from recondite.accounting.auditing import as_scores

__all__ = [
    "Interval",
    "Roc",
    "auc",
    "auc_interval",
    "auc_standard_error",
    "bootstrap",
    "roc",
    "tpr_at",
    "tpr_interval",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Interval = tuple[float, float]
_RESAMPLES = 1_000
_CELLS = 4_000_000  # of a bootstrap table held at once: 32 MB each


@dataclass(frozen=True, eq=False)
class Roc:
    """All operating points of "say member when the score is at least a threshold".

    Attributes:
      fpr: False-positive rates, from 0 to 1, never falling.
      tpr: True-positive rates, from 0 to 1, never falling.
      thresholds: The least score called a member at each point; the first is +infinity.
    """

    fpr: FloatArray
    tpr: FloatArray
    thresholds: FloatArray

    @property
    def auc(self) -> float:
        """AUC by trapezoids: ties count half."""
        return float(np.sum(np.diff(self.fpr) * (self.tpr[1:] + self.tpr[:-1]) / 2))

    def tpr_at(self, fpr: float) -> float:
        """Largest true-positive rate at a false-positive rate of at most ``fpr``.

        No interpolation: a threshold that an attacker can really use. Below one over the number of
        non-members it is the rate of members above every non-member.
        """
        limit = _validate.probability("fpr", fpr, closed_at_one=True, closed_at_zero=True)
        return float(self.tpr[np.searchsorted(self.fpr, limit, side="right") - 1])

    def points(self, most: int = 200) -> list[list[float]]:
        """At most so many [fpr, tpr] pairs, dense at small rates, the two ends among them."""
        most = _validate.at_least("most", most, 2)
        count = len(self.fpr)
        if count > most:
            low = max(float(self.fpr[self.fpr > 0].min(initial=1.0)), 1e-6)
            wanted = np.concatenate([np.geomspace(low, 1, most // 2), np.linspace(0, 1, most // 2)])
            chosen = np.searchsorted(self.fpr, wanted, side="right") - 1
            # Both ends once: the set of the others leaves room for them.
            inner = np.unique(chosen)
            inner = inner[(inner > 0) & (inner < count - 1)][: most - 2]
            keep = np.concatenate([[0], inner, [count - 1]])
        else:
            keep = np.arange(count)
        return [[float(self.fpr[i]), float(self.tpr[i])] for i in keep]


@dataclass(frozen=True, eq=False)
class _Table:
    """Counts of either set at each distinct score, from the highest score down."""

    values: FloatArray
    members: IntArray
    nonmembers: IntArray
    member_bins: IntArray
    nonmember_bins: IntArray


def _table(members: ArrayLike, nonmembers: ArrayLike) -> _Table:
    ours, others = as_scores("members", members, 1), as_scores("nonmembers", nonmembers, 1)
    values, where = np.unique(np.concatenate([ours, others]), return_inverse=True)
    bins = len(values) - 1 - where.reshape(-1)
    first, second = bins[: ours.size], bins[ours.size :]
    return _Table(
        values[::-1],
        np.bincount(first, minlength=len(values)),
        np.bincount(second, minlength=len(values)),
        first,
        second,
    )


def roc(members: ArrayLike, nonmembers: ArrayLike) -> Roc:
    """Returns the exact curve, one point for each distinct score.

    Args:
      members: Scores of members, (n,); infinite ones are allowed, NaN is not.
      nonmembers: Scores of non-members, (k,).

    Example:
      >>> curve = roc([3, 2, 2], [2, 1])
      >>> curve.fpr.tolist(), curve.tpr.round(3).tolist(), round(curve.auc, 4)
      ([0.0, 0.0, 0.5, 1.0], [0.0, 0.333, 1.0, 1.0], 0.8333)
    """
    table = _table(members, nonmembers)
    tpr, fpr = (
        np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
        for counts in (table.members, table.nonmembers)
    )
    return Roc(fpr, tpr, np.concatenate([[np.inf], table.values]))


def auc(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Probability that a member scores above a non-member, ties counted half."""
    table = _table(members, nonmembers)
    return float(_auc(table.members, table.nonmembers))


def _auc(members: NDArray[Any], nonmembers: NDArray[Any]) -> FloatArray:
    """Mann-Whitney from counts along the last axis, highest score first: exact integers."""
    above = np.cumsum(members, axis=-1) * 2 - members
    wins = np.sum(above * nonmembers, axis=-1)
    pairs = members.sum(axis=-1) * nonmembers.sum(axis=-1)
    return np.asarray(wins / (2 * pairs), dtype=np.float64)


def auc_standard_error(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Standard error of the area by DeLong, DeLong and Clarke-Pearson (1988), exact with ties.

    It is that of new records for the same model, and 0 when one set lies wholly above the other.
    """
    table = _table(members, nonmembers)
    ours, others = table.members.sum(), table.nonmembers.sum()
    if min(ours, others) < 2:
        raise ValueError("a standard error needs 2 or more members and 2 or more nonmembers")
    # Share of the other set that each record beats.
    beaten = 1 - (np.cumsum(table.nonmembers) - table.nonmembers / 2) / others
    beats = (np.cumsum(table.members) - table.members / 2) / ours
    spread = np.var(beaten[table.member_bins], ddof=1) / ours
    spread += np.var(beats[table.nonmember_bins], ddof=1) / others
    return float(np.sqrt(spread))


def tpr_at(members: ArrayLike, nonmembers: ArrayLike, fpr: float) -> float:
    """Largest true-positive rate at a false-positive rate of at most ``fpr``."""
    return roc(members, nonmembers).tpr_at(fpr)


def bootstrap(
    members: ArrayLike,
    nonmembers: ArrayLike,
    fprs: Sequence[float] = (),
    *,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """Areas and true-positive rates of stratified resamples: each set is drawn anew from itself.

    Args:
      members: Scores of members.
      nonmembers: Scores of non-members.
      fprs: False-positive rates at which to read the true-positive rate.
      resamples: How many.
      seed: Of the draws.

    Returns:
      Areas (resamples,) and true-positive rates (resamples, len(fprs)).
    """
    limits = [
        _validate.probability("fpr", f, closed_at_one=True, closed_at_zero=True) for f in fprs
    ]
    resamples = _validate.at_least("resamples", resamples, 1)
    generator = np.random.default_rng(_validate.at_least("seed", seed, 0))
    table = _table(members, nonmembers)
    areas, rates, width = [], [], len(table.values)
    widest = max(width, table.member_bins.size, table.nonmember_bins.size)
    at_once = max(1, _CELLS // widest)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        ours = _resampled(table.member_bins, width, rows, generator)
        others = _resampled(table.nonmember_bins, width, rows, generator)
        areas.append(_auc(ours, others))
        rates.append(_rates(ours, others, limits))
    return np.concatenate(areas), np.concatenate(rates)


def _resampled(bins: IntArray, width: int, rows: int, generator: np.random.Generator) -> IntArray:
    drawn = bins[generator.integers(0, bins.size, size=(rows, bins.size))]
    drawn += np.arange(rows, dtype=drawn.dtype)[:, None] * width
    return np.bincount(drawn.reshape(-1), minlength=rows * width).reshape(rows, width)


def _rates(ours: IntArray, others: IntArray, limits: Sequence[float]) -> FloatArray:
    tpr = np.cumsum(ours, axis=1) / ours.sum(axis=1, keepdims=True)
    fpr = np.cumsum(others, axis=1) / others.sum(axis=1, keepdims=True)
    out = np.zeros((len(ours), len(limits)))
    for column, limit in enumerate(limits):
        # Rates never fall along a row, so the points within the limit are the first ones.
        allowed = np.count_nonzero(fpr <= limit, axis=1)
        reached = np.take_along_axis(tpr, np.maximum(allowed - 1, 0)[:, None], axis=1)[:, 0]
        out[:, column] = np.where(allowed > 0, reached, 0.0)
    return out


def _percentiles(samples: FloatArray, point: float, confidence: float) -> Interval:
    tail = (1 - _validate.probability("confidence", confidence)) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return min(float(low), point), max(float(high), point)


def auc_interval(
    members: ArrayLike,
    nonmembers: ArrayLike,
    confidence: float = 0.95,
    *,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of the area, widened where need be to hold the estimate.

    It speaks of other records for the same model, not of other training runs. When one set lies
    wholly above the other every resample does too, and the interval is a point.
    """
    areas, _ = bootstrap(members, nonmembers, resamples=resamples, seed=seed)
    return _percentiles(areas, auc(members, nonmembers), confidence)


def tpr_interval(
    members: ArrayLike,
    nonmembers: ArrayLike,
    fpr: float,
    confidence: float = 0.95,
    *,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of the true-positive rate at a false-positive rate.

    It is widened to hold the exact binomial (Clopper-Pearson) interval at the threshold used: a
    bootstrap of no hits, or of nothing but hits, would be a point.
    """
    ours = as_scores("members", members, 1)
    point = tpr_at(ours, nonmembers, fpr)
    _, rates = bootstrap(ours, nonmembers, (fpr,), resamples=resamples, seed=seed)
    low, high = _percentiles(rates[:, 0], point, confidence)
    hits, tail = round(point * ours.size), (1 - confidence) / 2
    exact_low = float(betaincinv(hits, ours.size - hits + 1, tail)) if hits else 0.0
    missed = ours.size - hits
    exact_high = float(betainccinv(hits + 1, missed, tail)) if missed else 1.0
    return min(low, exact_low), max(high, exact_high)
