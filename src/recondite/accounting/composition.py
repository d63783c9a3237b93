"""A whole run as data: which laws were released, and how often; its Rényi curve to (ε, δ)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite.laws import LossLaw

__all__ = ["Composition", "epsilon_from_renyi", "rdp_epsilon"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Composition:
    """Adaptive composition of independent releases: the pairs multiply, the losses add.

    Attributes:
      parts: Each law with the number of times it was released.
    """

    parts: tuple[tuple[LossLaw, int], ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[LossLaw, int]]) -> Composition:
        """Joins parts that share a law and drops those that were never released."""
        counts: dict[LossLaw, int] = {}
        for law, count in parts:
            if count:
                counts[law] = counts.get(law, 0) + count
        return cls(tuple(counts.items()))

    def __add__(self, other: Composition) -> Composition:
        return Composition.of([*self.parts, *other.parts])

    @property
    def releases(self) -> int:
        """The number of releases composed."""
        return sum(count for _, count in self.parts)

    @property
    def supremum(self) -> float:
        """Pure ε of the run."""
        return sum(count * law.supremum for law, count in self.parts)

    @property
    def variation(self) -> float:
        """δ of the run at ε = 0, at most: that some release tells the two sides apart."""
        apart = [(law.variation, count) for law, count in self.parts]
        if any(each >= 1.0 for each, _ in apart):
            return 1.0
        return -math.expm1(sum(count * math.log1p(-each) for each, count in apart))

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Rényi divergence of the run."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        total = np.zeros_like(alpha)
        for law, count in self.parts:
            total += count * law.renyi(alpha)
        return total


_COARSE = 1.0 + np.geomspace(1e-5, 1e6, 56)


def epsilon_from_renyi(orders: npt.ArrayLike, renyi: npt.ArrayLike, delta: float) -> Array:
    """ε(δ) implied by D_α <= renyi at each order (Canonne, Kamath and Steinke, 2020, Prop. 12)."""
    alpha, tau = np.asarray(orders, float), np.asarray(renyi, float)
    out: Array = tau + np.log1p(-1.0 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1.0)
    return np.maximum(out, 0.0)


def rdp_epsilon(composition: Composition, delta: float) -> tuple[float, float]:
    """The smallest ε that the run's Rényi curve gives at δ, and the order that gives it.

    Guarantee: an upper bound on ε(δ); the order is optimised over the reals, not a grid.
    """
    if not composition.parts:
        return 0.0, math.inf
    orders = _COARSE
    values = epsilon_from_renyi(orders, composition.renyi(orders), delta)
    best = int(np.nanargmin(values))
    for _ in range(3):
        low, high = orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)]
        if not math.isfinite(values[best]) or high - low <= 1e-7 * high:
            break
        orders = 1.0 + np.geomspace(low - 1.0, high - 1.0, 17)
        values = epsilon_from_renyi(orders, composition.renyi(orders), delta)
        best = int(np.nanargmin(values))
    return float(values[best]), float(orders[best])
