"""Adam, signed or plain, on all trials at once, keeping the best of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.gradient.base import Progress

__all__ = ["Best", "descend", "watch"]

NOT_FINITE = "the matching loss is not finite from the start: check the model's weights and scale"
_EVERY = 25  # iterations between two looks at the clock and the values


@dataclass(frozen=True)
class Best:
    """The best point of every trial.

    Attributes:
      points: As the start.
      values: (trials,).
      steps: Iterations done.
      interrupted: Whether it ended early.
      seconds: Time taken.
    """

    points: Tensor
    values: Tensor
    steps: int
    interrupted: bool
    seconds: float


def descend(
    objective: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int,
    learning_rate: float,
    signed: bool,
    decay: bool,
    project: Callable[[Tensor], Tensor],
    progress: Callable[[Progress], None] | None,
    time_limit: float | None,
    langevin: float = 0.0,
    generator: torch.Generator | None = None,
) -> Best:
    """Minimises ``objective`` (points to (trials,)), every trial on its own.

    Adam's update is elementwise and every trial's value depends on its own points, so trials do
    not influence each other. A keyboard interrupt or the time limit ends it with the best so far.

    Args:
      objective: Differentiable.
      start: (trials, …).
      steps: Iterations.
      learning_rate: Size of a step.
      signed: Use only the sign of each derivative.
      decay: Divide the step by 10 after 3/8, 5/8 and 7/8 of the iterations.
      project: Keeps points within their limits.
      progress: Called now and then.
      time_limit: Seconds.
      langevin: Deviation of noise added to every step, in units of the step.
      generator: For that noise.
    """
    _validate.at_least("steps", steps, 1)
    points = project(start.clone())
    first, second = torch.zeros_like(points), torch.zeros_like(points)
    best, least = points.clone(), points.new_full((len(points),), torch.inf)
    drops = {int(steps * share) for share in (3 / 8, 5 / 8, 7 / 8)} if decay else set()
    began, rate, done, interrupted = time.perf_counter(), learning_rate, 0, False
    spread = (-1, *[1] * (points.ndim - 1))
    try:
        for step in range(steps + 1):
            live = points.detach().requires_grad_()
            value = objective(live)
            slope = torch.autograd.grad(value.sum(), live)[0]
            value = value.detach()
            better = value < least
            least = torch.where(better, value, least)
            best = torch.where(better.view(spread), points, best)
            done = step
            if step == steps:
                break
            if step in drops:
                rate *= 0.1
            if signed:
                slope = slope.sign()
            first = first.mul_(0.9).add_(slope, alpha=0.1)
            second = second.mul_(0.999).addcmul_(slope, slope, value=0.001)
            size = rate / (1 - 0.9 ** (step + 1))
            root = (second / (1 - 0.999 ** (step + 1))).sqrt_().add_(1e-8)
            points = points - size * first / root
            if langevin:
                noise = torch.empty_like(points).normal_(generator=generator)
                points = points + langevin * rate * noise
            points = project(points)
            if step % _EVERY == 0 and watch(began, time_limit, progress, step, steps, least):
                interrupted = True
                break
    except KeyboardInterrupt:
        interrupted = True
    if not interrupted and not bool(torch.isfinite(least).any()):
        raise ValueError(NOT_FINITE)
    return Best(best, least, done, interrupted, time.perf_counter() - began)


def watch(
    began: float,
    time_limit: float | None,
    progress: Callable[[Progress], None] | None,
    step: int,
    steps: int,
    values: Tensor,
) -> bool:
    """Reports, and says whether the time is over."""
    if progress is not None:
        progress(Progress(step, steps, float(values.mean())))
    return time_limit is not None and time.perf_counter() - began > time_limit
