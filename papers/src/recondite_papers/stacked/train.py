"""The training loop of a stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from recondite_papers.stacked.graph import Replayed
from recondite_papers.stacked.network import Stack
from recondite_papers.stacked.optim import Optimizer
from recondite_papers.stacked.release import Releaser, StackRelease
from recondite_papers.stacked.sampling import Sampler

__all__ = ["Inputs", "Plan", "train"]


class Inputs(Protocol):
    """Maps indices (R, B) to the images (R, B, c, h, w) that runs see instead of the records.

    It must do the same work at each call, without asking the device: steps are recorded.
    """

    @property
    def generator(self) -> torch.Generator:
        """What it draws from."""

    def __call__(self, index: Tensor) -> Tensor:
        """The images."""


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
    releases: Sequence[StackRelease],
    plan: Plan,
    *,
    seed: int,
    inputs: Inputs | None = None,
    subsets: Tensor | None = None,
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
      inputs: For runs that see noisy copies.
      subsets: (R, n) records of each run, by their numbers; by default all of them.
      progress: Called with steps done and planned, about every hundred steps.
      at: What to call after so many steps.
      time_limit: Seconds after which training stops.
    """
    generator = torch.Generator(stack.device).manual_seed(seed)
    records = len(images) if subsets is None else subsets.shape[1]
    sampler = Sampler(plan.sampling, stack.runs, records, plan.batch, generator)
    releaser = Releaser(stack, releases, plan.batch, plan.steps, generator)
    optimizer = Optimizer(
        plan.optimizer, stack.parameters(), plan.rate, momentum=plan.momentum, decay=plan.decay
    )
    # Shuffled batches are slices of an order drawn once an epoch: they are copied into place.
    shuffled = plan.sampling == "shuffled"
    placed = [part.clone() for part in sampler.draw()] if shuffled else []

    def compute() -> None:
        index, mask = placed or sampler.draw()
        if subsets is not None:
            index = subsets.gather(1, index)
        batch = images[index] if inputs is None else inputs(index)
        taps, _ = stack.taps(batch, labels[index], mask)
        optimizer.step(releaser(taps, mask))

    generators = [generator] if inputs is None else [generator, inputs.generator]
    step_once = Replayed(compute, stack.device, generators)
    began = time.monotonic()
    for step in range(plan.steps):
        if shuffled and step:
            for place, part in zip(placed, sampler.draw(), strict=True):
                place.copy_(part)
        step_once()
        if at is not None and step + 1 in at:
            at[step + 1]()
        if step % 100 == 99:
            if progress is not None:
                progress(step + 1, plan.steps)
            if time_limit is not None and time.monotonic() - began > time_limit:
                return step + 1
    return plan.steps
