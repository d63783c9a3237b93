"""Two ways besides Poisson in which sampling changes a law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from recondite.laws.base import Array, LossLaw, SampledOnce
from recondite.laws.latent import order_groups
from recondite.laws.pair import DiscretePair

__all__ = ["FoldedLoss", "RevealedLoss", "SampledLaw", "without_replacement"]


@runtime_checkable
class SampledLaw(Protocol):
    """A law ((1-q)Q + qP, Q) that can be folded: it knows its rate and its atoms."""

    @property
    def rate(self) -> float:
        """Probability q of taking part."""

    @property
    def supremum(self) -> float:
        """The largest loss."""

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Rényi divergences at orders above 1."""

    def within_reach(self, orders: Array) -> npt.NDArray[np.bool_]:
        """At which orders the atoms carry the moment."""

    def atoms(self, order: float) -> tuple[Array, Array]:
        """Finite losses and log-masses of Q that serve orders up to ``order``."""

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """The pair on a grid of losses."""


def without_replacement(law: LossLaw, rate: float) -> LossLaw:
    """The law of fixed-size batches that hold a record with probability ``rate``.

    Args:
      law: The unsampled law of the replace-one pair.
      rate: Batch size over records; at 1 the batch is the whole data set and nothing is sampled.
    """
    sampled = law.mixture((1.0 - rate, rate))
    if rate == 1.0:
        return sampled
    if not isinstance(sampled, SampledLaw):
        kind = type(sampled).__name__
        raise ValueError(f"{kind} has no atoms to fold: use Poisson or shuffled batches")
    return FoldedLoss(sampled)


@dataclass(frozen=True)
class FoldedLoss(SampledOnce):
    """Fixed-size batches without replacement, under replace-one.

    For orders e^ε >= 1 the curve is that of ((1-q)Q + qP, Q); the relation treats its sides
    alike, so the rest of the curve is its reflection (Zhu, Dong and Wang, 2022).

    Attributes:
      sampled: The law of ((1-q)Q + qP, Q), P and Q being the replace-one pair.
    """

    sampled: SampledLaw

    @property
    def rate(self) -> float:
        """Probability of taking part."""
        return self.sampled.rate

    @property
    def supremum(self) -> float:
        """Folding keeps the largest loss."""
        return self.sampled.supremum

    @property
    def variation(self) -> float:
        """Where the batch holds neither record, both sides are equal."""
        return self.rate

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """By summation over the losses above 0 and their reflection.

        At orders that the atoms do not reach (far tails), the bound moment + 1 - (1-q)^α stands
        in: folding changes a moment by no more than the mass of Q at negative losses lets it.
        """
        alpha = np.atleast_1d(np.asarray(orders, float))
        whole = (alpha - 1.0) * self.sampled.renyi(alpha)
        with np.errstate(divide="ignore"):
            extra = np.log(-np.expm1(alpha * np.log1p(-self.rate)))
        out: Array = np.logaddexp(whole, extra)
        reached = np.flatnonzero(self.sampled.within_reach(alpha))
        for group in order_groups(alpha[reached]):
            inside = reached[group]
            if len(inside) == 0:
                continue
            losses, log_q = self.sampled.atoms(float(alpha[inside].max()))
            above = losses > 0
            for i in inside:
                moment = _folded_moment(float(alpha[i]), losses[above], log_q[above])
                out[i] = min(out[i], moment)
        return out / (alpha - 1.0)

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """The sampled pair on the grid, folded."""
        return self.sampled.discretise(interval, tail=tail, pessimistic=pessimistic).fold()


def _folded_moment(alpha: float, losses: Array, log_q: Array) -> float:
    """Log of 1 + Σ q·[e^{αℓ} - 1 + e^ℓ(e^{-αℓ} - 1)] over the losses ℓ > 0."""
    if len(losses) == 0:
        return 0.0
    if float(losses.max()) * alpha < 30.0:
        both = np.expm1(alpha * losses) + np.exp(losses) * np.expm1(-alpha * losses)
        return float(np.log1p(max(0.0, float((np.exp(log_q) * both).sum()))))
    top = float((log_q + alpha * losses).max())
    high = np.exp(log_q + alpha * losses - top).sum()
    low = (np.exp(log_q + losses) * np.expm1(-alpha * losses) - np.exp(log_q)).sum()
    return float(max(0.0, top + np.log(high + (1.0 + low) * np.exp(-top))))


@dataclass(frozen=True)
class RevealedLoss(SampledOnce):
    """A pair used with probability ``rate``, where it is no secret whether it was.

    This is Poisson sampling with noise on each record (DirDP-SGD) under replace-one: the two
    neighbours draw the same batch, so there is no amplification, only the chance of not taking
    part: δ(ε) <= Σ_k Bin(T, q)(k)·δ_k(ε).
    """

    base: LossLaw
    rate: float

    @property
    def supremum(self) -> float:
        """A record may take part every time."""
        return self.base.supremum

    @property
    def variation(self) -> float:
        """Where nobody takes part, both sides are equal."""
        return self.rate

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """log(1 - q + q·e^{(α-1)D_α}) / (α-1)."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        power = (alpha - 1.0) * self.base.renyi(alpha)
        large = power > 30.0
        small = np.log1p(self.rate * np.expm1(np.where(large, 0.0, power)))
        out: Array = np.where(large, power + np.log(self.rate), small) / (alpha - 1.0)
        if self.rate < 1.0:
            extra = np.log1p((1 - self.rate) / self.rate * np.exp(-np.where(large, power, 1e3)))
            out = out + np.where(large, extra, 0.0) / (alpha - 1.0)
        return out

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """The pair on the grid, diluted with loss 0."""
        return self.base.discretise(interval, tail=tail, pessimistic=pessimistic).reveal(self.rate)
