"""The rescue of Faustini et al.'s Corollary 1: blocks share one κ by their lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from recondite import _validate
from recondite.laws import LossLaw
from recondite.mechanisms import Mechanism, MetricPrivacy, Neighbouring, Setting
from recondite.mechanisms.base import Stage, UndefinedNotionError
from recondite.mechanisms.blocks import block_sizes, named_blocks, split
from recondite.mechanisms.partitioned import join_blocks
from recondite.numerics.bessel import log_0f1
from recondite.numerics.random import is_torch
from recondite.numerics.sphere import sample_vmf
from recondite_papers.response import ResponseLoss

__all__ = ["SharedKappa"]

_LEAST = 1e-9  # a share below it is noised as if it were zero: uniformly


@dataclass(frozen=True)
class SharedKappa(Mechanism):
    """Draws block i with concentration κλ_i, λ_i its share of the record's unit gradient.

    Only unit directions are released, with the public weights of :class:`recondite.Directional`.

    Guarantee: under replace-one, pure ε of one participation is 2κ√m + m·[Λ_s(κ/√m) - Λ_l(κ/√m)]
    with Λ the log of a block's normaliser and s, l the smallest and largest block: 2κ√m, which -g
    attains, where blocks are equally large. *Proof.* The loss of v against v' is at most
    Σ_i κ(λ_i + λ'_i) - Λ_i(κλ_i) + Λ_i(κλ'_i). Λ falls with the block's size: take l in the first
    and s in the second place. κλ - Λ_l(κλ) is concave in λ and rises, κλ + Λ_s(κλ) is concave in λ²
    (0F1 is a product of factors 1 + z/z_k, so its log is concave): with Σλ² = 1 both sums are
    largest where all λ are 1/√m. ∎ With unequal blocks 2κ√m alone does not hold. Rényi and (ε, δ)
    values are those of every mechanism with this pure ε (randomised response): sound, not tight.
    Under add/remove there is no finite ε.

    Attributes:
      kappa: Concentration that the blocks share.
      dim: Number of coordinates.
      blocks: Number of nearly equal blocks, their sizes, or "layers" or "rows" of a model.
    """

    kappa: float
    dim: int | None = None
    blocks: int | tuple[int, ...] | str = 2

    name: ClassVar[str] = "shared-kappa"
    parameter: ClassVar[str] = "kappa"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    title: ClassVar[str] = "directional, κ shared by blocks"
    symbol: ClassVar[str] = "κ"
    search_range: ClassVar[tuple[float, float]] = (1e-3, 1e6)
    stage: ClassVar[Stage] = "record"
    scale_free: ClassVar[bool] = True
    bounded: ClassVar[bool] = False  # a bound changes no share
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

    @property
    def pure_epsilon(self) -> float:
        """Of one participation."""
        sizes = self.sizes
        count = len(sizes)
        each = self.kappa / math.sqrt(count)
        apart = float(log_0f1(min(sizes), each)) - float(log_0f1(max(sizes), each))
        return 2.0 * self.kappa * math.sqrt(count) + count * max(apart, 0.0)

    def configured(self, setting: Setting) -> SharedKappa:
        """Blocks named "layers" or "rows" become the sizes of the run's own."""
        return replace(self, dim=setting.dim, blocks=named_blocks(self.blocks, setting.shapes))

    def loss(self, relation: Neighbouring) -> LossLaw:
        """Randomised response with the pure ε, under replace-one only."""
        if relation is not Neighbouring.REPLACE:
            raise ValueError(
                "neighbouring must be replace-one for per-record directional noise: under "
                "add-or-remove-one the norm of the sum reveals how many records took part, "
                "so no finite epsilon exists"
            )
        return ResponseLoss(self.pure_epsilon)

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The average over records (axis -2) of their noised directions; zero is uniform."""
        if gradient.ndim < 2:
            raise ValueError("gradient must have one row a record, got a single vector")
        sizes = block_sizes(self.gradient_dim(gradient), self.blocks)
        if gradient.shape[-2] == 0:
            return gradient.sum(-2)
        rows = gradient.reshape(-1, gradient.shape[-1])
        drawn = [
            self._turned(piece, share, generator)
            for piece, share in zip(split(rows, sizes), self._shares(rows, sizes), strict=True)
        ]
        joined = join_blocks(drawn, sizes).reshape(gradient.shape).mean(-2)
        return joined.to(gradient.dtype) if is_torch(joined) else joined.astype(gradient.dtype)

    @staticmethod
    def _shares(rows: Any, sizes: tuple[int, ...]) -> list[Any]:
        """λ_i of each row, in double precision; 0 for a row that is zero."""
        exact = rows.double() if is_torch(rows) else rows.astype(np.float64)
        # Scaled first: squares must neither over- nor underflow.
        largest = abs(exact).amax(-1) if is_torch(rows) else abs(exact).max(-1)
        scaled = exact / (largest + (largest == 0))[..., None]
        whole = (scaled * scaled).sum(-1) ** 0.5
        lengths = ((piece * piece).sum(-1) ** 0.5 for piece in split(scaled, sizes))
        return [length / (whole + (whole == 0)) for length in lengths]

    def _turned(self, piece: Any, share: Any, generator: Any) -> Any:
        """Every record has a concentration of its own: those that share one are drawn at once."""
        values = share.unique() if is_torch(share) else np.unique(share)
        drawn = None
        for value in values:
            # A smaller share costs less: what is next to nothing may count as nothing.
            part = 0.0 if float(value) < _LEAST else min(float(value), 1.0)
            here = share == value
            made = sample_vmf(piece[here], self.kappa * part, generator, zero="uniform")
            if drawn is None:
                drawn = made.new_empty(piece.shape) if is_torch(made) else np.empty(
                    piece.shape, made.dtype
                )  # fmt: skip
            drawn[here] = made
        return drawn

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density of the release of one record with respect to uniform block directions.

        Raises:
          UndefinedNotionError: For several records, whose average has no closed form.
        """
        if gradient.shape[-2] != 1:
            raise UndefinedNotionError("the average of several records has no closed density")
        sizes = block_sizes(self.gradient_dim(gradient), self.blocks)
        rows = gradient[..., 0, :]
        total = None
        pieces = zip(sizes, split(release, sizes), split(rows, sizes), strict=True)
        whole = (rows * rows).sum(-1) ** 0.5
        for size, out, piece in pieces:
            unit = out / ((out * out).sum(-1) ** 0.5)[..., None]
            share = (piece * piece).sum(-1) ** 0.5 / whole
            rise = self.kappa * (unit * piece).sum(-1) / whole
            term = rise - _log_norm(size, self.kappa * share)
            total = term if total is None else total + term
        return total

    def log_bayes_capacity(self) -> float:
        """Max over λ of Σ κλ_i - Λ_i(κλ_i); exact for blocks of one size, an upper bound else."""
        count, size = len(self.sizes), max(self.sizes)
        each = self.kappa / math.sqrt(count)
        return count * (each - float(log_0f1(size, each)))

    def mutual_information(self) -> float:
        """At most the log of Bayes' capacity."""
        return self.log_bayes_capacity()

    def metric_privacy(self) -> MetricPrivacy:
        """2κ√m times the distance between one record's unit gradients."""
        return MetricPrivacy(
            2.0 * self.kappa * math.sqrt(len(self.sizes)),
            "Euclidean distance",
            "one record's unit gradient and another's",
            self.pure_epsilon,
        )

    def fisher_information(self) -> float:
        """Not defined."""
        raise UndefinedNotionError("Fisher information differs between blocks: ask each block")


def _log_norm(size: int, concentration: Any) -> Any:
    if is_torch(concentration):
        found = log_0f1(size, concentration.detach().cpu().double().numpy())
        return concentration.new_tensor(found)
    return log_0f1(size, np.asarray(concentration, float))
