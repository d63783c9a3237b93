"""What every privacy-loss law offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from recondite.laws.pair import DiscretePair

__all__ = ["Array", "LossLaw", "SampledOnce"]


Array = npt.NDArray[np.float64]


class LossLaw(ABC):
    """The privacy loss L = log dP/dQ of a dominating pair (P, Q).

    Guarantee: whatever the inputs, the hockey-stick divergence of the release, of every order
    e^ε > 0 and in both directions, is at most that of the pair this law describes.
    """

    @property
    @abstractmethod
    def supremum(self) -> float:
        """The largest loss in either direction: pure ε of one release, possibly infinite."""

    @property
    def infimum(self) -> float:
        """The smallest loss of P against Q."""
        return -self.supremum

    @property
    def variation(self) -> float:
        """At least the total variation distance of the pair: δ at ε = 0."""
        return 1.0

    @abstractmethod
    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Rényi divergence D_α(P‖Q) at real orders α > 1; the other direction is never larger."""

    def reach(self, tail: float) -> float:
        """A loss beyond which either side has mass ``tail`` at most (Chernoff)."""
        orders = 1.0 + np.geomspace(1e-3, 1e4, 40)
        bound = float(np.min(self.renyi(orders) - np.log(tail) / (orders - 1.0)))
        return min(bound, self.supremum)

    @abstractmethod
    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """The pair moved onto losses that are multiples of ``interval``.

        Args:
          interval: Distance between the losses of the grid.
          tail: Probability that may be left out at either end (it becomes infinite loss).
          pessimistic: True gives a pair that dominates this one, False one it dominates.
        """

    @abstractmethod
    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """The law when j of a person's records take part with probability ``weights[j]``.

        ``weights[0]`` is the probability that none does, which leaves Q: this is how Poisson
        sampling acts on a pair (P, Q), giving (Σ_j w_j P_j, Q) with P_0 = Q.
        """

    @abstractmethod
    def together(self, records: int) -> LossLaw:
        """The unsampled law of a batch that holds this many of a person's records."""


class SampledOnce(LossLaw):
    """A law to which sampling has been applied: it cannot be applied again."""

    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """Refused."""
        del weights
        raise ValueError("this law is sampled already: give the weights in one call")

    def together(self, records: int) -> LossLaw:
        """Refused: the number of records belongs into the weights of the sampling."""
        del records
        raise ValueError("this law is sampled already: apply group privacy before sampling")
