"""The law of a release without noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite.laws.base import Array, LossLaw
from recondite.laws.pair import DiscretePair

__all__ = ["InfiniteLoss"]


@dataclass(frozen=True)
class InfiniteLoss(LossLaw):
    """P and Q share no outcome, except that with probability 1 - ``rate`` they are equal."""

    rate: float = 1.0

    @property
    def supremum(self) -> float:
        """Infinite."""
        return math.inf

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Infinite at every order."""
        return np.full(np.atleast_1d(np.asarray(orders, float)).shape, np.inf)

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """All the participating mass at infinite loss."""
        del tail, pessimistic
        rest = np.array([1.0 - self.rate])
        return DiscretePair(interval, 0, rest, rest.copy(), self.rate, self.rate)

    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """Only whether a record takes part matters."""
        return InfiniteLoss(self.rate * (1.0 - float(weights[0])))

    def within_reach(self, orders: Array) -> npt.NDArray[np.bool_]:
        """No order is reached by atoms."""
        return np.zeros(np.shape(orders), dtype=np.bool_)

    def atoms(self, order: float) -> tuple[Array, Array]:
        """The only finite loss is that of not taking part, 0."""
        del order
        with np.errstate(divide="ignore"):
            return np.zeros(1), np.log1p(np.array([-self.rate]))

    def together(self, records: int) -> InfiniteLoss:
        """Nothing gets worse than infinite."""
        del records
        return self
