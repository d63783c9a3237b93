"""Deep Leakage from Gradients: match the gradient in Euclidean distance by L-BFGS."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.gradient.attempts import Attempts, inferred_note
from recondite.attacks.gradient.base import (
    AttackProgress,
    GradientAttack,
    Reconstruction,
    torch_generator,
)
from recondite.attacks.gradient.descent import NOT_FINITE, Best, watch
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.lbfgs import minimise
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.starts import STARTS
from recondite.attacks.gradient.victims import Victims

__all__ = ["DLG", "IDLG"]


@dataclass(frozen=True)
class DLG(GradientAttack):
    """Zhu, Liu and Han, "Deep leakage from gradients" (2019).

    Images and soft labels are found together: L-BFGS on ‖gradient - leak‖², from random starts.
    Needs a smooth network (sigmoids, strides); fails with ReLU and max pooling.

    Attributes:
      steps: L-BFGS iterations.
      restarts: Attempts a victim; the one of least matching loss is kept.
      start: Where attempts begin.
      history: Moves that L-BFGS remembers.
      double: Compute in float64: near the end the distance is below float32's resolution.
      tolerance: An attempt ends when ‖gradient - leak‖² falls below this share of ‖leak‖².
    """

    name: ClassVar[str] = "dlg"
    paper: ClassVar[str] = "Zhu et al., Deep leakage from gradients (2019)"

    steps: int = 2000
    restarts: int = 2
    start: str = "normal"
    history: int = 100
    double: bool = True
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        _validate.at_least("steps", self.steps, 1)
        _validate.at_least("restarts", self.restarts, 1)
        _validate.at_least("history", self.history, 1)
        _validate.choice("start", self.start, STARTS)
        _validate.positive("tolerance", self.tolerance)

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        kept = victims
        victims = in_double(victims) if self.double else victims
        joint = victims.labels is None
        # Known labels, or none: uniform ones stand in until the optimiser has found its own.
        guess = victims.labels
        if guess is None:
            guess = torch.zeros(
                victims.count, victims.batch_size, dtype=torch.int64, device=victims.device
            )
        attempts = Attempts.begin(replace(victims, labels=guess), self.restarts, self.start)
        matcher = Matcher(victims, self.restarts)
        problem = _Problem(matcher, attempts, joint)
        began = time.perf_counter()

        def proceed(step: int, values: Tensor) -> bool:
            return not watch(began, time_limit, progress, step, self.steps, values)

        end = problem.solve(self, proceed, began)
        images, logits = problem.split(end.points)
        labels = attempts.labels if logits is None else logits.argmax(-1)
        best = replace(end, points=kept.clamp(images.to(kept.dtype)))
        return attempts.result(best, end.values.to(kept.dtype), labels)


@dataclass(frozen=True)
class IDLG(DLG):
    """Zhao, Mopuri and Bilen, "iDLG: improved deep leakage from gradients" (2020).

    As DLG, with the label read off the gradient first: exact for one record.
    """

    name: ClassVar[str] = "idlg"
    paper: ClassVar[str] = "Zhao et al., iDLG: improved deep leakage from gradients (2020)"

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        if victims.labels is not None:
            return super()._attack(victims, progress, time_limit)
        found = replace(victims, labels=infer_labels(victims))
        result = super()._attack(found, progress, time_limit)
        return replace(result, notes=(inferred_note(victims), *result.notes))


class _Problem:
    """Images, and logits of soft labels where they are unknown, as one vector a trial."""

    def __init__(self, matcher: Matcher, attempts: Attempts, joint: bool) -> None:
        self.matcher, self.attempts, self.joint = matcher, attempts, joint
        self.sizes = attempts.images[0].numel()
        leaks = matcher.victims.gradients.values()
        norms = torch.stack([g.flatten(1).square().sum(1) for g in leaks]).sum(0)
        # Distances in units of the leak's norm, so that one tolerance fits all.
        self.scale = 1.0 / norms.clamp_min(1e-30).repeat_interleave(matcher.restarts)
        self.kept = attempts.images.flatten(1)
        self.least = self.kept.new_full((len(self.kept),), torch.inf)

    def start(self) -> Tensor:
        flat = self.attempts.images.flatten(1)
        if not self.joint:
            return flat
        victims = self.matcher.victims
        generator = torch_generator(
            None if victims.seed is None else victims.seed + 1, victims.device
        )
        logits = torch.randn(
            len(flat),
            victims.batch_size * victims.classes,
            generator=generator,
            device=flat.device,
            dtype=flat.dtype,
        )
        return torch.cat([flat, logits], 1)

    def split(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        images = points[:, : self.sizes].reshape(len(points), *self.attempts.images.shape[1:])
        if not self.joint:
            return images, None
        victims = self.matcher.victims
        return images, points[:, self.sizes :].reshape(
            len(points), victims.batch_size, victims.classes
        )

    def evaluate(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        live = points.detach().requires_grad_()
        images, logits = self.split(live)
        labels = self.attempts.labels[rows] if logits is None else torch.softmax(logits, -1)
        values = self.matcher.squared_distance(images, labels, rows) * self.scale[rows]
        slopes = torch.autograd.grad(values.sum(), live)[0]
        values = values.detach().nan_to_num(nan=torch.inf)
        better = values < self.least[rows]
        self.least[rows[better]] = values[better]
        self.best[rows[better]] = points[better]
        return values, slopes.nan_to_num()

    def solve(self, settings: DLG, proceed: Callable[[int, Tensor], bool], began: float) -> Best:
        start = self.start()
        self.best = start.clone()
        steps, stopped, by_user = 0, False, False

        def counted(step: int, values: Tensor) -> bool:
            nonlocal steps
            steps = step
            return proceed(step, values)

        try:
            found = minimise(
                self.evaluate,
                start,
                steps=settings.steps,
                history=settings.history,
                tolerance=settings.tolerance,
                proceed=counted,
            )
            steps, stopped = found.steps, found.stopped
        except KeyboardInterrupt:
            stopped = by_user = True
        if not stopped and not bool(torch.isfinite(self.least).any()):
            raise ValueError(NOT_FINITE)
        seconds = time.perf_counter() - began
        return Best(self.best, self.least, steps, stopped, seconds, by_user)


def in_double(victims: Victims) -> Victims:
    """The same in float64, on a copy of the model."""
    weights, labels = victims.weights, victims.labels
    return replace(
        victims,
        model=copy.deepcopy(victims.model).double(),
        gradients={name: g.double() for name, g in victims.gradients.items()},
        labels=labels.double() if labels is not None and labels.is_floating_point() else labels,
        low=None if victims.low is None else victims.low.double(),
        high=None if victims.high is None else victims.high.double(),
        weights=None if weights is None else {n: w.double() for n, w in weights.items()},
    )
