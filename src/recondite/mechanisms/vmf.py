"""Von Mises-Fisher noise on the averaged gradient's direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from recondite import _validate
from recondite.laws import LossLaw, SphereLoss
from recondite.mechanisms.base import Mechanism, MetricPrivacy, Neighbouring
from recondite.numerics.bessel import bessel_ratio, log_0f1
from recondite.numerics.random import is_torch
from recondite.numerics.sphere import sample_vmf

__all__ = ["VonMisesFisher", "log_density", "log_density_of_products", "vmf_information"]


@dataclass(frozen=True)
class VonMisesFisher(Mechanism):
    """Releases a unit vector drawn from VMF(averaged gradient / its norm, κ).

    Guarantee: one record can turn the average by at most a half turn, so every pair of
    neighbouring batches is dominated by the antipodal pair; clipping and batch size do not
    matter. Holds under add/remove and under replace-one. An empty batch or a zero average must
    release a uniform direction (which the same pair dominates); ``perturb`` itself refuses it.

    Attributes:
      kappa: Concentration κ > 0; larger is less noise.
      dim: Number of coordinates, at least 2.
    """

    kappa: float
    dim: int | None = None

    name: ClassVar[str] = "vmf"
    parameter: ClassVar[str] = "kappa"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    title: ClassVar[str] = "VMF"
    symbol: ClassVar[str] = "κ"
    explanation: ClassVar[str] = (
        "Of every step of the training only the direction counts, and it is turned at random."
    )
    search_range: ClassVar[tuple[float, float]] = (1.0, 1e7)
    scale_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate.positive("kappa", self.kappa)
        self._check_dim(2)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """The antipodal pair, under either relation."""
        del relation
        return SphereLoss(self.required_dim(), float(self.kappa))

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """A unit vector around the direction of ``gradient``, exact, in O(p)."""
        self.gradient_dim(gradient)
        return sample_vmf(gradient, self.kappa, generator)

    def release(self, gradient: Any, generator: Any = None) -> Any:
        """As ``perturb``; a zero gradient gets a uniform direction."""
        self.gradient_dim(gradient)
        return sample_vmf(gradient, self.kappa, generator, zero="uniform")

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density with respect to the uniform law on the sphere; 0 for a zero gradient."""
        self.gradient_dim(gradient)
        return log_density(release, gradient, self.kappa)

    def likelihood_blocks(self) -> tuple[int, ...] | None:
        """The whole vector."""
        return (self.required_dim(),)

    def log_likelihood_of_products(self, inner: Any, squared: Any, own: Any) -> Any:
        """κ·cos - Λ_p(κ); 0 for a zero gradient."""
        return log_density_of_products(inner, squared, own, (self.required_dim(),), (self.kappa,))

    def log_bayes_capacity(self) -> float:
        """κ - Λ_p(κ), an equality when averaged directions fill the sphere."""
        return float(self.kappa - log_0f1(self.required_dim(), self.kappa))

    def mutual_information(self) -> float:
        """κ·A_p(κ) - Λ_p(κ): the channel capacity, attained by the uniform prior (symmetry)."""
        return vmf_information(self.required_dim(), self.kappa)

    def metric_privacy(self) -> MetricPrivacy:
        """κ times the distance between averaged directions."""
        return MetricPrivacy(
            float(self.kappa),
            "Euclidean and angular distance",
            "averaged gradient directions of two batches",
            2.0 * self.kappa,
        )

    def fisher_information(self) -> float:
        """κ·A_p(κ) along the sphere."""
        return float(self.kappa * bessel_ratio(0.5 * self.required_dim() - 1.0, self.kappa))


def vmf_information(dim: int, kappa: float) -> float:
    """Mutual information of a uniform direction and its noisy copy, in nats.

    Both terms are of the order of κ²/p and differ by half of it, so nothing cancels.
    """
    mean = float(bessel_ratio(0.5 * dim - 1.0, kappa))
    return float(kappa * mean - log_0f1(dim, kappa))


def log_density_of_products(
    inner: Any, squared: Any, own: Any, sizes: Sequence[int], kappas: Sequence[float]
) -> Any:
    """Sum over parts of κ·cos - Λ(κ), from inner products; a part that is zero adds nothing."""
    total = 0.0
    for part, (size, kappa) in enumerate(zip(sizes, kappas, strict=True)):
        square = squared[..., part]
        there = square > 0
        cosine = inner[..., part] / ((square + ~there) * own[..., part]) ** 0.5
        total = total + (kappa * cosine - float(log_0f1(size, kappa))) * there
    return total


def log_density(release: Any, gradient: Any, kappa: float) -> Any:
    """κ·cos(release, gradient) - Λ_p(κ), over the last axis.

    A zero gradient has no direction: its release is uniform, so its log-density is 0.
    """
    # Only the direction matters: squares of a tiny or huge gradient must not under- or overflow.
    scale = gradient.detach().abs().amax(-1) if is_torch(gradient) else abs(gradient).max(-1)
    direction = gradient / (scale + (scale == 0))[..., None]
    norm = (direction * direction).sum(-1) ** 0.5
    norms = (norm + (scale == 0)) * (release * release).sum(-1) ** 0.5
    cosine = (release * direction).sum(-1) / norms
    return (kappa * cosine - float(log_0f1(gradient.shape[-1], kappa))) * (scale != 0)
