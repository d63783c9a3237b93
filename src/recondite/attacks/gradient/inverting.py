"""Inverting Gradients: match the gradient's direction, with smooth images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from recondite import _validate
from recondite.attacks.gradient.attempts import Attempts
from recondite.attacks.gradient.base import AttackProgress, GradientAttack, Reconstruction
from recondite.attacks.gradient.bounded import Bounding
from recondite.attacks.gradient.descent import descend
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.priors import total_variation
from recondite.attacks.gradient.starts import STARTS
from recondite.attacks.gradient.victims import Victims

__all__ = ["InvertingGradients"]


@dataclass(frozen=True)
class InvertingGradients(GradientAttack):
    """Geiping et al., "Inverting gradients: how easy is it to break privacy …?" (2020).

    Minimises 1 - cosine(gradient, leak) + ``total_variation``·TV by signed Adam with step decay,
    within the box of possible pixels, from several starts.

    Attributes:
      steps: Iterations.
      restarts: Attempts a victim; the one of least matching loss is kept.
      learning_rate: Size of a signed step.
      total_variation: Weight of the smoothness prior.
      signed: Use only the sign of derivatives.
      decay: Divide the step by 10 after 3/8, 5/8 and 7/8 of the iterations.
      start: Where attempts begin; see :func:`recondite.attacks.gradient.starts.starts`.
      bounding: How the victim bounded each record's gradient, where the attacker knows.
    """

    name: ClassVar[str] = "inverting-gradients"
    paper: ClassVar[str] = "Geiping et al., Inverting gradients (2020)"

    steps: int = 4000
    restarts: int = 1
    learning_rate: float = 0.1
    total_variation: float = 1e-4
    signed: bool = True
    decay: bool = True
    start: str = "normal"
    bounding: Bounding = field(default_factory=Bounding)

    def __post_init__(self) -> None:
        _validate.at_least("steps", self.steps, 1)
        _validate.at_least("restarts", self.restarts, 1)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("total_variation", self.total_variation)
        _validate.choice("start", self.start, STARTS)

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        matcher = Matcher(victims, self.restarts, self.bounding)
        attempts = Attempts.begin(victims, self.restarts, self.start)

        def objective(images: Tensor) -> Tensor:
            value = matcher.cosine_distance(images, attempts.labels)
            if self.total_variation:
                value = value + self.total_variation * total_variation(images)
            return value

        best = descend(
            objective,
            attempts.images,
            steps=self.steps,
            learning_rate=self.learning_rate,
            signed=self.signed,
            decay=self.decay,
            project=victims.clamp,
            progress=progress,
            time_limit=time_limit,
        )
        matched = matcher.cosine_distance(best.points.requires_grad_(), attempts.labels).detach()
        return attempts.result(best, matched)
