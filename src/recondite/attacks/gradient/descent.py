"""Adam, signed or plain, on all trials at once, keeping the best of each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.gradient.replay import recorded

__all__ = ["Best", "descend", "watch"]

NOT_FINITE = "the matching loss is not finite from the start: check the model's weights and scale"
_RECORD = 20  # iterations from which recording them pays
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
      by_user: Whether it was a keyboard interrupt that ended it, and not the time limit.
    """

    points: Tensor
    values: Tensor
    steps: int
    interrupted: bool
    seconds: float
    by_user: bool = False


class _AdamSearch:
    """Adam's state in fixed places: an iteration changes it without allocating it anew."""

    def __init__(
        self,
        objective: Callable[[Tensor], Tensor],
        project: Callable[[Tensor], Tensor],
        start: Tensor,
        rates: list[float],
        *,
        signed: bool,
        noise: tuple[float, torch.Generator | None] | None,
    ) -> None:
        self.objective, self.project, self.signed, self.noise = objective, project, signed, noise
        self.points = project(start).clone()
        self.first, self.second = torch.zeros_like(self.points), torch.zeros_like(self.points)
        self.best = self.points.clone()
        self.least = self.points.new_full((len(self.points),), torch.inf)
        # Adam divides the mean slope m/(1 - 0.9ᵗ) by √(v/(1 - 0.999ᵗ)) + 1e-8 and multiplies by the
        # rate: all that changes with t is a factor and a constant beside √v.
        table = []
        for step, rate in enumerate(rates, start=1):
            size = rate / (1 - 0.9**step)
            table.append((1 / (size * math.sqrt(1 - 0.999**step)), 1e-8 / size, rate))
        self.table = torch.tensor(table, device=start.device, dtype=start.dtype)
        self.step = torch.zeros(1, dtype=torch.long, device=start.device)

    def evaluate(self) -> Tensor:
        """The slope at the points, which are kept where they are the best yet."""
        live = self.points.detach().requires_grad_()
        value = self.objective(live)
        slope = torch.autograd.grad(value.sum(), live)[0]
        value = value.detach()
        better = (value < self.least).view(-1, *[1] * (self.points.ndim - 1))
        torch.where(better, self.points, self.best, out=self.best)
        torch.fmin(value, self.least, out=self.least)
        return slope

    def iterate(self) -> None:
        slope = self.evaluate()
        if self.signed:
            slope = slope.sign()
        factor, constant, rate = self.table.index_select(0, self.step)[0]
        self.step += 1
        self.first.lerp_(slope, 0.1)
        self.second.mul_(0.999).addcmul_(slope, slope, value=0.001)
        self.points.addcdiv_(self.first, self.second.sqrt().mul_(factor).add_(constant), value=-1)
        if self.noise is not None:
            deviation, generator = self.noise
            noise = torch.empty_like(self.points).normal_(generator=generator)
            self.points.addcmul_(noise, deviation * rate)
        self.points.copy_(self.project(self.points))


def _rates(steps: int, learning_rate: float, decay: bool) -> list[float]:
    """The rate of every iteration."""
    drops = {int(steps * share) for share in (3 / 8, 5 / 8, 7 / 8)} if decay else set()
    return [learning_rate * 0.1 ** sum(step >= drop for drop in drops) for step in range(steps)]


def descend(
    objective: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    steps: int,
    learning_rate: float,
    signed: bool,
    decay: bool,
    project: Callable[[Tensor], Tensor],
    progress: Callable[[AttackProgress], None] | None,
    time_limit: float | None,
    langevin: float = 0.0,
    generator: torch.Generator | None = None,
) -> Best:
    """Minimises ``objective`` (points to (trials,)), every trial on its own.

    Adam's update is elementwise and every trial's value depends on its own points, so trials do
    not influence each other. A keyboard interrupt or the time limit ends it with the best so far.

    Args:
      objective: Differentiable, and the same function every time: on a GPU its kernels are
        recorded once and replayed.
      start: (trials, …).
      steps: Iterations.
      learning_rate: Size of a step.
      signed: Use only the sign of each derivative.
      decay: Divide the step by 10 after 3/8, 5/8 and 7/8 of the iterations.
      project: Keeps points within their limits.
      progress: Called now and then.
      time_limit: Seconds.
      langevin: Standard deviation of noise added to every step, in units of the step.
      generator: For that noise.
    """
    _validate.at_least("steps", steps, 1)
    began, done, interrupted, by_user = time.perf_counter(), 0, False, False
    rates = _rates(steps, learning_rate, decay)
    noise = (langevin, generator) if langevin else None
    search = _AdamSearch(objective, project, start, rates, signed=signed, noise=noise)
    try:
        iterate = search.iterate
        if start.is_cuda and noise is None and steps > _RECORD:
            iterate = recorded(search.iterate, search.evaluate, start.device)
        for step in range(steps):
            iterate()
            done = step + 1
            if step % _EVERY == 0 and watch(began, time_limit, progress, step, steps, search.least):
                interrupted = True
                break
        else:
            search.evaluate()
    except KeyboardInterrupt:
        interrupted = by_user = True
    best, least = search.best, search.least
    if not interrupted and not bool(torch.isfinite(least).any()):
        raise ValueError(NOT_FINITE)
    return Best(best, least, done, interrupted, time.perf_counter() - began, by_user)


def watch(
    began: float,
    time_limit: float | None,
    progress: Callable[[AttackProgress], None] | None,
    step: int,
    steps: int,
    values: Tensor,
) -> bool:
    """Reports, and says whether the time is over."""
    if time_limit is not None and values.is_cuda:
        torch.cuda.synchronize(values.device)  # or the clock would time the launches
    if progress is not None:
        progress(AttackProgress(step, steps, float(values.mean())))
    return time_limit is not None and time.perf_counter() - began > time_limit
