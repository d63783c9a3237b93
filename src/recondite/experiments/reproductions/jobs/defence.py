"""Tan et al. (2024), Figures 10, 13, 15 and 16: model inversion and membership by channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from recondite.attacks.inversion import ModelInversion
from recondite.attacks.membership import WhiteBox
from recondite.experiments.reproductions.jobs.channel import (
    LARGE,
    MULTIPLIERS,
    SMALL,
    STEPS,
    TOTALS,
    records,
)
from recondite.experiments.reproductions.jobs.channels import ChannelInputs, Setting, spectrum
from recondite.experiments.reproductions.jobs.data import Split
from recondite.experiments.reproductions.jobs.sink import Context
from recondite.experiments.reproductions.stacked import Plan, Release, Stack, train
from recondite.models import build

__all__ = ["planes"]

_PLAIN = Release("none", clipping="none")


def planes(context: Context) -> None:
    """LeNet by channel and capacity: accuracy, model inversion after n steps, membership."""
    sink = context.sink("channel-defence")
    names = context.pick(("fashion-mnist",), ("fashion-mnist",), ("fashion-mnist", "cifar10"))
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        f"lenet/{name}": partial(_lenet, context, name) for name in names
    }
    context.blocks(sink, blocks)


def _pairs(context: Context) -> list[tuple[Setting, Release]]:
    natural = context.pick((50.0, 300.0), SMALL, SMALL)
    others = context.pick((), (500.0, 1500.0), LARGE)
    multipliers = context.pick((0.8,), (0.8, 0.2066), MULTIPLIERS)
    out = [(Setting(), _PLAIN)]
    out += [(Setting("natural", kappa), _PLAIN) for kappa in natural]
    for kind in ("white", "personalized-paper", "personalized"):
        out += [(Setting(kind, kappa), _PLAIN) for kappa in others]
    for clipping in context.pick(("flat",), ("flat",), ("flat", "psac")):
        out += [(Setting(), Release("gaussian", m, clipping=clipping)) for m in multipliers]
    return out


def _lenet(context: Context, name: str) -> list[dict[str, Any]]:
    data = records(context, name, context.pick(400, 3000, None))
    known = spectrum(data)
    # The victim sees part of the records; the channel is fitted to all, as to a public spectrum.
    count = context.pick(80, 600, len(data.images) // 2)
    pairs = _pairs(context)
    stack = Stack([build("lenet", data.shape, 10, seed=0) for _ in pairs], context.device)
    generator = torch.Generator(context.device).manual_seed(7)
    inputs = ChannelInputs(data, known, [setting for setting, _ in pairs], generator)
    steps = context.pick(20, 600, STEPS)
    batch = context.pick(32, 32, 64)
    plan = Plan(steps, batch, "shuffled", "adam", 0.001)
    history: dict[int, list[dict[str, float]]] = {}

    def look(step: int) -> None:
        right = stack.accuracy(data.test_images, data.test_labels, 200)
        found = []
        for run in range(len(pairs)):
            error, start = _inverted(context, stack, run, data, count)
            found.append({"mse": error, "start": start, "accuracy": float(right[run])})
        history[step] = found

    moments = sorted({max(1, round(steps * total / TOTALS[-1])) for total in TOTALS} - {steps})
    calls = {step: partial(look, step) for step in (*moments, steps)}
    train(
        stack,
        data.images[:count],
        data.labels[:count],
        [release for _, release in pairs],
        plan,
        seed=11,
        inputs=inputs,
        at=calls,
    )
    rows = []
    for run, (setting, release) in enumerate(pairs):
        last = history[steps][run]
        rows.append(
            {
                "data": name,
                "model": "lenet",
                "defence": setting.kind if release.kind == "none" else f"dp-{release.clipping}",
                "value": setting.capacity if release.kind == "none" else release.value,
                "accuracy": [last["accuracy"]],
                "mse_inversion": last["mse"],
                "mse_start": last["start"],
                "by_steps": {str(step): found[run]["mse"] for step, found in history.items()},
                "auc": _membership(context, stack, run, data, count),
                "members": count,
                "steps": steps,
                "batch": batch,
                "run": context.mark,
            }
        )
    return rows


def _net(stack: Stack, run: int, data: Split) -> torch.nn.Module:
    net = build("lenet", data.shape, 10, seed=0).to(data.images.device)
    net.load_state_dict(stack.state(run))
    return net


def _inverted(
    context: Context, stack: Stack, run: int, data: Split, count: int
) -> tuple[float, float]:
    """Median error over the classes on the scale (x - .5)/.5, and that of the start image."""
    attack = ModelInversion(iterations=context.pick(5, 200, 600))
    net = _net(stack, run, data)
    classes = sorted(set(data.labels[:count].tolist()))
    found = attack.invert(
        net, (data.test_images, data.test_labels), labels=classes, bounds=data.bounds
    )
    scores = found.score((data.images[:count], data.labels[:count]))
    return scores.median, scores.start


def _membership(context: Context, stack: Stack, run: int, data: Split, count: int) -> float:
    """Area of the white-box attack that knows half of the records."""
    tests = min(count, len(data.test_images))
    members = data.images[:count][:tests], data.labels[:count][:tests]
    others = data.test_images[:tests], data.test_labels[:tests]
    attack = WhiteBox(epochs=context.pick(2, 20, 50))
    return attack.infer(_net(stack, run, data), members, others, seed=0).auc
