"""Discrete pairs: two probability vectors on a grid of privacy losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite.laws.chords import lower_chords

__all__ = ["DiscretePair", "connect_the_dots", "mixed_loss"]

Array = npt.NDArray[np.float64]
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
    large = losses > 30.0
    small = np.log1p(weight * np.expm1(np.where(large, 0.0, losses)))
    decay = np.exp(-np.where(large, losses, 30.0))
    big = losses + np.log(weight) + np.log1p((1.0 - weight) / weight * decay)
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
