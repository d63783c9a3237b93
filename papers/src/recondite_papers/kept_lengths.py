"""Noise on directions that keeps lengths: what the directional papers' programs seem to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from recondite import _validate
from recondite.laws import InfiniteLoss, LossLaw
from recondite.mechanisms import Mechanism, MetricPrivacy, Neighbouring, Setting
from recondite.mechanisms.base import Stage, UndefinedNotionError
from recondite.mechanisms.blocks import block_sizes, named_blocks, split
from recondite.numerics.random import random_source
from recondite.numerics.sphere import sample_vmf

__all__ = ["ELEMENTS", "KeptLengths"]

ELEMENTS = "elements"


@dataclass(frozen=True)
class KeptLengths(Mechanism):
    """Turns every block of a record's clipped gradient at random and keeps the block's length.

    No guarantee: lengths are released as they are, so that ε is infinite whatever κ is. It is here
    because only this, with each weight a block of its own, gives the accuracies that Faustini et
    al. (2023) print; :class:`recondite.Directional` is the mechanism with a guarantee.

    Attributes:
      kappa: Concentration of the noise on each block's direction.
      dim: Number of coordinates.
      blocks: "elements" (each weight: its sign is kept with probability e^κ/(e^κ + e^-κ)), or as
        in :class:`recondite.Directional`.
      clip_norm: Longer gradients are scaled to this length; 1 in training, in units of the bound.
    """

    kappa: float
    dim: int | None = None
    blocks: int | tuple[int, ...] | str = ELEMENTS
    clip_norm: float = 1.0

    name: ClassVar[str] = "kept-lengths"
    parameter: ClassVar[str] = "kappa"
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    stage: ClassVar[Stage] = "record"
    bounded: ClassVar[bool] = False
    subject: ClassVar[str] = "one record's gradient"
    private: ClassVar[bool] = False
    title: ClassVar[str] = "directional, lengths kept"
    symbol: ClassVar[str] = "κ"
    search_range: ClassVar[tuple[float, float]] = (1.0, 1e7)

    def __post_init__(self) -> None:
        _validate.positive("kappa", self.kappa)
        _validate.positive("clip_norm", self.clip_norm)
        self._check_dim(1)

    def configured(self, setting: Setting) -> KeptLengths:
        """Blocks named "layers" or "rows" become the sizes of the run's own."""
        blocks = self.blocks
        if blocks != ELEMENTS:
            blocks = named_blocks(blocks, setting.shapes)
        return replace(self, dim=setting.dim, blocks=blocks, clip_norm=1.0)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """Infinite: lengths tell two records apart."""
        del relation
        return InfiniteLoss()

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The average over records (axis -2) of their turned gradients; torch tensors."""
        if gradient.shape[-2] == 0:
            return gradient.sum(-2)
        norms = (gradient * gradient).sum(-1) ** 0.5
        bounded = gradient * (self.clip_norm / norms.clamp(min=self.clip_norm))[..., None]
        if self.blocks == ELEMENTS:
            return self._signs(bounded, generator).mean(-2)
        import torch  # naming the defence must not load it

        pieces = []
        for piece in split(bounded, block_sizes(self.gradient_dim(gradient), self.blocks)):
            lengths = (piece * piece).sum(-1) ** 0.5
            turned = sample_vmf(piece, self.kappa, generator, zero="uniform")
            pieces.append((turned * lengths[..., None]).mean(-2))
        return torch.cat(pieces, -1)

    def _signs(self, gradients: Any, generator: Any) -> Any:
        import torch

        source: Any = random_source(gradients, generator).generator
        uniform = torch.rand(gradients.shape, device=gradients.device, generator=source)
        kept = 1.0 / (1.0 + math.exp(-2.0 * min(self.kappa, 300.0)))
        return torch.where(uniform < kept, gradients, -gradients)

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Not a density."""
        raise UndefinedNotionError("lengths are released without noise: there is no density")

    def log_bayes_capacity(self) -> float:
        """Infinite: exact lengths are revealed."""
        return math.inf

    def mutual_information(self) -> float:
        """Infinite."""
        return math.inf

    def metric_privacy(self) -> MetricPrivacy:
        """Infinite."""
        return MetricPrivacy(math.inf, "any", "gradients of two records", math.inf)

    def fisher_information(self) -> float:
        """Infinite."""
        return math.inf
