"""Gaussian noise on the sum (or average) of clipped gradients: DP-SGD."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from recondite import _validate
from recondite.laws import GaussianLoss, LossLaw
from recondite.mechanisms.base import (
    Mechanism,
    MetricPrivacy,
    Neighbouring,
    Setting,
    UndefinedNotionError,
)
from recondite.numerics.ball import log_gaussian_ball_capacity
from recondite.numerics.random import random_source

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Adds noise of standard deviation σ·C to a sum of gradients clipped to C, then divides by L.

    In training C is one unit and L is 1, whatever the run's are: sums come in units of one
    record's bound, and the engine scales the release back. ``clip_norm``, ``batch_size`` and
    ``layer_norms`` are for sums that you clip and divide yourself; the engine sets its own.

    Guarantee: one record moves the sum by at most its clipping norm (twice that when it is
    replaced). With per-layer clipping the record's norm is the root-sum-square of the layers'
    norms, not their maximum.

    Attributes:
      noise_multiplier: σ, the noise's standard deviation over ``clip_norm``; larger is more noise.
      dim: Number of coordinates.
      clip_norm: C, the norm a record's gradient is clipped to; in training 1, or √m for m layers.
      batch_size: L, the constant by which sums are divided (None: the sum itself is released).
      max_batch_size: Enforced upper bound on the number of records in a batch. Capacity and
        information are not defined without it: the radius of what is leaked is C·max/L.
      layers: Sizes of the layers, for per-layer clipping.
      layer_norms: Norm each layer is clipped to; ``clip_norm`` for each when not given.
    """

    noise_multiplier: float
    dim: int | None = None
    clip_norm: float = 1.0
    batch_size: int | None = None
    max_batch_size: int | None = None
    layers: tuple[int, ...] | None = None
    layer_norms: tuple[float, ...] | None = None

    name: ClassVar[str] = "gaussian"
    parameter: ClassVar[str] = "noise_multiplier"
    weaker: ClassVar[Literal["larger", "smaller"]] = "smaller"
    title: ClassVar[str] = "Gaussian"
    heading: ClassVar[str] = "Gaussian (DP-SGD)"
    symbol: ClassVar[str] = "σ"
    explanation: ClassVar[str] = (
        "Random noise is put on every step of the training, so single records drown in it."
    )
    in_shares: ClassVar[bool] = True
    search_range: ClassVar[tuple[float, float]] = (1e-3, 1e3)

    def __post_init__(self) -> None:
        _validate.positive("noise_multiplier", self.noise_multiplier)
        _validate.positive("clip_norm", self.clip_norm)
        for name in ("batch_size", "max_batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _validate.at_least(name, getattr(self, name), 1))
        self._check_dim(1)
        self._check_layers()

    def _check_layers(self) -> None:
        if self.layers is None:
            if self.layer_norms is not None:
                raise ValueError("layer_norms needs layers: give the sizes of the layers too")
            return
        if not self.layers:
            raise ValueError("layers must have one size or more, got none")
        for size in self.layers:
            _validate.at_least("layers", size, 1)
        if self.dim is None:
            object.__setattr__(self, "dim", sum(self.layers))
        elif sum(self.layers) != self.dim:
            raise ValueError(f"layers must add up to dim {self.dim}, got {sum(self.layers)}")
        if self.layer_norms is None:
            object.__setattr__(self, "layer_norms", (self.clip_norm,) * len(self.layers))
        elif len(self.layer_norms) != len(self.layers):
            raise ValueError(f"layer_norms must have {len(self.layers)} values, one a layer")
        for norm in self.layer_norms or ():
            _validate.positive("layer_norms", norm)

    @property
    def sensitivity(self) -> float:
        """How far one record moves the sum, in units of ``clip_norm``."""
        if self.layer_norms is None:
            return 1.0
        return math.hypot(*self.layer_norms) / self.clip_norm

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on what is released."""
        return self.noise_multiplier * self.clip_norm / (self.batch_size or 1)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """N(μ, 1) against N(0, 1) with μ the sensitivity over σ; doubled under replace-one."""
        factor = 2.0 if relation is Neighbouring.REPLACE else 1.0
        return GaussianLoss(factor * self.sensitivity / self.noise_multiplier)

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The averaged gradient plus noise of standard deviation σC/L."""
        return random_source(gradient, generator).add_normal(gradient, self.noise_std)

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density with respect to Lebesgue measure, over the last axis."""
        variance = self.noise_std**2
        squared = ((release - gradient) ** 2).sum(-1)
        return -0.5 * squared / variance - 0.5 * gradient.shape[-1] * math.log(
            2 * math.pi * variance
        )

    def likelihood_blocks(self) -> tuple[int, ...] | None:
        """The whole vector."""
        return (self.required_dim(),)

    def log_likelihood_of_products(self, inner: Any, squared: Any, own: Any) -> Any:
        """(⟨r, g⟩ - ‖g‖²/2)/s²."""
        del own
        return ((inner - 0.5 * squared) / self.noise_std**2)[..., 0]

    def _balls(self) -> list[tuple[int, float]]:
        """Each layer's dimension, and the radius of its clipped sums over the noise."""
        if self.max_batch_size is None:
            raise UndefinedNotionError(
                "max_batch_size is not set: where batches have random sizes one may hold all "
                "records, so the averaged gradient lies in no known ball; enforce a maximum and "
                "give it"
            )
        scale = self.max_batch_size / (self.noise_multiplier * self.clip_norm)
        if self.layers is None or self.layer_norms is None:
            return [(self.required_dim(), self.clip_norm * scale)]
        return [(n, norm * scale) for n, norm in zip(self.layers, self.layer_norms, strict=True)]

    def log_bayes_capacity(self) -> float:
        """Of the noise on averages of norm at most C·max/L; per-layer capacities add in log."""
        return sum(log_gaussian_ball_capacity(dim, ratio) for dim, ratio in self._balls())

    def mutual_information(self) -> float:
        """(p/2)·ln(1 + R²/(p·s²)), the capacity under the power limit that the ball implies."""
        return sum(0.5 * dim * math.log1p(ratio * ratio / dim) for dim, ratio in self._balls())

    def metric_privacy(self) -> MetricPrivacy:
        """Not defined."""
        raise UndefinedNotionError(
            "Gaussian noise is not metric-private: its log-density ratio is unbounded"
        )

    def fisher_information(self) -> float:
        """1/std², in the numbers that ``perturb`` gets: in training, units of a record's bound."""
        return 1.0 / self.noise_std**2

    def configured(self, setting: Setting) -> Gaussian:
        """Noise of standard deviation σ·sensitivity on sums in units of one record's bound."""
        return replace(
            self,
            dim=setting.dim,
            clip_norm=setting.sensitivity,
            batch_size=None,
            max_batch_size=setting.max_batch_size,
            layers=setting.layers,
            layer_norms=None if setting.layers is None else (1.0,) * len(setting.layers),
        )

    def assumptions(self) -> tuple[str, ...]:
        """A maximum batch must not be enforced at the expense of other records."""
        if self.max_batch_size is None:
            return ()
        return (
            "sums of batches above the maximum are projected onto the ball it spans; no record is "
            "dropped (one would displace another and move the sum twice as far)",
        )

    def for_batches(self, largest: int) -> Gaussian:
        """A schedule with fixed batches bounds the batch by itself."""
        if self.max_batch_size is not None:
            return self
        return replace(self, max_batch_size=largest)
