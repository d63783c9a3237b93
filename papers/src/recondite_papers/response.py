"""The law of randomised response: the pair that dominates everything with the same pure ε."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite import _validate
from recondite.laws import DiscretePair, GridTooFineError, LossLaw, ProductLoss
from recondite.laws.pair import connect_the_dots

__all__ = ["ResponseLoss"]

_MOST_CELLS = 4e6


@dataclass(frozen=True)
class ResponseLoss(LossLaw):
    """P = (e^ε, 1)/(1 + e^ε) against Q = (1, e^ε)/(1 + e^ε): losses ε and -ε.

    Guarantee: dominates every pair whose losses lie in [-ε, ε] (Kairouz, Oh and Viswanath, 2015);
    it is the pair itself for a sign that is kept with probability e^ε/(1 + e^ε).
    """

    epsilon: float

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)

    @property
    def supremum(self) -> float:
        """ε."""
        return self.epsilon

    def renyi(self, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Log of (e^((2α-1)ε') + e^(-(2α-1)ε'))/(e^ε' + e^-ε'), over α - 1, with ε' = ε/2."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        half = 0.5 * self.epsilon
        tilt = (2.0 * alpha - 1.0) * half
        # log cosh(tilt) - log cosh(half): formed from 2·sinh² of halves, where both are small.
        rise = _log_cosh(tilt) - float(_log_cosh(np.array([half]))[0])
        out: npt.NDArray[np.float64] = rise / (alpha - 1.0)
        return out

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """Two atoms, each split between its neighbours; nothing is left out."""
        del tail
        if 2.0 * self.epsilon / interval > _MOST_CELLS:
            excess = 2.0 * self.epsilon / interval / _MOST_CELLS
            raise GridTooFineError(f"interval {interval:g} is too fine for this law", excess)
        losses = np.array([-self.epsilon, self.epsilon])
        log_p = -np.logaddexp(0.0, -losses)
        return connect_the_dots(losses, log_p, log_p[::-1], interval, pessimistic=pessimistic)

    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """As a product of one factor."""
        return ProductLoss(((self, 1),)).mixture(weights)

    def together(self, records: int) -> LossLaw:
        """Every record is answered for by itself: losses add."""
        return self if records == 1 else ProductLoss(((self, records),))


def _log_cosh(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    small = np.minimum(np.abs(x), 1.0)
    near = np.log1p(2.0 * np.sinh(0.5 * small) ** 2)
    far = np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x))) - np.log(2.0)
    out: npt.NDArray[np.float64] = np.where(np.abs(x) < 1.0, near, far)
    return out
