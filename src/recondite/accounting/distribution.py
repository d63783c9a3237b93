"""The law of a composed privacy loss, and the δ and ε that it gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["LossDistribution", "discounted_tail"]

Array = npt.NDArray[np.float64]

# Blocks this many nats long lose at most 1e-280 of δ a cell where products fall below the smallest
# numbers that floating point has; what all cells may lose is added to δ.
_BLOCK = 100.0
_UNDERFLOW = 1e-270
_NEGLIGIBLE = 41.5  # nats


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """The law of the composed loss in one direction, tilted by e^(tilt·loss).

    Attributes:
      losses: Grid of losses, ascending.
      masses: Tilted masses at those losses; they sum to about 1.
      tilt: The exponent of the tilt.
      log_scale: log of the factor by which the tilt was normalised.
      extra: Mass of infinite loss, the window's remainder included.
      rounding: What the transform's rounding may have taken from a tilted mass. It is given back
        to every cell: where the tilt is so strong that what lies a little lower drowns in it,
        bounds stay bounds and become loose.
    """

    losses: Array
    masses: Array
    tilt: float
    log_scale: float
    extra: float
    rounding: float = 0.0

    def _tails(self) -> tuple[Array, Array]:
        """At each loss ℓ: the mass at and above it, and that mass weighted by e^(ℓ - loss)."""
        exponent = np.clip(self.log_scale - self.tilt * self.losses, -745.0, 700.0)
        mass = (self.masses + self.rounding) * np.exp(exponent)
        interval = float(self.losses[1] - self.losses[0])
        return np.cumsum(mass[::-1])[::-1], discounted_tail(mass, interval)

    def delta(self, epsilon: npt.ArrayLike) -> Array:
        """δ(ε), an upper bound."""
        points = np.atleast_1d(np.asarray(epsilon, float))
        above, weighted = self._tails()
        index = np.searchsorted(self.losses, points, side="right")
        inside = np.minimum(index, len(self.losses) - 1)
        gap = np.exp(np.minimum(points - self.losses[inside], 0.0))
        value = np.where(index < len(self.losses), above[inside] - gap * weighted[inside], 0.0)
        if self.tilt > 0:
            # Below the window of a tilted law lies mass that this law does not know of.
            value = np.where(points < self.losses[0], 1.0, value)
        out: Array = np.clip(value + self.extra + _UNDERFLOW, 0.0, 1.0)
        return out

    def epsilon(self, delta: float) -> float:
        """The smallest ε >= 0 with δ(ε) at most ``delta``; infinite for a δ of 1e-270 or less."""
        target = delta * (1.0 - 1e-9) - self.extra - _UNDERFLOW
        if target <= 0:
            return math.inf
        above, weighted = self._tails()
        # δ at the grid losses is nonincreasing, and between neighbours it is linear in e^ε.
        first = int(np.argmax(above - weighted <= target))
        if first == 0:
            return max(0.0, float(self.losses[0]))
        value = (above[first] - target) / weighted[first]
        if value <= 0:
            return max(0.0, float(self.losses[first - 1]))
        return max(0.0, float(self.losses[first] + math.log(value)))


def discounted_tail(masses: Array, interval: float) -> Array:
    """Σ_{k>=j} m_k·e^(-(k-j)·interval) for every j, in blocks short enough not to overflow.

    Guarantee: never above the sum, which δ subtracts.
    """
    block = max(1, int(_BLOCK / interval))
    if block < 64:
        # A coarse grid: what is left out is 1e-18 of the masses above.
        near = masses.copy()
        for cells in range(1, min(len(masses), math.ceil(_NEGLIGIBLE / interval))):
            near[:-cells] += math.exp(-cells * interval) * masses[cells:]
        return near
    out = np.empty_like(masses)
    carry = 0.0
    for stop in range(len(masses), 0, -block):
        start = max(0, stop - block)
        decay = np.exp(-interval * np.arange(stop - start, dtype=float))
        sums = np.cumsum((masses[start:stop] * decay)[::-1])[::-1] / decay
        out[start:stop] = sums + carry * np.exp(-interval) * (decay[-1] / decay)
        carry = float(out[start])
    return out
