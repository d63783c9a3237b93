"""Tan et al. (2024): accuracies of Figures 9, 11, 12 and 15, with the channels beyond the paper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from recondite._files import replaced
from recondite.models import build
from recondite_papers.jobs.channels import (
    ChannelInputs,
    ChannelSetting,
    spectrum,
)
from recondite_papers.jobs.data import Split, split
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["LARGE", "MULTIPLIERS", "SMALL", "STEPS", "accuracy", "records"]

SMALL, LARGE = (50.0, 100.0, 200.0, 300.0), (500.0, 800.0, 1000.0, 1500.0)
MULTIPLIERS = (0.8, 0.57, 0.46, 0.2066)
STEPS = 10_000
# TotalInfo of the paper at κ = 300.
TOTALS = (5e5, 1e6, 2e6, 3e6)


def records(context: Context, name: str, limit: int | None = None) -> Split:
    """32×32, pixels (x - .5)/.5."""
    return split(
        name,
        device=context.device,
        data_dir=context.data_dir,
        prepare=None if name == "cifar10" else "resize32",
        scale="half",
        records=limit,
    )


def accuracy(context: Context) -> None:
    """LeNet with every channel, DP-SGD and DP-PSAC, n = 10,000 steps, B = 64, in one stack."""
    sink = context.sink("channel-accuracy")
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for name in ("fashion-mnist", "cifar10"):
        for rate in (0.001,):
            blocks[f"lenet/{name}/adam-{rate}"] = partial(_lenet, context, name, rate)
    if context.quick:
        blocks = dict(list(blocks.items())[:1])
    context.blocks(sink, blocks)


def _settings(quick: bool) -> list[tuple[ChannelSetting, StackRelease]]:
    plain = StackRelease("none", clipping="none")
    chosen = [ChannelSetting()]
    for kind in ("natural", "minimum-power", "white"):
        chosen += [ChannelSetting(kind, kappa) for kappa in SMALL]
    for kind in ("white", "personalized-paper", "personalized", "minimum-power"):
        chosen += [ChannelSetting(kind, kappa) for kappa in LARGE]
    chosen += [ChannelSetting("personalized-paper", kappa) for kappa in (50.0, 300.0)]
    for kind in ("natural", "minimum-power"):
        chosen += [ChannelSetting(kind, kappa, "once") for kappa in SMALL]
    for kind in ("white", "personalized"):
        chosen += [ChannelSetting(kind, kappa, "once") for kappa in LARGE]
    if quick:
        chosen = [
            ChannelSetting(),
            ChannelSetting("natural", 50.0),
            ChannelSetting("natural", 300.0),
        ]
    pairs = [(setting, plain) for setting in chosen]
    multipliers = MULTIPLIERS[:1] if quick else MULTIPLIERS
    pairs += [(ChannelSetting(), StackRelease("gaussian", m)) for m in multipliers]
    if not quick:
        pairs += [
            (ChannelSetting(), StackRelease("gaussian", m, clipping="psac")) for m in MULTIPLIERS
        ]
    return pairs


def _lenet(context: Context, name: str, rate: float) -> list[Row]:
    data = records(context, name, 2000 if context.quick else None)
    known = spectrum(data)
    pairs = _settings(context.quick)
    seeds = 1 if context.quick else 2
    runs = [pair for pair in pairs for _ in range(seeds)]
    stack = Stack(
        [build("lenet", data.shape, 10, seed=n % seeds) for n in range(len(runs))], context.device
    )
    generator = torch.Generator(context.device).manual_seed(7)
    inputs = ChannelInputs(data, known, [setting for setting, _ in runs], generator)
    plan = Plan(60 if context.quick else STEPS, 64, "shuffled", "adam", rate)
    # Poisson batches would be what DP-SGD is accounted for; accuracies do not tell them apart.
    history: dict[int, list[float]] = {}

    def look(step: int) -> None:
        scores = stack.accuracy(data.test_images, data.test_labels, 200)
        history[step] = [float(value) for value in scores]

    moments = sorted({int(total // 300) for total in TOTALS} | {1000, plan.steps})
    calls = {step: partial(look, step) for step in moments if step <= plan.steps}
    train(
        stack,
        data.images,
        data.labels,
        [release for _, release in runs],
        plan,
        seed=11,
        inputs=inputs,
        at=calls,
    )
    _save(context, name, stack, seeds)
    eigenvalues = known.eigenvalues
    rows = []
    for number, (setting, release) in enumerate(pairs):
        span = slice(number * seeds, (number + 1) * seeds)
        channel = inputs.channels.get((setting.kind, setting.capacity))
        rows.append(
            {
                "data": name,
                "model": "lenet",
                "defence": setting.kind if release.kind == "none" else f"dp-{release.clipping}",
                "value": setting.capacity if release.kind == "none" else release.value,
                "noise": setting.noise if setting.kind != "none" else None,
                "batch": 64,
                "optimizer": "adam",
                "rate": rate,
                "steps": plan.steps,
                "accuracy": history[plan.steps][span],
                "by_steps": {str(step): found[span] for step, found in history.items()},
                "noise_power": None if channel is None else channel.noise.power,
                "exact_nats": None if channel is None else channel.exact_nats,
                "eigenvalues": [float(eigenvalues[i]) for i in (0, 1, 10)],
            }
        )
    return rows


def _save(context: Context, name: str, stack: Stack, seeds: int) -> None:
    """Trained weights of the first seed, for attacks on trained models."""
    if context.out is None:
        return
    context.out.mkdir(parents=True, exist_ok=True)
    flat = torch.cat([p.flatten(1) for p in stack.parameters()], 1)[::seeds].cpu().numpy()
    with replaced(context.out / f"weights-channel-{name}.npz") as file:
        np.savez_compressed(file, weights=flat)
