"""Discrete pairs: two probability vectors on a grid of privacy losses.

A pair is determined by its hockey-stick curve h(x), x = e^ε, which is convex; a pair on a grid
has a curve with kinks at grid points only. Connecting the dots of h gives a curve above h.
Lowering each dot by the depth that two neighbouring tangents show the curve can sag to below
its chords, and taking the convex hull, gives one below h. Both are within O(interval²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["DiscretePair", "GridTooFineError", "connect_the_dots", "lower_chords", "mixed_loss"]

Array = npt.NDArray[np.float64]


class GridTooFineError(ValueError):
    """A grid of losses would need more cells, or larger numbers, than float64 and memory allow.

    Attributes:
      excess: How many times coarser a grid is asked for.
    """

    def __init__(self, message: str, excess: float = 4.0) -> None:
        super().__init__(message)
        self.excess = excess


def lower_chords(
    interval: float, start: int, dots: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """Masses (P, Q) of a dominated pair on the grid.

    Args:
      interval: Grid spacing.
      start: Grid index of the lower end of the first cell.
      dots: Mass of Q that lies on the grid already.
      low: Mass of Q that connect-the-dots sends from each cell to its lower end.
      high: Mass of Q that it sends to the upper end.
    """
    losses = interval * (start + np.arange(len(low) + 1, dtype=float))
    if losses[-1] > 700:
        raise GridTooFineError("an optimistic bound needs privacy losses below 700 in one step")
    x = np.exp(losses)
    width = np.diff(x)
    masses = dots + np.append(low, 0.0) + np.append(0.0, high)
    total = low + high
    sag = low * (high / np.where(total > 0, total, 1.0)) * width
    drop = np.maximum(np.append(sag, 0.0), np.append(0.0, sag))
    drop = _limit(drop, _excess(x, masses), low * width, high * width)
    slope = np.diff(drop) / width
    masses = masses - (np.append(slope, 0.0) - np.append(0.0, slope))
    masses = _convex(x, masses)
    return x * masses, masses


def _excess(x: Array, masses: Array) -> Array:
    """Height of the curve above max(0, 1 - x), summed from the nearer end (no cancellation)."""
    p = x * masses
    after_q = np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0)
    after_p = np.append(np.cumsum(p[::-1])[::-1][1:], 0.0)
    before_q = np.append(0.0, np.cumsum(masses)[:-1])
    before_p = np.append(0.0, np.cumsum(p)[:-1])
    right = after_p - x * after_q
    left = x * before_q - before_p
    out: Array = np.maximum(np.where(x >= 1.0, right, left), 0.0)
    return out


def _limit(drop: Array, excess: Array, after: Array, before: Array) -> Array:
    """Never drops below the floor, and keeps the chords next to a floored dot below the curve.

    A dot that cannot drop as far as its neighbours' sag asks for stays on the floor; the chord
    that leaves it must then be no steeper than the curve's own tangent there, which takes a drop
    of ``after`` at the next dot (and ``before`` at the previous one).
    """
    floored = np.zeros(len(drop), dtype=bool)
    for _ in range(100):
        now = drop >= excess
        now[0] = now[-1] = True
        if np.array_equal(now, floored):
            break
        floored = now
        drop[1:] = np.maximum(drop[1:], np.where(floored[:-1], after, 0.0))
        drop[:-1] = np.maximum(drop[:-1], np.where(floored[1:], before, 0.0))
    else:
        return excess
    return np.minimum(drop, excess)


def _convex(x: Array, masses: Array) -> Array:
    """Removes dots with negative mass (concave kinks), giving the lower convex hull."""
    m = masses.copy()
    left = np.arange(-1, len(m) - 1)
    right = np.arange(1, len(m) + 1)
    todo = [int(j) for j in np.flatnonzero(m[1:-1] < 0) + 1]
    while todo:
        j = todo.pop()
        if m[j] >= 0 or left[j] < 0 or right[j] >= len(m):
            continue
        i, k = int(left[j]), int(right[j])
        part = (x[k] - x[j]) / (x[k] - x[i])
        m[i] += m[j] * part
        m[k] += m[j] * (1.0 - part)
        m[j] = 0.0
        right[i], left[k] = k, i
        left[j], right[j] = -1, len(m)
        todo.extend(n for n in (i, k) if m[n] < 0)
    return np.maximum(m, 0.0)


# np.exp underflows silently below this; clipping keeps every intermediate finite.
_LOWEST = -745.0


@dataclass(frozen=True, eq=False)
class DiscretePair:
    """A pair (P, Q) whose losses lie at (start + j)·interval.

    Attributes:
      interval: Grid spacing.
      start: Grid index of the first loss.
      p: Mass of P at each loss.
      q: Mass of Q there, equal to p·exp(-loss) up to underflow of either.
      p_infinite: Mass of P where Q has none (loss +∞).
      q_infinite: Mass of Q where P has none (loss -∞).
    """

    interval: float
    start: int
    p: Array
    q: Array
    p_infinite: float
    q_infinite: float

    @property
    def losses(self) -> Array:
        """The finite losses, ascending."""
        return self.interval * (self.start + np.arange(len(self.p), dtype=float))

    def complete(self) -> DiscretePair:
        """The same pair with every bit of mass accounted for.

        Rounding is scaled away; mass that underflow or truncation lost goes to infinite loss,
        where it can only make a bound larger.
        """
        lost_p = 1.0 - float(self.p.sum()) - self.p_infinite
        lost_q = 1.0 - float(self.q.sum()) - self.q_infinite
        p, p_infinite = _filled(self.p, self.p_infinite, lost_p)
        q, q_infinite = _filled(self.q, self.q_infinite, lost_q)
        return DiscretePair(self.interval, self.start, p, q, p_infinite, q_infinite)

    def reverse(self) -> DiscretePair:
        """The pair (Q, P): losses change sign."""
        start = -(self.start + len(self.p) - 1)
        return DiscretePair(
            self.interval, start, self.q[::-1], self.p[::-1], self.q_infinite, self.p_infinite
        )

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """D_α(P‖Q) at orders above 1."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        if self.p_infinite > 0:
            return np.full(alpha.shape, np.inf)
        kept = self.q > 0
        log_q, losses = np.log(self.q[kept]), self.losses[kept]
        return np.array([_log_sum(log_q + a * losses) / (a - 1.0) for a in alpha])

    def fold(self) -> DiscretePair:
        """The pair of a relation that treats its two sides alike (replace-one).

        Keeps the hockey-stick curve of orders e^ε >= 1 and reflects it: the mass of P at -ℓ is
        the mass of Q at ℓ. This is how a bound proved for ε >= 0 in both directions becomes one
        pair that can be composed.
        """
        positive = max(0, 1 - self.start)
        p, q = self.p[positive:], self.q[positive:]
        first = self.start + positive
        if len(p) == 0:
            same = np.array([1.0 - self.p_infinite])
            infinite = self.p_infinite
            return DiscretePair(self.interval, 0, same, same.copy(), infinite, infinite)
        gap = np.zeros(first - 1)
        rest = max(0.0, 1.0 - float(p.sum()) - float(q.sum()) - self.p_infinite)
        masses = np.concatenate([q[::-1], gap, [rest], gap, p])
        reflected = masses[::-1].copy()
        start = -(first + len(p) - 1)
        infinite = self.p_infinite
        return DiscretePair(self.interval, start, masses, reflected, infinite, infinite)

    def reveal(self, rate: float) -> DiscretePair:
        """The pair used with probability ``rate``, both sides being told whether it was."""
        p, q, start = _cover_zero(self)
        p, q = rate * p, rate * q
        p[-start] += 1.0 - rate
        q[-start] += 1.0 - rate
        infinite = rate * self.p_infinite, rate * self.q_infinite
        return DiscretePair(self.interval, start, p, q, *infinite)

    def regrid(
        self, interval: float, weight: float = 1.0, *, pessimistic: bool = True
    ) -> DiscretePair:
        """The pair ((1-w)Q + wP, Q), moved onto another grid."""
        with np.errstate(divide="ignore"):
            log_p, log_q = np.log(self.p), np.log(self.q)
        losses = mixed_loss(self.losses, weight)
        mixed = log_p
        if weight < 1.0:
            # From both masses: either may have underflowed where the other has not.
            mixed = np.logaddexp(np.log1p(-weight) + log_q, np.log(weight) + log_p)
        grid = connect_the_dots(losses, mixed, log_q, interval, pessimistic=pessimistic)
        p_infinite = weight * self.p_infinite
        q_finite = self.q_infinite if weight == 1.0 else 0.0
        if weight < 1.0 and self.q_infinite > 0:
            # Where P has no mass the mixed loss is log(1 - w), not -∞.
            floor = np.array([np.log1p(-weight)])
            mass = np.log(np.array([self.q_infinite]))
            grid = _merge(grid, connect_the_dots(floor, mass + floor, mass, interval))
        return DiscretePair(interval, grid.start, grid.p, grid.q, p_infinite, q_finite)


