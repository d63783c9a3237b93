"""DirDP on single weights: every coordinate of a record's gradient is a block of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from recondite import _validate
from recondite.laws import LossLaw, ProductLoss
from recondite.mechanisms import Mechanism, MetricPrivacy, Neighbouring
from recondite.mechanisms.base import Stage, UndefinedNotionError
from recondite.numerics.random import is_torch, random_source
from recondite_papers.response import ResponseLoss

__all__ = ["SingleWeights"]

_MOST = 15.0


@dataclass(frozen=True)
class SingleWeights(Mechanism):
    """Keeps each coordinate's sign with probability e^κ/(e^κ + e^-κ); lengths are public.

    The partition of Faustini et al. (2023) that gives their Table 2, in the one form that has a
    guarantee: every released coordinate has the length 1/√p, a constant. A sphere in one dimension
    is two points, and von Mises-Fisher noise on it is randomised response.

    Guarantee: under replace-one, one participation of a record is dominated by p independent
    answers of loss ±2κ, and -g attains it: pure ε is 2κp (124,012 for LeNet at κ = 1). Averaging is
    post-processing. Under add/remove there is no finite ε, as for
    :class:`recondite.Directional`. With lengths as they are ε is infinite:
    :class:`recondite_papers.kept_lengths.KeptLengths`.

    Attributes:
      kappa: Concentration of the noise on each coordinate's sign.
      dim: Number of coordinates p.
    """

    kappa: float
    dim: int | None = None

    name: ClassVar[str] = "single-weights"
    parameter: ClassVar[str] = "kappa"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    title: ClassVar[str] = "directional, single weights"
    symbol: ClassVar[str] = "κ"
    search_range: ClassVar[tuple[float, float]] = (1e-6, _MOST)
    stage: ClassVar[Stage] = "record"
    scale_free: ClassVar[bool] = True
    bounded: ClassVar[bool] = False  # a bound changes no sign
    subject: ClassVar[str] = "the signs of one record's gradient"

    def __post_init__(self) -> None:
        if _validate.positive("kappa", self.kappa) > _MOST:
            raise ValueError(
                f"kappa must be {_MOST:g} or less, got {self.kappa:g}: signs would flip more "
                "rarely than a random number of double precision can say"
            )
        self._check_dim(1)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """One answer of loss ±2κ a coordinate, under replace-one only."""
        if relation is not Neighbouring.REPLACE:
            raise ValueError(
                "neighbouring must be replace-one for noise on each record's signs: under "
                "add-or-remove-one the sum reveals how many records took part, so no finite "
                "epsilon exists"
            )
        return ProductLoss(((ResponseLoss(2.0 * self.kappa), self.required_dim()),))

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The average over records (axis -2) of their noised signs; a zero has a random sign."""
        if gradient.ndim < 2:
            raise ValueError("gradient must have one row a record, got a single vector")
        dim = self.gradient_dim(gradient)
        if gradient.shape[-2] == 0:
            return gradient.sum(-2)
        source = random_source(gradient, generator)
        xp: Any = source.library
        if not bool(xp.isfinite(gradient).all()):
            raise ValueError("gradient must be finite")
        # Exponential variates of double precision: they exceed t with probability e^-t.
        drawn = source.exponential(math.prod(gradient.shape)).reshape(gradient.shape)
        kept = xp.where(drawn > math.log1p(math.exp(2.0 * self.kappa)), -1.0, 1.0)
        fair = xp.where(drawn > math.log(2.0), -1.0, 1.0)
        signs = xp.where(gradient == 0, fair, kept * xp.sign(gradient))
        released = signs.mean(-2) / math.sqrt(dim)
        return (
            released.to(gradient.dtype) if is_torch(released) else released.astype(gradient.dtype)
        )

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-probability of a release given per-record gradients (records on axis -2).

        Exact for one record without zeros. For several a normal law with the exact mean and
        variance stands in: an estimate.
        """
        dim, records = self.gradient_dim(gradient), gradient.shape[-2]
        xp: Any = random_source(gradient, None).library
        signs = xp.sign(gradient)
        if records == 1:
            agree = (xp.sign(release) * signs[..., 0, :]).sum(-1)
            answer = -float(np.logaddexp(self.kappa, -self.kappa))
            return self.kappa * agree + dim * answer
        kept = math.tanh(self.kappa)
        variance = max(1.0 - kept**2, 1e-300) / (records * dim)
        centre = kept * signs.mean(-2) / math.sqrt(dim)
        squared = ((release - centre) ** 2).sum(-1)
        return -0.5 * squared / variance - 0.5 * dim * math.log(2 * math.pi * variance)

    def log_bayes_capacity(self) -> float:
        """Of p·ln(2·P(kept)): a binary symmetric channel for each sign."""
        return self.required_dim() * (math.log(2.0) - math.log1p(math.exp(-2.0 * self.kappa)))

    def mutual_information(self) -> float:
        """Of p·(ln 2 - entropy of a flip)."""
        # The entropy is ln(2·cosh κ) - κ·tanh κ.
        rest = self.kappa + math.log1p(math.exp(-2.0 * self.kappa))
        each = math.log(2.0) - rest + self.kappa * math.tanh(self.kappa)
        return self.required_dim() * max(each, 0.0)

    def metric_privacy(self) -> MetricPrivacy:
        """κ times the sum of differences between signs."""
        return MetricPrivacy(
            float(self.kappa),
            "sum over coordinates of differences between signs",
            "the signs of one record's gradient and another's",
            2.0 * self.kappa * self.required_dim(),
        )

    def fisher_information(self) -> float:
        """Not defined."""
        raise UndefinedNotionError("signs are discrete: there is no Fisher information")
