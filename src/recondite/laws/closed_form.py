"""Laws with a closed form: the Gaussian pair, and a release without noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite import _validate
from recondite.laws.base import Array, LossLaw
from recondite.laws.latent import LatentLoss
from recondite.laws.pair import DiscretePair

__all__ = ["GaussianLoss", "InfiniteLoss"]


@dataclass(frozen=True)
class GaussianLoss(LatentLoss):
    """P_j = N(j·μ, 1) against Q = N(0, 1): μ is the sensitivity over the noise's own size.

    For j records of one person the worst case has all of them aligned, which is P_j.
    """

    mu: float

    def __post_init__(self) -> None:
        _validate.positive("mu", self.mu)

    @property
    def supremum(self) -> float:
        """Gaussian noise has no pure guarantee."""
        return math.inf

    @property
    def width(self) -> float:
        """One standard deviation."""
        return 1.0

    def log_q(self, x: Array) -> Array:
        """Standard normal log-density."""
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi)

    def loss(self, x: Array, records: int = 1) -> Array:
        """μ·x - μ²/2 with μ times the number of records."""
        mu = records * self.mu
        return mu * x - 0.5 * mu * mu

    def inverse(self, losses: Array) -> Array:
        """The latent point of a loss."""
        return losses / self.mu + 0.5 * self.mu

    def span(self, drop: float, order: float, records: int = 1) -> tuple[float, float]:
        """Modes at 0 and order·μ, with the half-width that leaves e^(-drop)."""
        half = math.sqrt(2.0 * drop) + 0.5
        return -half, max(1.0, order) * records * self.mu + half

    def together(self, records: int) -> GaussianLoss:
        """Aligned records: the mean moves that many times as far."""
        return GaussianLoss(records * self.mu)

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """α·μ²/2."""
        out: Array = np.atleast_1d(np.asarray(orders, float)) * (0.5 * self.mu * self.mu)
        return out


@dataclass(frozen=True)
class InfiniteLoss(LossLaw):
    """P and Q share no outcome, except that with probability 1 - ``rate`` they are equal."""

    rate: float = 1.0

    @property
    def supremum(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def variation(self) -> float:
        """Where nobody takes part, both sides are equal."""
        return self.rate

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
        return InfiniteLoss(self.rate * math.fsum(weights[1:]))

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
