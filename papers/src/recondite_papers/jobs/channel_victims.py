"""Tan et al. (2024), Figure 14 beyond LeNet: gradient inversion, a network's victims at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.base import Reconstruction
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.models import build, count_parameters
from recondite_papers.jobs.channel import SMALL, records
from recondite_papers.jobs.channel_training import tensor_cores
from recondite_papers.jobs.channels import (
    ChannelInputs,
    ChannelSetting,
    Fitter,
    spectrum,
)
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.leaks import finished, measured
from recondite_papers.jobs.sink import Context, Row

__all__ = ["inversion", "leaked"]

STEPS, IMAGES = 4000, 30
# Images of each setting where a call must be short: what leaks of VGG16 is half a gigabyte a
# victim, which every iteration reads twice.
_FEW = {"resnet10": 8, "alexnet": 8, "vgg16": 4}
_SHORT = 60.0  # minutes; a longer call attacks all images
_BYTES = 30e9  # of leaked gradients in one computation
_PROBE = 60  # iterations that are timed to find how many fit


def inversion(context: Context) -> None:
    """Figure 14's other networks: Natural, White and Personalized by κ, and without defence."""
    sink = context.sink("channel-networks-inversion")
    names = context.pick(("resnet10",), ("resnet10", "alexnet"), tuple(_FEW))
    loaded: list[tuple[Split, Fitter | None]] = []
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"inversion/{model}": partial(_inverted, context, loaded, model) for model in names
    }
    context.blocks(sink, blocks)


def _settings(context: Context) -> list[ChannelSetting]:
    if context.quick:
        return [ChannelSetting()]
    known = ("natural", "white", "personalized-paper")
    kinds, kappas = context.pick((), known[:1], known), context.pick((), (50.0, 300.0), SMALL)
    return [ChannelSetting(), *(ChannelSetting(kind, kappa) for kind in kinds for kappa in kappas)]


def _size(context: Context, model: str) -> tuple[int, float]:
    """Images of each setting and seconds for all of them."""
    if context.quick or context.small:
        return 1, 12.0
    # The trial that plans iterations, and the slack it needs, come out of the rest.
    return _FEW[model] if context.minutes < _SHORT else IMAGES, 0.75 * context.seconds


def _inverted(context: Context, loaded: list[tuple[Split, Fitter | None]], model: str) -> list[Row]:
    if not loaded:
        every = records(context, "cifar10", context.pick(300, 4000, None))
        # A quick version has no noise, and no time to fit any.
        loaded.append((every, None if context.quick else Fitter(spectrum(every), every.shape)))
    data, fitter = loaded[0]
    settings = _settings(context)
    images, seconds = _size(context, model)
    shown = [data.images[:images]] * len(settings)
    if fitter is not None:
        generator = torch.Generator(context.device).manual_seed(5)
        inputs = ChannelInputs(data, fitter, settings, generator)
        shown = [inputs.noisy(run, part) for run, part in enumerate(shown)]
    net = build(model, data.shape, 10, seed=0).to(context.device)
    together = max(1, int(_BYTES // (4 * count_parameters(net) * images)))
    method = InvertingGradients(steps=context.pick(2, 80, STEPS))
    rows = []
    for start in range(0, len(settings), together):
        group = settings[start : start + together]
        seen = torch.cat(shown[start : start + together])
        labels = data.labels[:images].repeat(len(group))[:, None]
        result = _rebuilt(net, data, seen, labels, method, seconds * len(group) / len(settings))
        for number, setting in enumerate(group):
            span = slice(number * images, (number + 1) * images)
            rows.append(
                {
                    "data": "cifar10",
                    "model": model,
                    "defence": setting.kind,
                    "value": setting.capacity,
                    "total_variation": method.total_variation,
                    "iterations": result.steps,
                    "interrupted": result.interrupted,
                    "cut": _cut(images, result.steps, method.steps),
                    "matching_loss": float(result.loss[span].mean()),
                    "attack_seconds": result.seconds,
                    "run": context.mark,
                    **measured(result.images[span], data.images[:images].unsqueeze(1), data),
                }
            )
    return rows


def _cut(images: int, steps: int, planned: int) -> str:
    said = f"{images} images instead of {IMAGES}" if images < IMAGES else ""
    if steps < planned:
        said += f"{said and ', '}{steps:,} of {planned:,} iterations"
    return said


def _rebuilt(
    net: nn.Module,
    data: Split,
    images: Tensor,
    labels: Tensor,
    method: InvertingGradients,
    seconds: float,
) -> Reconstruction:
    """The attack on the gradient of each image, with as many iterations as there is time for.

    In full precision: with TensorFloat-32 a gradient by one path is not that by another, and the
    attack would fall back to the path that writes down every victim's gradient.
    """
    with tensor_cores(False):
        attack = partial(
            InvertingGradients.reconstruct_many,
            model=net,
            loss_fn=nn.functional.cross_entropy,
            gradients=leaked(net, images, labels),
            shape=data.shape,
            batch_size=1,
            labels=labels,
            bounds=data.bounds,
            seed=0,
        )
        if method.steps > _PROBE:
            method = replace(method, steps=_afforded(attack, method, seconds))
        # The trial may have been quicker than what comes; a search that is cut off still counts.
        return finished(attack(method, time_limit=1.2 * seconds))


def leaked(net: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """The gradient of each image alone, name to (victims, *parameter)."""
    named = dict(net.named_parameters())
    out = {name: p.new_empty((len(images), *p.shape)) for name, p in named.items()}
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        loss = nn.functional.cross_entropy(net(image[None]), label)
        for name, slope in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
            out[name][place] = slope
    return out


def _afforded(attack: Callable[..., Any], method: InvertingGradients, seconds: float) -> int:
    """Iterations that fit into so many seconds, by a short trial.

    A search that plans for fewer ends with its small steps; one that is cut off does not.
    """
    looks: list[tuple[int, float]] = []
    tried = attack(
        replace(method, steps=_PROBE),
        time_limit=seconds,  # with a limit, every look at the clock waits for the device
        progress=lambda now: looks.append((now.step, time.perf_counter())),
    )
    finished(tried)
    if len(looks) < 2:
        return method.steps
    # The first look is before what a GPU records is in use.
    (early, began), (late, ended) = looks[-2:]
    each = max(ended - began, 1e-9) / (late - early)
    return min(method.steps, max(100, int(seconds / each)))
