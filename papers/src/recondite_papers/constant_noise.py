"""Gaussian noise of one size on gradients that nothing bounds: what many papers try."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from recondite import _validate
from recondite.laws import InfiniteLoss, LossLaw
from recondite.mechanisms import Mechanism, MetricPrivacy, Neighbouring, Setting
from recondite.mechanisms.base import UndefinedNotionError
from recondite.numerics.random import random_source

__all__ = ["ConstantNoise"]


@dataclass(frozen=True)
class ConstantNoise(Mechanism):
    """Adds noise of a fixed size to a batch's averaged gradient, whatever the batch size.

    No guarantee: records are not clipped, so that one of them may move the average by any amount.
    ε, Bayes' capacity and information are infinite whatever that is.
    :class:`recondite.Gaussian` is the mechanism with a guarantee.

    Attributes:
      deviation: Standard deviation of the noise on each coordinate of the average.
      dim: Number of coordinates.
      batch_size: What the sum that gets the noise is divided by afterwards; None where the average
        itself is given.
    """

    deviation: float
    dim: int | None = None
    batch_size: int | None = None

    name: ClassVar[str] = "constant-noise"
    parameter: ClassVar[str] = "deviation"
    weaker: ClassVar[Literal["larger", "smaller"]] = "smaller"
    private: ClassVar[bool] = False
    bounds_gradients: ClassVar[bool] = False
    title: ClassVar[str] = "constant noise"

    def __post_init__(self) -> None:
        _validate.positive("deviation", self.deviation)
        self._check_dim(1)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """Infinite: no bound on a record, no sensitivity."""
        del relation
        return InfiniteLoss()

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on what ``perturb`` is given."""
        return self.deviation * (self.batch_size or 1)

    def configured(self, setting: Setting) -> ConstantNoise:
        """For sums: noise that has that size once they are divided."""
        return replace(self, dim=setting.dim, batch_size=setting.batch_size)

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The gradient plus noise."""
        noise = random_source(gradient, generator).normal_like(gradient)
        noise *= self.noise_std
        noise += gradient
        return noise

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density with respect to Lebesgue measure, over the last axis."""
        variance = self.noise_std**2
        squared = ((release - gradient) ** 2).sum(-1)
        return -0.5 * squared / variance - 0.5 * gradient.shape[-1] * math.log(
            2 * math.pi * variance
        )

    def log_bayes_capacity(self) -> float:
        """Infinite: averages lie in no ball."""
        return math.inf

    def mutual_information(self) -> float:
        """Infinite."""
        return math.inf

    def metric_privacy(self) -> MetricPrivacy:
        """Not defined."""
        raise UndefinedNotionError(
            "Gaussian noise is not metric-private: its log-density ratio is unbounded"
        )

    def fisher_information(self) -> float:
        """1/deviation², about the averaged gradient: it needs no bound on a record."""
        return 1.0 / self.deviation**2
