"""See Through Gradients: batch-norm statistics and the consensus of attempts as priors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.gradient.attempts import Attempts
from recondite.attacks.gradient.base import (
    AttackProgress,
    GradientAttack,
    Reconstruction,
    torch_generator,
)
from recondite.attacks.gradient.descent import descend
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.priors import total_variation
from recondite.attacks.gradient.victims import Victims
from recondite.attacks.knowledge import Knowledge

__all__ = ["SeeThroughGradients"]


@dataclass(frozen=True)
class SeeThroughGradients(GradientAttack):
    """Yin et al., "See through gradients: image batch recovery via GradInversion" (2021).

    Minimises ‖gradient - leak‖²/‖leak‖² with weights on smoothness, the images' norm, the
    distance of batch-norm statistics to the network's running ones, and the distance of each
    attempt to the mean of a victim's attempts (the paper aligns them first; small images need no
    alignment: a marked difference). Steps carry Langevin noise.

    Attributes:
      steps: Iterations.
      restarts: Attempts a victim, which form the group.
      learning_rate: Of Adam.
      total_variation: Weight of smoothness.
      norm: Weight of the mean squared pixel.
      statistics: Weight of batch-norm statistics; ignored by models without batch norms.
      group: Weight of the distance to the group's mean.
      langevin: Noise in a step, in units of the step.
    """

    name: ClassVar[str] = "see-through-gradients"
    paper: ClassVar[str] = "Yin et al., See through gradients (2021)"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.BATCH_STATISTICS, Knowledge.MODE}
    )

    steps: int = 2000
    restarts: int = 4
    learning_rate: float = 0.1
    total_variation: float = 1e-4
    norm: float = 1e-6
    statistics: float = 0.1
    group: float = 0.01
    langevin: float = 0.01

    def __post_init__(self) -> None:
        _validate.at_least("steps", self.steps, 1)
        _validate.at_least("restarts", self.restarts, 1)
        _validate.positive("learning_rate", self.learning_rate)
        for field in ("total_variation", "norm", "statistics", "group", "langevin"):
            _validate.non_negative(field, getattr(self, field))

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        matcher = Matcher(victims, self.restarts)
        attempts = Attempts.begin(victims, self.restarts, "normal")
        statistics = BatchStatistics(victims.model, needed=self.statistics > 0)
        leaks = victims.gradients.values()
        norms = torch.stack([g.flatten(1).square().sum(1) for g in leaks]).sum(0)
        scale = 1.0 / norms.clamp_min(1e-30).repeat_interleave(self.restarts)

        def matched(images: Tensor) -> Tensor:
            return matcher.squared_distance(images, attempts.labels) * scale

        def objective(images: Tensor) -> Tensor:
            value = matched(images) + self.total_variation * total_variation(images)
            value = value + self.norm * images.flatten(1).square().mean(1)
            if self.statistics and statistics.layers:
                value = value + self.statistics * statistics.distance(images)
            if self.group and self.restarts > 1:
                value = value + self.group * self._from_group(images)
            return value

        best = descend(
            objective,
            attempts.images,
            steps=self.steps,
            learning_rate=self.learning_rate,
            signed=False,
            decay=True,
            project=victims.clamp,
            progress=progress,
            time_limit=time_limit,
            langevin=self.langevin,
            generator=torch_generator(victims.seed, victims.device),
        )
        return attempts.result(best, matched(best.points.requires_grad_()).detach())

    def _from_group(self, images: Tensor) -> Tensor:
        grouped = images.reshape(-1, self.restarts, *images.shape[1:])
        mean = grouped.detach().mean(1, keepdim=True)
        return (grouped - mean).square().flatten(2).mean(2).reshape(-1)


class BatchStatistics:
    """Distance of images' statistics to those a network's batch norms have kept."""

    def __init__(self, model: nn.Module, *, needed: bool = True) -> None:
        self.model = model
        self.layers = []
        for name, module in model.named_modules():
            if not isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                continue
            seen = module.num_batches_tracked
            if needed and (module.running_mean is None or (seen is not None and not int(seen))):
                raise ValueError(
                    f"see-through-gradients needs statistics of batch norm {name}, which has seen "
                    "no batch: load them, or set statistics=0"
                )
            self.layers.append(module)

    def distance(self, images: Tensor) -> Tensor:
        """Sum over layers of squared distances of means and variances, (trials,)."""
        seen: list[Tensor] = []
        handles = [
            m.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
            for m in self.layers
        ]
        try:
            self.model(images.flatten(0, 1))
        finally:
            for handle in handles:
                handle.remove()
        total = images.new_zeros(len(images))
        for module, inputs in zip(self.layers, seen, strict=True):
            kept = inputs.reshape(*images.shape[:2], inputs.shape[1], -1)
            mean, variance = kept.mean((1, 3)), kept.var((1, 3), correction=0)
            assert module.running_mean is not None
            assert module.running_var is not None
            total = total + (mean - module.running_mean).square().mean(1)
            total = total + (variance - module.running_var).square().mean(1)
        return total
