"""Independent releases noised side by side: losses add."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.special import gammaln

from recondite.laws.base import Array, LossLaw, SampledOnce
from recondite.laws.pair import DiscretePair, GridTooFineError, mixed_loss

__all__ = ["ProductLoss", "SampledProduct"]

# Orders above this are not used for sampled products; conversions have their best order below.
_MOST_ORDER = 2048
_MOST_CELLS = 4e5  # of the grid that sampled products are made on
_MOST_SIZE = 4e6  # of any


@dataclass(frozen=True)
class ProductLoss(LossLaw):
    """The product of pairs, each with a multiplicity: (P₁^m₁ ⊗ P₂^m₂ …, Q₁^m₁ ⊗ …)."""

    factors: tuple[tuple[LossLaw, int], ...]

    @property
    def supremum(self) -> float:
        """Pure losses add."""
        return sum(count * law.supremum for law, count in self.factors)

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Rényi divergences add."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        total = np.zeros_like(alpha)
        for law, count in self.factors:
            total += count * law.renyi(alpha)
        return total

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """Each factor on the grid, convolved."""
        count = sum(n for _, n in self.factors)
        pairs = [
            (law.discretise(interval, tail=tail / count, pessimistic=pessimistic), n)
            for law, n in self.factors
        ]
        return _convolve(pairs, tail, self.reach(tail), pessimistic)

    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """Sampling acts on the product, never on each factor."""
        # With several records the worst number of them stands for all: an upper bound.
        joint = self.together(len(weights) - 1)
        return joint if weights[0] == 0 else SampledProduct(joint, math.fsum(weights[1:]))

    def together(self, records: int) -> ProductLoss:
        """Every factor holds as many of the person's records."""
        return ProductLoss(tuple((law.together(records), count) for law, count in self.factors))


