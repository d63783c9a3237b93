"""Biswas et al. (2025): how much of what leaks is signal, from the first step to the last.

Gaussian noise has one size throughout a training, VMF noise goes with the gradient. An average
gradient is long at first and short at the end, so two defences of equal accuracy need not hide the
first gradients equally.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from recondite.numerics.bessel import bessel_ratio
from recondite_papers.jobs.compare import CHOSEN, DATA, records, steps_of
from recondite_papers.jobs.compare_network import network
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Stack, StackRelease, train
from recondite_papers.stacked.release import Releaser

__all__ = ["share", "signal"]

_SIZE, _BATCHES = 128, 10
_SIGMAS, _KAPPAS = (1.23, 0.42, 0.174), (1000.0, 2000.0, 5000.0)


def signal(context: Context) -> None:
    """Signal over noise of what leaks at some steps of a training, and accuracies there."""
    sink = context.sink("compare-signal")
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"signal/{name}": partial(_block, context, name) for name in DATA
    }
    context.blocks(sink, dict(list(blocks.items())[:1]) if context.quick else blocks)


def share(release: StackRelease, length: float, dim: int) -> float:
    """Length of the signal over that of the noise in a release of an average of such a length."""
    if release.kind == "gaussian":
        return length * _SIZE / (release.value * math.sqrt(dim))
    cosine = float(bessel_ratio(0.5 * dim - 1.0, release.value))
    return cosine / math.sqrt(1.0 - cosine * cosine)


def _block(context: Context, name: str) -> list[Row]:
    data = records(context, name)
    releases = [StackRelease("gaussian", s) for s in _SIGMAS] + [
        StackRelease("vmf", k) for k in _KAPPAS
    ]
    stack = Stack([network(data.shape, data.classes, 0) for _ in releases], context.device)
    steps = 20 if context.quick else steps_of(data, _SIZE)
    seen: dict[int, tuple[Tensor, Tensor]] = {}

    def look(step: int) -> None:
        right = stack.accuracy(data.test_images, data.test_labels)
        seen[step] = _lengths(stack, data), right

    at = {step: partial(look, step) for step in (steps // 14, steps // 3, steps)}
    look(0)
    plan = CHOSEN.plan(steps, _SIZE)
    train(stack, data.images, data.labels, releases, plan, seed=41, at=at)
    return [
        {
            "data": name,
            "defence": release.kind,
            "value": release.value,
            "steps": step,
            "length": float(lengths[run]),
            "signal_to_noise": share(release, float(lengths[run]), stack.dim),
            "accuracy": float(right[run]),
            "run": context.mark,
        }
        for run, release in enumerate(releases)
        for step, (lengths, right) in seen.items()
    ]


def _lengths(stack: Stack, data: Split) -> Tensor:
    """Mean length of the average of a batch's clipped gradients, by run."""
    generator = torch.Generator(stack.device).manual_seed(0)
    clip = Releaser(stack, [StackRelease("clip")] * stack.runs, _SIZE, _BATCHES, generator)
    mask = torch.ones((stack.runs, _SIZE), device=stack.device)
    found = []
    for number in range(min(_BATCHES, len(data.images) // _SIZE)):
        index = torch.arange(number * _SIZE, (number + 1) * _SIZE, device=stack.device)
        index = index.expand(stack.runs, -1)
        taps, _ = stack.taps(data.images[index], data.labels[index], mask)
        found.append(clip(taps, mask).norm(dim=1))
    return torch.stack(found).mean(0)
