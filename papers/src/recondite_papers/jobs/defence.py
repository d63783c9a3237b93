"""Tan et al. (2024), Figures 10, 13, 15 and 16: model inversion and membership by channel."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from recondite.attacks.inversion import ModelInversion
from recondite.attacks.membership import WhiteBox
from recondite.models import build
from recondite_papers.jobs.channel import (
    LARGE,
    MULTIPLIERS,
    SMALL,
    STEPS,
    TOTALS,
    records,
)
from recondite_papers.jobs.channel_membership import membership_areas
from recondite_papers.jobs.channel_models import inversion_errors
from recondite_papers.jobs.channels import ChannelInputs, ChannelSetting, spectrum
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train
from recondite_papers.tables.cells import mean

__all__ = ["planes"]

_PLAIN = StackRelease("none", clipping="none")
# Seeds of the undefended and the Natural runs, on whose order Figures 10 and 13 rest.
_SEEDS = 3
_SPARED = 40.0  # seconds of a call's time that the attacks on what was trained may take


def planes(context: Context) -> None:
    """LeNet by channel and capacity: accuracy, model inversion after n steps, membership."""
    sink = context.sink("channel-defence")
    names = context.pick(("fashion-mnist",), ("fashion-mnist",), ("fashion-mnist", "cifar10"))
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"lenet/{name}": partial(_lenet, context, name) for name in names
    }
    context.blocks(sink, blocks)


def _pairs(context: Context) -> list[tuple[ChannelSetting, StackRelease]]:
    natural = context.pick((50.0, 300.0), SMALL, SMALL)
    others = context.pick((), (500.0, 1500.0), LARGE)
    multipliers = context.pick((0.8,), (0.8, 0.2066), MULTIPLIERS)
    out = [(ChannelSetting(), _PLAIN)]
    out += [(ChannelSetting("natural", kappa), _PLAIN) for kappa in natural]
    for kind in ("white", "personalized-paper", "personalized"):
        out += [(ChannelSetting(kind, kappa), _PLAIN) for kappa in others]
    for clipping in context.pick(("flat",), ("flat",), ("flat", "psac")):
        out += [
            (ChannelSetting(), StackRelease("gaussian", m, clipping=clipping)) for m in multipliers
        ]
    return out


def _lenet(context: Context, name: str) -> list[Row]:
    data = records(context, name, context.pick(400, 3000, None))
    known = spectrum(data)
    # The victim sees part of the records; the channel is fitted to all, as to a public spectrum.
    count = context.pick(80, 600, len(data.images) // 2)
    pairs = _pairs(context)
    most = context.pick(1, 1, _SEEDS)
    seeds = [most if s.kind in ("none", "natural") and r is _PLAIN else 1 for s, r in pairs]
    runs = [pair for pair, many in zip(pairs, seeds, strict=True) for _ in range(many)]
    first = [n for many in seeds for n in range(many)]
    stack = Stack([build("lenet", data.shape, 10, seed=n) for n in first], context.device)
    generator = torch.Generator(context.device).manual_seed(7)
    inputs = ChannelInputs(data, known, [setting for setting, _ in runs], generator)
    steps = context.pick(20, 600, STEPS)
    batch = context.pick(32, 32, 64)
    plan = Plan(steps, batch, "shuffled", "adam", 0.001)
    attack = ModelInversion(iterations=context.pick(5, 200, 600))
    history: dict[int, list[float]] = {}
    last: dict[str, Any] = {}

    def look(step: int) -> None:
        history[step], last["start"] = inversion_errors(stack, data, count, attack)

    moments = sorted({max(1, round(steps * total / TOTALS[-1])) for total in TOTALS} - {steps})
    calls = {step: partial(look, step) for step in (*moments, steps)}
    began = time.monotonic()
    left = context.began + 60 * context.minutes - began - _SPARED
    done = train(
        stack,
        data.images[:count],
        data.labels[:count],
        [release for _, release in runs],
        plan,
        seed=11,
        inputs=inputs,
        at=calls,
        time_limit=left,
    )
    seconds = time.monotonic() - began
    if done not in history:
        look(done)
    right = [float(v) for v in stack.accuracy(data.test_images, data.test_labels, 200)]
    tests = min(count, len(data.test_images))
    areas = membership_areas(
        stack,
        (data.images[:tests], data.labels[:tests]),
        (data.test_images[:tests], data.test_labels[:tests]),
        WhiteBox(epochs=context.pick(5, 20, 50)),
    )
    rows = []
    start = 0
    for (setting, release), many in zip(pairs, seeds, strict=True):
        span = slice(start, start + many)
        start += many
        by_steps = {str(step): mean(found[span]) for step, found in history.items()}
        rows.append(
            {
                "data": name,
                "model": "lenet",
                "defence": setting.kind if release.kind == "none" else f"dp-{release.clipping}",
                "value": setting.capacity if release.kind == "none" else release.value,
                "accuracy": right[span],
                "mse_inversion": by_steps[str(done)],
                "mse_inversion_seeds": history[done][span],
                "mse_start": last["start"],
                "by_steps": by_steps,
                "auc": mean(areas[span]),
                "auc_seeds": areas[span],
                "seeds": many,
                "members": count,
                "judged": tests,
                "steps": done,
                "batch": batch,
                "train_seconds": seconds,
                "cut": "" if done == steps else f"time was up after {done:,} of {steps:,} steps",
                "run": context.mark,
            }
        )
    return rows
