"""The optimistic twin of connect-the-dots: a pair on the grid that the true pair dominates.

A pair is determined by its hockey-stick curve h(x), x = e^ε, which is convex; a pair on a grid
has a curve with kinks at grid points only. Connecting the dots of h gives a curve above h.
Lowering each dot by the depth that two neighbouring tangents show the curve can sag to below
its chords, and taking the convex hull, gives one below h. Both are within O(interval²).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from recondite.laws.errors import GridTooFineError

__all__ = ["lower_chords"]

Array = npt.NDArray[np.float64]


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