def _filled(masses: Array, infinite: float, lost: float) -> tuple[Array, float]:
    if abs(lost) < 1e-9 and infinite + lost < 1.0 and masses.any():
        return masses * ((1.0 - infinite) / float(masses.sum())), infinite
    return masses, min(1.0, infinite + max(lost, 0.0))


def mixed_loss(losses: Array, weight: float) -> Array:
    """log(1 - w + w·e^ℓ), the loss of ((1-w)Q + wP, Q), without cancellation or overflow."""
    if weight == 1.0:
        return losses
    if weight == 0.0:
        return np.zeros_like(losses)
    large = losses > 30.0
    small = np.log1p(weight * np.expm1(np.where(large, 0.0, losses)))
    # As a sum of logarithms: 1 / w is infinite for the smallest weights.
    big = np.logaddexp(losses + math.log(weight), math.log1p(-weight))
    out: Array = np.where(large, big, small)
    return out


def connect_the_dots(
    losses: Array, log_p: Array, log_q: Array, interval: float, *, pessimistic: bool = True
) -> DiscretePair:
    """Moves atoms onto the grid by splitting each between its two neighbours.

    Guarantee: with ``pessimistic`` the result dominates the pair of atoms given: P and Q keep
    their totals and the hockey-stick curve is replaced by its chords, which adds about
    interval²/8 to the loss of an atom at most. Otherwise the result is dominated by it, at about
    the same distance.
    """
    index = np.floor(losses / interval + (0.0 if pessimistic else 1e-9))
    first = int(index.min())
    cell = (index - first).astype(np.int64)
    below = np.clip(losses - index * interval, 0.0, interval)
    above = interval - below
    # P's and Q's shares of the neighbour above and below. None is formed as one minus another: on
    # a coarse grid the small one is all that an atom close to a dot leaves to the far side.
    up, down = np.expm1(-below) / np.expm1(-interval), np.expm1(-above) / np.expm1(-interval)
    p, q = _masses(log_p), _masses(log_q)
    size = int(cell.max()) + 1
    p_low = np.bincount(cell, p * np.exp(-below) * down, size)
    p_high = np.bincount(cell, p * up, size)
    q_low = np.bincount(cell, q * down, size)
    q_high = np.bincount(cell, q * np.exp(-above) * up, size).astype(float)
    p_out = np.append(p_low, 0.0) + np.append(0.0, p_high)
    q_out = np.append(q_low, 0.0) + np.append(0.0, q_high)
    if not pessimistic:
        on_grid = below < 1e-9 * interval
        dots = np.append(np.bincount(cell[on_grid], q[on_grid], size), 0.0)
        q_low = np.maximum(q_low - dots[:-1], 0.0)
        p_out, q_out = lower_chords(interval, first, dots, q_low, q_high)
    return DiscretePair(interval, first, p_out, q_out, 0.0, 0.0)


def _masses(logs: Array) -> Array:
    return np.where(logs > _LOWEST, np.exp(np.maximum(logs, _LOWEST)), 0.0)


def _cover_zero(pair: DiscretePair) -> tuple[Array, Array, int]:
    before = max(0, pair.start)
    after = max(0, 1 - (pair.start + len(pair.p)))
    p = np.pad(pair.p, (before, after))
    q = np.pad(pair.q, (before, after))
    return p, q, pair.start - before


def _merge(a: DiscretePair, b: DiscretePair) -> DiscretePair:
    start = min(a.start, b.start)
    size = max(a.start + len(a.p), b.start + len(b.p)) - start
    p, q = np.zeros(size), np.zeros(size)
    for pair in (a, b):
        place = slice(pair.start - start, pair.start - start + len(pair.p))
        p[place] += pair.p
        q[place] += pair.q
    return DiscretePair(a.interval, start, p, q, 0.0, 0.0)


def _log_sum(values: Array) -> float:
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum()))
