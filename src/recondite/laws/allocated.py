"""Random allocation: a record goes to one of T batches, and which one is a secret.

With (P, Q) the pair of one release and X = e^ℓ its likelihood ratio, an epoch is dominated by
((1/T)·Σ_t Q^(t-1)·P·Q^(T-t), Q^T) (Feldman and Shenfeld, 2025), whose likelihood ratio is
Y = (X_1 + … + X_T)/T with the X_t independent under Q. Hence, for ε of either sign,

    δ_remove(ε) = E_Q[(Y - e^ε)₊],    δ_add(ε) = E_Q[(1 - e^ε·Y)₊].

Both are convex in Y. Spreading an atom over its two neighbours on a grid so that its mean is kept
can therefore only raise them, and drawing the atoms of a cell together at their mean can only
lower them: that is all that the two bounds here do. All numbers added are positive, so that masses
have *relative* precision however small they are, and no transform is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from recondite import _validate
from recondite.laws.base import Array, LossLaw, SampledOnce
from recondite.laws.pair import DiscretePair, connect_the_dots

__all__ = ["AllocatedLoss"]

T = TypeVar("T")

_FINE = 1 / 96  # cells of a grid, in units of the width of what lies on it
_GEOMETRIC = 1 / 24  # ratio, as a logarithm, of neighbouring cells far from there, at the least
_MOST_CELLS = 700  # that stand in a constant ratio: strong losses reach over hundreds of nats
_MOST_ATOMS = 2500
_HIGHEST = 690.0  # losses whose ratio a float64 sum of them still holds
_PAIRS = 1 << 16  # sums formed at a time: they stay in a cache
_MOST_MOMENTS = 256


@dataclass(frozen=True)
class AllocatedLoss(SampledOnce):
    """One epoch in which a record takes part in exactly one of ``batches`` batches.

    Guarantee: add-or-remove-one, where every record is allocated uniformly and independently of
    the others (batch sizes vary, as under Poisson sampling), every batch is released, and nothing
    else tells the batch. Later batches may depend on earlier releases.

    Attributes:
      base: The law of one release of a batch that holds the record.
      batches: T, batches in an epoch.
    """

    base: LossLaw
    batches: int

    def __post_init__(self) -> None:
        _validate.at_least("batches", self.batches, 1)

    @property
    def supremum(self) -> float:
        """That of one release: all X_t may be at the largest ratio, or the smallest."""
        return self.base.supremum

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """An upper bound on both directions.

        Removing: E[(ΣX)^α] is exact at integers, where it is a coefficient of the T-th power of
        X's moment series; between them (α-1)·D_α is convex. Adding: the arithmetic mean is above
        the geometric one, which gives D_{1+(α-1)/T} of one release. That is loose where noise is
        strong: the tight accountant does not use it.
        """
        alpha = np.atleast_1d(np.asarray(orders, float))
        alone = self.base.renyi(alpha)
        adding = np.minimum(alone, self.base.renyi(1.0 + (alpha - 1.0) / self.batches))
        removing = np.minimum(alone, np.array([self._removing(float(a)) for a in alpha]))
        out: Array = np.maximum(adding, removing)
        return out

    def _removing(self, order: float) -> float:
        moments = _sum_moments(self.base, self.batches)
        low, high = max(2, math.floor(order)), max(2, math.ceil(order))
        if high - 2 >= len(moments):
            return math.inf
        if order <= 2.0:
            return float(moments[0])
        weight = order - low
        mixed = (1.0 - weight) * moments[low - 2] + weight * moments[high - 2]
        return float(mixed / (order - 1.0))

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """The law of ln Y on the grid of losses."""
        if not math.isfinite(float(self.base.renyi([1.0001])[0])):
            # Nothing hides the record: allocation does not either, since all batches are released.
            return self.base.discretise(interval, tail=tail, pessimistic=pessimistic)
        atoms = _epoch(self.base, self.batches, _coarse(tail), pessimistic)
        kept = (atoms.q > 0) & (atoms.x > 0)
        if not kept.any():
            # Every ratio underflows. Allocation never tells more than one release (convexity).
            return self.base.discretise(interval, tail=tail, pessimistic=pessimistic)
        x, q = atoms.x[kept] / self.batches, atoms.q[kept]
        losses, log_q = np.log(x), np.log(q)
        pair = connect_the_dots(losses, losses + log_q, log_q, interval, pessimistic=pessimistic)
        nothing = float(atoms.q[atoms.x == 0].sum())
        infinite = atoms.infinite if pessimistic else 0.0
        return DiscretePair(interval, pair.start, pair.p, pair.q, infinite, nothing)


@dataclass(frozen=True, eq=False)
class _Atoms:
    """The law of a sum of likelihood ratios under Q.

    Attributes:
      x: Where the atoms are, ascending, from 0.
      q: Their probabilities.
      infinite: P-mass, relative to one term's, that was cut off above.
    """

    x: Array
    q: Array
    infinite: float


def _coarse(tail: float) -> float:
    """Tails in steps, so that neighbouring questions share one computation."""
    return 10.0 ** (10 * math.floor(math.log10(max(tail, 1e-280)) / 10))


@lru_cache(maxsize=16)
def _epoch(base: LossLaw, batches: int, tail: float, pessimistic: bool) -> _Atoms:
    """The sum of all T ratios."""

    def join(a: _Atoms, b: _Atoms) -> _Atoms:
        return _plus(a, b, pessimistic)

    return _doubled(_one(base, tail / batches, pessimistic), batches, join)


def _doubled(one: T, times: int, join: Callable[[T, T], T]) -> T:
    """``one`` joined with itself so many times, by repeated doubling."""
    power, left = one, times
    while left % 2 == 0:
        power, left = join(power, power), left // 2
    total, left = power, left // 2
    while left:
        power = join(power, power)
        if left % 2:
            total = join(total, power)
        left //= 2
    return total


def _one(base: LossLaw, tail: float, pessimistic: bool) -> _Atoms:
    """The law of X: losses on a grid fine against their standard deviation."""
    near_one = float(base.renyi([1.0001])[0])
    deviation = math.sqrt(2.0 * max(near_one, 1e-300))
    interval = min(deviation, 1.0) * _FINE
    # A strong loss would have millions of cells, only to be put on a coarser grid below.
    longest = base.reach(tail)
    longest += min(longest, -base.infimum)
    if longest < math.inf:
        interval = max(interval, longest / (10 * _MOST_ATOMS))
    pair = base.discretise(interval, tail=tail, pessimistic=pessimistic)
    if len(pair.p) > _MOST_ATOMS:
        interval *= len(pair.p) / _MOST_ATOMS
        pair = base.discretise(interval, tail=tail, pessimistic=pessimistic)
    if pessimistic:
        pair = pair.complete()
    # P-mass where Q's has underflowed, or where the ratio would overflow, is beyond every ratio.
    kept = (pair.q > 0) & (pair.losses < _HIGHEST)
    beyond = float(pair.p[~kept].sum())
    x = np.concatenate([[0.0], np.exp(pair.losses[kept])])
    masses = np.concatenate([[pair.q_infinite], pair.q[kept]])
    return _Atoms(x, masses, pair.p_infinite + beyond)


def _plus(a: _Atoms, b: _Atoms, pessimistic: bool) -> _Atoms:
    """The law of the sum of two independent sums, on a grid made for it."""
    points = _grid(a, b)
    cells = len(points)
    mass, moment, upward = np.zeros(cells), np.zeros(cells), np.zeros(cells)
    xa, qa, xb, qb = a.x[a.q > 0], a.q[a.q > 0], b.x[b.q > 0], b.q[b.q > 0]
    widths = np.diff(points)
    rows = max(1, _PAIRS // len(xb))
    for start in range(0, len(xa), rows):
        end = min(start + rows, len(xa))
        # Of a sum with itself each pair is formed once, but for those among the rows in hand.
        first = start if a is b else 0
        sums = (xa[start:end, None] + xb[first:]).ravel()
        weights = qa[start:end, None] * qb[first:]
        if a is b:
            weights[:, end - start :] *= 2.0
        weights = weights.ravel()
        cell = np.searchsorted(points, sums, side="right")
        cell -= 1
        np.clip(cell, 0, cells - 2, out=cell)
        if pessimistic:
            sums -= points[cell]
            sums /= widths[cell]
            np.clip(sums, 0.0, 1.0, out=sums)
            upward += np.bincount(cell, np.multiply(sums, weights, out=sums), cells)
        else:
            moment += np.bincount(cell, np.multiply(sums, weights, out=sums), cells)
        mass += np.bincount(cell, weights, cells)
    infinite = a.infinite + b.infinite
    if pessimistic:
        q = mass - upward
        q[1:] += upward[:-1]
        return _Atoms(points, np.maximum(q, 0.0), infinite)
    full = mass > 0
    return _Atoms(moment[full] / mass[full], mass[full], infinite)


def _grid(a: _Atoms, b: _Atoms) -> Array:
    """Points from 0 to the largest sum: dense where the sum lies, a constant ratio elsewhere."""
    top = float(a.x[a.q > 0][-1] + b.x[b.q > 0][-1])
    centres, widths = zip(*(_bulk(part) for part in (a, b)), strict=True)
    centre, width = sum(centres), math.hypot(*widths)
    width = min(max(width, 1e-12 * centre), top)
    smallest = max(_least(a) + _least(b), 1e-300)
    if width <= 1e-280 * top:
        # Where noise is next to none the bulk underflows: ratios are all that can be told apart.
        end = max(top, smallest) * (1.0 + 1e-12)
        depth = math.log(end) - math.log(smallest)
        cells = min(_MOST_CELLS, max(2, math.ceil(depth / _GEOMETRIC)))
        return np.unique([0.0, *np.geomspace(smallest, end, cells).tolist(), end])
    reach = math.asinh(max(top - centre, centre) / width)
    depth = math.log(max(centre / smallest, 1.0 + 1e-9))
    ratio = max(_GEOMETRIC, (reach + depth) / _MOST_CELLS)
    near_end = min(reach, math.asinh(40.0))
    fine = np.arange(-math.ceil(near_end / _FINE), math.ceil(near_end / _FINE) + 1) * _FINE
    beyond = np.arange(near_end, reach + ratio, ratio)
    near = centre + width * np.sinh(np.concatenate([-beyond, fine, beyond]))
    low = np.geomspace(
        smallest, max(centre, smallest * (1 + 1e-9)), max(2, math.ceil(depth / ratio))
    )
    inside = near[(near > smallest) & (near < top)]
    points = np.concatenate([[0.0], low, inside, [top * (1.0 + 1e-12)]])
    unique: Array = np.unique(points[points <= top * (1.0 + 1e-12)])
    return unique


def _bulk(part: _Atoms) -> tuple[float, float]:
    """The median under Q and half the width of the middle two thirds."""
    below = np.cumsum(part.q) / part.q.sum()
    low, middle, high = (
        float(part.x[np.searchsorted(below, share)]) for share in (0.16, 0.5, 0.84)
    )
    return middle, 0.5 * (high - low)


def _least(part: _Atoms) -> float:
    positive = part.x[(part.x > 0) & (part.q > 0)]
    return float(positive[0]) if len(positive) else 0.0


@lru_cache(maxsize=64)
def _sum_moments(base: LossLaw, batches: int) -> Array:
    """(α-1)·D_α of ((1/T)ΣQ…P…Q, Q^T) at α = 2, 3, …: log E[((ΣX)/T)^α].

    With m_k = E[X^k] = e^((k-1)D_k), E[(ΣX)^n] is n! times the n-th coefficient of
    (Σ m_k z^k / k!)^T: a product of series with positive coefficients, in which nothing cancels.
    """
    most = _MOST_MOMENTS
    k = np.arange(2, most + 1, dtype=float)
    logs = np.concatenate([[0.0, 0.0], (k - 1.0) * base.renyi(k)])
    n = np.arange(most + 1, dtype=float)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(n[1:]))])
    series = logs - log_factorial
    finite = np.isfinite(series)
    series = series[: int(np.argmin(finite))] if not finite.all() else series
    total = _doubled(series, batches, _log_product)
    order = np.arange(len(total)).astype(float)
    out: Array = (total + log_factorial[: len(total)] - order * math.log(batches))[2:]
    return np.maximum(out, 0.0)


def _log_product(a: Array, b: Array) -> Array:
    """Logarithms of the coefficients of a product of two series with positive ones."""
    size = len(a)
    out = np.empty(size)
    for n in range(size):
        terms = a[: n + 1] + b[n::-1] if n + 1 < size else a + b[::-1]
        top = terms.max()
        out[n] = top + math.log(float(np.exp(terms - top).sum()))
    return out
