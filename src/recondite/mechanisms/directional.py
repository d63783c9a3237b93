"""DirDP-SGD: von Mises-Fisher noise on every record's gradient direction, then the average."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from recondite import _validate
from recondite.laws import LossLaw
from recondite.mechanisms.base import (
    Mechanism,
    MetricPrivacy,
    Neighbouring,
    Setting,
    Stage,
    UndefinedNotionError,
)
from recondite.mechanisms.blocks import block_sizes, named_blocks, product_law, split
from recondite.mechanisms.gaussian import Gaussian
from recondite.mechanisms.partitioned import block_weights, join_blocks, sample_blocks
from recondite.mechanisms.vmf import log_density, vmf_information
from recondite.numerics.bessel import bessel_ratio, log_0f1
from recondite.numerics.device_noise import draw_vmf, fused
from recondite.numerics.random import is_torch
from recondite.numerics.sphere_sum import sum_vmf

__all__ = ["Directional"]


@dataclass(frozen=True)
class Directional(Mechanism):
    """Averages per-record directions, each noised on its own (Faustini et al., 2023).

    Guarantee: under replace-one, one participation of a record is dominated by the product of
    its blocks' antipodal pairs (pure ε 2κm for m blocks); averaging is post-processing. Under
    add/remove there is no finite ε: the norm of a sum of n noised unit vectors reveals n.

    Attributes:
      kappa: Concentration of the noise on each record (and block).
      dim: Number of coordinates.
      blocks: Number of nearly equal blocks, their sizes, or "layers" or "rows" of a model; their
        weights are public constants.
    """

    kappa: float
    dim: int | None = None
    blocks: int | tuple[int, ...] | str = 1

    name: ClassVar[str] = "directional"
    parameter: ClassVar[str] = "kappa"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    title: ClassVar[str] = "directional"
    heading: ClassVar[str] = "Directional, per record"
    symbol: ClassVar[str] = "κ"
    explanation: ClassVar[str] = (
        "What each single record teaches the model is turned at random before it is summed."
    )
    search_range: ClassVar[tuple[float, float]] = (1.0, 1e7)
    stage: ClassVar[Stage] = "record"
    scale_free: ClassVar[bool] = True
    bounded: ClassVar[bool] = False  # a bound changes no direction
    subject: ClassVar[str] = "one record's gradient direction"

    def __post_init__(self) -> None:
        _validate.positive("kappa", self.kappa)
        self._check_dim(2)
        if self.dim is not None:
            block_sizes(self.dim, self.blocks)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the blocks."""
        return block_sizes(self.required_dim(), self.blocks)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """The product of antipodal pairs of one record, under replace-one only."""
        if relation is not Neighbouring.REPLACE:
            raise ValueError(
                "neighbouring must be replace-one for per-record directional noise: under "
                "add-or-remove-one the norm of the sum reveals how many records took part, "
                "so no finite epsilon exists"
            )
        sizes = self.sizes
        return product_law(sizes, (float(self.kappa),) * len(sizes))

    def configured(self, setting: Setting) -> Directional:
        """Blocks named "layers" or "rows" become the sizes of the run's own."""
        return replace(self, dim=setting.dim, blocks=named_blocks(self.blocks, setting.shapes))

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The average over records (axis -2) of their noised directions."""
        if gradient.ndim < 2:
            raise ValueError("gradient must have one row a record, got a single vector")
        return self._noised(gradient, generator, "refuse", average=True)

    def release(self, gradient: Any, generator: Any = None) -> Any:
        """As ``perturb``; a record (or block of one) that is zero gets a uniform direction.

        A batch without records has the zero average.
        """
        if gradient.shape[-2] == 0:
            return gradient.sum(-2)
        return self._noised(gradient, generator, "uniform", average=True)

    def perturb_records(self, gradients: Any, generator: Any = None) -> Any:
        """A noised direction for each record's gradient, before averaging."""
        return self._noised(gradients, generator, "refuse", average=False)

    def _noised(self, gradients: Any, generator: Any, zero: str, *, average: bool) -> Any:
        sizes = block_sizes(self.gradient_dim(gradients), self.blocks)
        kappas = (float(self.kappa),) * len(sizes)
        if not average or gradients.ndim != 2:
            drawn = sample_blocks(gradients, sizes, kappas, generator, zero=zero)
            return drawn.mean(-2) if average else drawn
        records = len(gradients)
        if is_torch(gradients) and fused(gradients, generator):
            weights = [weight / records for weight in block_weights(sizes)]
            return draw_vmf(
                gradients, sizes, kappas, generator, weights=weights, zero=zero, total=True
            )
        pieces = split(gradients, sizes)
        sums = (sum_vmf(piece, self.kappa, generator, zero=zero) for piece in pieces)
        return join_blocks((total / records for total in sums), sizes)

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density of an averaged release given per-record gradients (records on axis -2).

        Exact for one record. For several the density has no closed form; an isotropic normal law
        with the exact mean and the exact total variance stands in for it: an estimate.
        """
        sizes = block_sizes(self.gradient_dim(gradient), self.blocks)
        records = gradient.shape[-2]
        pairs = zip(split(release, sizes), split(gradient, sizes), strict=True)
        terms = []
        for size, (out, rows) in zip(sizes, pairs, strict=True):
            if records == 1:
                terms.append(log_density(out, rows[..., 0, :], self.kappa))
                continue
            weight = (size / gradient.shape[-1]) ** 0.5
            units = rows / ((rows * rows).sum(-1) ** 0.5)[..., None]
            shrink = float(bessel_ratio(0.5 * size - 1.0, self.kappa))
            centre = weight * shrink * units.mean(-2)
            variance = weight**2 * (1.0 - shrink**2) / (records * size)
            squared = ((out - centre) ** 2).sum(-1)
            terms.append(-0.5 * squared / variance - 0.5 * size * np.log(2 * np.pi * variance))
        return sum(terms[1:], terms[0])

    def stand_in(self, records: int) -> tuple[Mechanism, float] | None:
        """Normal noise with the exact mean and total variance; None for several blocks."""
        if len(self.sizes) != 1:
            return None
        dim = self.required_dim()
        shrink = float(bessel_ratio(0.5 * dim - 1.0, self.kappa))
        deviation = (max(records, 1) * (1.0 - shrink**2) / dim) ** 0.5
        return Gaussian(deviation / shrink, dim=dim), 1.0 / shrink

    def log_bayes_capacity(self) -> float:
        """Of one record's gradient direction in one release it takes part in."""
        sizes = np.array(self.sizes, float)
        return float((self.kappa - log_0f1(sizes, self.kappa)).sum())

    def mutual_information(self) -> float:
        """About one record's gradient direction, from one release it takes part in."""
        return sum(vmf_information(size, self.kappa) for size in self.sizes)

    def metric_privacy(self) -> MetricPrivacy:
        """κ times the distance between one record's gradient directions."""
        return MetricPrivacy(
            float(self.kappa),
            "Euclidean and angular distance, summed over blocks",
            "one record's gradient direction and another's",
            2.0 * self.kappa * len(self.sizes),
        )

    def fisher_information(self) -> float:
        """κ·A_p(κ) for one record alone (other records only add noise); flat noise only."""
        sizes = self.sizes
        if len(sizes) > 1:
            raise UndefinedNotionError("Fisher information differs between blocks: ask each block")
        return float(self.kappa * bessel_ratio(0.5 * sizes[0] - 1.0, self.kappa))
