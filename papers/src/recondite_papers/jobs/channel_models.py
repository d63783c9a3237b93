"""Model inversion of every run of a stack at once (Tan et al. 2024, Figures 10, 13, 15 and 16)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from recondite.attacks.inversion import ModelInversion, class_centres
from recondite_papers.jobs.data import Split
from recondite_papers.stacked import Stack
from recondite_papers.stacked.graph import Replayed

__all__ = ["inversion_errors", "invert_all"]


def invert_all(
    stack: Stack,
    start: Tensor,
    targets: Tensor,
    attack: ModelInversion,
    bounds: tuple[float, float],
) -> Tensor:
    """What :class:`ModelInversion` finds for each run and class, (R, classes, c, h, w).

    Every image has its own loss and Adam acts on each pixel alone, so runs do not mix.

    Args:
      stack: The victims.
      start: (c, h, w) where all searches begin.
      targets: The classes.
      attack: Iterations and learning rate.
      bounds: Least and largest pixel.
    """
    shape = (stack.runs, len(targets), *start.shape)
    images = start.expand(shape).clone().requires_grad_()
    on_cuda = images.is_cuda
    optimizer = torch.optim.Adam([images], attack.learning_rate, fused=True, capturable=on_cuda)
    wanted = targets.repeat(stack.runs)

    def step() -> None:
        with torch.enable_grad():
            logits = stack.forward(images)[0].flatten(0, 1)
            loss = functional.cross_entropy(logits, wanted, reduction="sum")
            (images.grad,) = torch.autograd.grad(loss, images)
        optimizer.step()
        with torch.no_grad():
            images.clamp_(*bounds)

    iterate = Replayed(step, images.device)
    for _ in range(attack.iterations):
        iterate()
    if on_cuda:
        torch.cuda.synchronize()  # the recording goes with this call
    return images.detach()


def inversion_errors(
    stack: Stack, data: Split, count: int, attack: ModelInversion
) -> tuple[list[float], float]:
    """Median error over the classes of each run, (x - .5)/.5, and that of the start image.

    Args:
      stack: The victims.
      data: Its first ``count`` training records are the victims'; the attack starts from the mean
        of its test records, which no victim has seen.
      count: See there.
      attack: Iterations and learning rate.
    """
    images, labels = data.images[:count], data.labels[:count]
    targets = torch.unique(labels)
    centres = class_centres((images, labels), targets.cpu()).to(images.device)
    start = data.test_images.double().mean(0).float()
    found = invert_all(stack, start, targets, attack, data.bounds)
    errors = (found - centres).square().flatten(2).mean(2).double().quantile(0.5, 1)
    before = (start - centres).square().flatten(1).mean(1).double().quantile(0.5)
    return [float(value) for value in errors], float(before)
