"""Von Mises-Fisher noise on each block of the averaged gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
    UndefinedNotionError,
)
from recondite.mechanisms.blocks import block_sizes, named_blocks, product_law, split
from recondite.mechanisms.vmf import log_density, log_density_of_products, vmf_information
from recondite.numerics.bessel import log_0f1
from recondite.numerics.device_noise import draw_vmf, fused
from recondite.numerics.random import is_torch
from recondite.numerics.sphere import sample_vmf

__all__ = ["PartitionedVonMisesFisher", "block_weights", "join_blocks", "sample_blocks"]


@dataclass(frozen=True)
class PartitionedVonMisesFisher(Mechanism):
    """Releases a noisy direction for each block, with public weights.

    Guarantee: the product of the blocks' antipodal pairs dominates, under either relation:
    pure ε is 2·Σκ_i. The norms of the blocks are not released: block i has norm
    sqrt(size_i / dim), a constant. One flat block is best at equal κ.

    Attributes:
      kappa: Concentration of every block, or one for each.
      dim: Number of coordinates.
      blocks: Number of nearly equal blocks, their sizes, or "layers" or "rows" of a model.
    """

    kappa: float | tuple[float, ...]
    dim: int | None = None
    blocks: int | tuple[int, ...] | str = 2

    name: ClassVar[str] = "partitioned"
    parameter: ClassVar[str] = "kappa"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    title: ClassVar[str] = "partitioned VMF"
    symbol: ClassVar[str] = "κ"
    explanation: ClassVar[str] = (
        "Every step of the training is cut into pieces, and each is turned at random."
    )
    search_range: ClassVar[tuple[float, float]] = (1.0, 1e7)
    scale_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for kappa in self.kappa if isinstance(self.kappa, tuple) else (self.kappa,):
            _validate.positive("kappa", kappa)
        self._check_dim(2)
        if self.dim is not None:
            count = len(self.sizes)
            if isinstance(self.kappa, tuple) and len(self.kappa) != count:
                raise ValueError(f"kappa must have one value for each of {count} blocks")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the blocks."""
        return block_sizes(self.required_dim(), self.blocks)

    @property
    def kappas(self) -> tuple[float, ...]:
        """Concentration of each block."""
        if isinstance(self.kappa, tuple):
            return tuple(float(k) for k in self.kappa)
        return (float(self.kappa),) * len(self.sizes)

    @property
    def strength(self) -> float:
        """κ, where all blocks share it."""
        if isinstance(self.kappa, tuple):
            raise ValueError("kappa differs between blocks: calibrate with one value for all")
        return float(self.kappa)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """The product of antipodal pairs, under either relation."""
        del relation
        return product_law(self.sizes, self.kappas)

    def configured(self, setting: Setting) -> PartitionedVonMisesFisher:
        """Blocks named "layers" or "rows" become the sizes of the run's own."""
        return replace(self, dim=setting.dim, blocks=named_blocks(self.blocks, setting.shapes))

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """Noisy block directions, weighted and joined."""
        return self._noised(gradient, generator, "refuse")

    def release(self, gradient: Any, generator: Any = None) -> Any:
        """As ``perturb``; a block that is zero gets a uniform direction."""
        return self._noised(gradient, generator, "uniform")

    def _noised(self, gradient: Any, generator: Any, zero: str) -> Any:
        sized = self.with_dim(self.gradient_dim(gradient))
        return sample_blocks(gradient, sized.sizes, sized.kappas, generator, zero=zero)

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Sum of the blocks' log-densities with respect to uniform directions."""
        sized = self.with_dim(self.gradient_dim(gradient))
        pairs = zip(split(release, sized.sizes), split(gradient, sized.sizes), strict=True)
        terms = [log_density(r, g, k) for (r, g), k in zip(pairs, sized.kappas, strict=True)]
        return sum(terms[1:], terms[0])

    def likelihood_blocks(self) -> tuple[int, ...] | None:
        """The blocks that are noised."""
        return self.sizes

    def log_likelihood_of_products(self, inner: Any, squared: Any, own: Any) -> Any:
        """Sum over blocks of κ·cos - Λ(κ)."""
        return log_density_of_products(inner, squared, own, self.sizes, self.kappas)

    def log_bayes_capacity(self) -> float:
        """Capacities of the blocks add in log."""
        kappas = np.array(self.kappas)
        return float((kappas - log_0f1(np.array(self.sizes, float), kappas)).sum())

    def mutual_information(self) -> float:
        """Informations of the blocks add."""
        pairs = zip(self.sizes, self.kappas, strict=True)
        return sum(vmf_information(size, kappa) for size, kappa in pairs)

    def metric_privacy(self) -> MetricPrivacy:
        """The largest block's κ times the sum of distances between block directions."""
        return MetricPrivacy(
            max(self.kappas),
            "sum over blocks of Euclidean (or angular) distances",
            "averaged gradient directions of two batches, block by block",
            2.0 * sum(self.kappas),
        )

    def fisher_information(self) -> float:
        """Not one number: every block has its own."""
        raise UndefinedNotionError("Fisher information differs between blocks: ask each block")


def sample_blocks(
    vectors: Any, sizes: Sequence[int], kappas: Sequence[float], generator: Any, *, zero: str
) -> Any:
    """Noisy directions of the blocks of every vector, as :func:`join_blocks` joins them."""
    if is_torch(vectors) and fused(vectors, generator):
        weights = block_weights(sizes)
        return draw_vmf(vectors, sizes, kappas, generator, weights=weights, zero=zero)
    pairs = zip(split(vectors, sizes), kappas, strict=True)
    return join_blocks((sample_vmf(piece, k, generator, zero=zero) for piece, k in pairs), sizes)


def block_weights(sizes: Sequence[int]) -> tuple[float, ...]:
    """The length of each block in a vector of norm 1: sqrt(size / dim)."""
    dim = sum(sizes)
    return tuple(math.sqrt(size / dim) for size in sizes)


def join_blocks(blocks: Iterable[Any], sizes: Sequence[int]) -> Any:
    """Unit block directions joined into a vector of norm 1, weighted by sqrt(size / dim).

    The blocks are taken one at a time, so that no more than one is held beside the result.
    """
    dim, start, joined = sum(sizes), 0, None
    for block, size, weight in zip(blocks, sizes, block_weights(sizes), strict=True):
        if joined is None:
            shape = (*block.shape[:-1], dim)
            joined = block.new_empty(shape) if is_torch(block) else np.empty(shape, block.dtype)
        place = joined[..., start : start + size]
        place[...] = block
        place *= weight
        start += size
    return joined
