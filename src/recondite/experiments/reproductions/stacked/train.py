"""The training loop of a stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite.experiments.reproductions.stacked.network import Stack
from recondite.experiments.reproductions.stacked.optim import Optimizer
from recondite.experiments.reproductions.stacked.release import Release, Releaser
from recondite.experiments.reproductions.stacked.sampling import Sampler

__all__ = ["Plan", "train"]

Inputs = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Plan:
    """What the runs of a stack share.

    Attributes:
      steps: Optimizer steps.
      batch: Expected batch size.
      sampling: "poisson", "shuffled" or "fixed-size".
      optimizer: "sgd", "adam" or "adamw".
      rate: Learning rate.
      momentum: Of SGD.
      decay: Weight decay.
    """

    steps: int
    batch: int
    sampling: str = "poisson"
    optimizer: str = "adamw"
    rate: float = 0.005
    momentum: float = 0.0
    decay: float = 0.0


def train(
    stack: Stack,
    images: Tensor,
    labels: Tensor,
    releases: Sequence[Release],
    plan: Plan,
    *,
    seed: int,
    inputs: Inputs | None = None,
    progress: Callable[[int, int], None] | None = None,
    at: Mapping[int, Callable[[], None]] | None = None,
    time_limit: float | None = None,
) -> int:
    """Trains every run of a stack in place; returns the number of steps done.

    All randomness follows from ``seed``: these are simulations.

    Args:
      stack: The networks.
      images: (N, c, h, w), on the stack's device.
      labels: (N,).
      releases: One for each run.
      plan: What they share.
      seed: Of batches and noise.
      inputs: Maps indices (R, B) to images (R, B, c, h, w), for runs that see noisy copies.
      progress: Called with steps done and planned, about every hundred steps.
      at: What to call after so many steps.
      time_limit: Seconds after which training stops.
    """
    generator = torch.Generator(stack.device).manual_seed(seed)
    sampler = Sampler(plan.sampling, stack.runs, len(images), plan.batch, generator)
    releaser = Releaser(stack, releases, plan.batch, plan.steps, generator)
    optimizer = Optimizer(
        plan.optimizer, stack.parameters(), plan.rate, momentum=plan.momentum, decay=plan.decay
    )
    began = time.monotonic()
    for step in range(plan.steps):
        index, mask = sampler.draw()
        batch = images[index] if inputs is None else inputs(index)
        taps, _ = stack.taps(batch, labels[index], mask)
        optimizer.step(releaser(taps, mask))
        if at is not None and step + 1 in at:
            at[step + 1]()
        if step % 100 == 99:
            if progress is not None:
                progress(step + 1, plan.steps)
            if time_limit is not None and time.monotonic() - began > time_limit:
                return step + 1
    return plan.steps