@dataclass(frozen=True)
class SampledProduct(SampledOnce):
    """((1-w)Q + wP, Q) for a product pair (P, Q)."""

    base: ProductLoss
    rate: float

    @property
    def supremum(self) -> float:
        """ln(1 + w(e^ε - 1))."""
        return float(mixed_loss(np.array([self.base.supremum]), self.rate)[0])

    @property
    def infimum(self) -> float:
        """ln(1 - w(1 - e^-ε))."""
        return float(mixed_loss(np.array([self.base.infimum]), self.rate)[0])

    @property
    def variation(self) -> float:
        """Where nobody takes part, both sides are equal."""
        return self.rate

    def within_reach(self, orders: Array) -> npt.NDArray[np.bool_]:
        """At which orders the far tail that ``atoms`` leaves out does not matter."""
        out: npt.NDArray[np.bool_] = (orders - 1.0) * self.renyi(orders) <= 0.1
        return out

    def atoms(self, order: float) -> tuple[Array, Array]:
        """Losses and log-masses of Q on the fine grid, the far tail left out."""
        del order
        fine = _fine_grid(self.base, 1e-25, True)
        kept = fine.q > 0
        return mixed_loss(fine.losses[kept], self.rate), np.log(fine.q[kept])

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """At integers the binomial sum is exact; between them (α-1)·D_α is convex in α."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        return np.array([self._renyi(float(a)) for a in alpha])

    def _renyi(self, order: float) -> float:
        low = max(2, int(np.floor(order)))
        if order <= 2.0 or order == low:
            return self._integer(low)
        weight = order - low
        below, above = (low - 1) * self._integer(low), low * self._integer(low + 1)
        return ((1.0 - weight) * below + weight * above) / (order - 1.0)

    def _integer(self, order: int) -> float:
        if order > _MOST_ORDER:
            return np.inf
        return subsampled_integer_renyi(order, self.rate, _moments(self.base)[: order - 1])

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """The product on a fine grid, sampled there, then moved to the grid asked for."""
        fine = _fine_grid(self.base, tail, pessimistic)
        return fine.regrid(interval, self.rate, pessimistic=pessimistic)


@lru_cache(maxsize=64)
def _moments(law: ProductLoss) -> Array:
    """(k-1)·D_k at integers k = 2 … _MOST_ORDER."""
    k = np.arange(2, _MOST_ORDER + 1, dtype=float)
    out: Array = (k - 1.0) * law.renyi(k)
    return out


@lru_cache(maxsize=8)
def _fine_grid(law: ProductLoss, tail: float, pessimistic: bool) -> DiscretePair:
    """The unsampled product on its own grid, fine against its spread or its whole extent."""
    deviation = float(np.sqrt(2.0 * max(float(law.renyi([1.0001])[0]), 1e-300)))
    factors = sum(count for _, count in law.factors)
    interval = min(deviation, 1.0) / (128.0 * np.sqrt(factors))
    if pessimistic:
        interval = max(interval, 2.0 * law.reach(tail) / _MOST_CELLS)
    return law.discretise(interval, tail=tail, pessimistic=pessimistic)


def subsampled_integer_renyi(order: int, rate: float, moments: Array) -> float:
    """D_α((1-q)Q + qP ‖ Q) at integer α from (k-1)·D_k(P‖Q), k = 2…α; no factor 3."""
    k = np.arange(order + 1, dtype=float)
    log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    powers = np.concatenate([[0.0, 0.0], moments])
    if rate == 1.0:
        return float(powers[-1] / (order - 1))
    # Σ_k C(α,k)(1-q)^(α-k) q^k (e^m_k - 1) = E - 1, since the binomial weights sum to one.
    logs = log_binomial + (order - k) * np.log1p(-rate) + k * np.log(rate)
    top = float((logs + powers).max())
    if not np.isfinite(top):
        return float(np.inf)
    if float(powers.max()) < 500.0 and top < 30.0:
        return float(np.log1p((np.exp(logs) * np.expm1(powers)).sum()) / (order - 1))
    return float((top + np.log(np.exp(logs + powers - top).sum())) / (order - 1))


def _convolve(
    pairs: list[tuple[DiscretePair, int]], tail: float, reach: float, pessimistic: bool
) -> DiscretePair:
    """Joins pairs by FFT and keeps losses within ``reach`` (Chernoff: beyond it lies < tail)."""
    interval, count = pairs[0][0].interval, sum(n for _, n in pairs)
    bottom = sum(n * pair.start for pair, n in pairs)
    top = sum(n * (pair.start + len(pair.p) - 1) for pair, n in pairs)
    # A loss on the grid lies within a cell of the one that it stands for, in every factor.
    start = max(bottom, int(np.floor(-reach / interval)) - count)
    size = min(top, int(np.ceil(reach / interval)) + count) - start + 1
    if size > _MOST_SIZE:
        message = f"interval {interval:g} is too fine for this product of laws"
        raise GridTooFineError(message, size / _MOST_SIZE)
    # What lies beyond the window folds back into it, where it is counted a second time.
    length = fft.next_fast_len(size, real=True)
    sides = []
    for side in ("p", "q"):
        spectrum = np.ones(length // 2 + 1, dtype=complex)
        for pair, n in pairs:
            place = (pair.start + np.arange(len(pair.p))) % length
            spectrum *= fft.rfft(np.bincount(place, getattr(pair, side), length)) ** n
        masses = np.roll(fft.irfft(spectrum, length), -(start % length))[:size]
        # What rounding may have taken from a cell is given back to every one: bounds stay bounds.
        rounding = 2.0**-52 * (16 + count) * float(np.linalg.norm(masses))
        sides.append(np.maximum(masses, 0.0) + (rounding if pessimistic else 0.0))
    p, q = sides
    # Each side is read where it is the larger of the two and gives the other through the loss, so
    # that neither is noise times e^|loss|.
    losses = interval * (start + np.arange(len(p), dtype=float))
    p = np.where(losses < 0, q * np.exp(np.minimum(losses, 0.0)), p)
    q = np.where(losses > 0, p * np.exp(-np.maximum(losses, 0.0)), q)
    p_infinite = sum(n * pair.p_infinite for pair, n in pairs) + tail
    q_infinite = sum(n * pair.q_infinite for pair, n in pairs) + tail
    return DiscretePair(interval, start, p, q, p_infinite, q_infinite)
