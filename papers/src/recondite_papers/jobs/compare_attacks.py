"""Biswas et al. (2025): reconstructions of Tables II, III and VI and Figures 1, 3, 4 and 6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch

from recondite._files import replaced
from recondite.attacks.gradient.dlg import DLG
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite_papers.jobs.compare import (
    DATA,
    EXTRA_KAPPA,
    EXTRA_SIGMA,
    KAPPA,
    SIGMA,
    records,
)
from recondite_papers.jobs.compare_network import network
from recondite_papers.jobs.leaks import attacked, joined, leak, measured
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import StackRelease

__all__ = ["attack", "dlg", "iga"]

_TABLE_V = (75, 100, 150, 200, 250, 300, 350, 400)
_TABLE_V_SIGMA = (1.23, 0.660, 0.461, 0.420, 0.321, 0.282, 0.229, 0.204)
_PLAIN = StackRelease("none", clipping="none")


def iga(context: Context) -> None:
    """Inverting Gradients, 10,000 iterations: batch 128 with every κ and σ; 16, 32, 64 as Table VI.

    The victim is an untrained network, one for both defences; labels are known; the number of
    batches grows as they shrink, so that every cell has 128 images (256 at batch 128).
    """
    sink = context.sink("compare-iga")
    names = list(DATA)
    steps = 60 if context.quick else 10_000
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for name in names:
        full = [
            _PLAIN,
            StackRelease("clip"),
            StackRelease("clip", clipping="per-layer"),
            *(StackRelease("vmf", float(k)) for k in (*KAPPA, *EXTRA_KAPPA)),
            *(StackRelease("gaussian", float(s)) for s in (*SIGMA, *EXTRA_SIGMA)),
            StackRelease("gaussian", 0.0174),
        ]
        if context.quick:
            full = [
                _PLAIN,
                StackRelease("clip"),
                StackRelease("vmf", 500.0),
                StackRelease("gaussian", 0.174),
            ]
        batch = 8 if context.quick else 128
        blocks[f"iga-128/{name}"] = partial(
            attack, context, name, full, batch=batch, batches=1 if context.quick else 2, steps=steps
        )
    if not context.quick:
        small = [
            *(StackRelease("vmf", float(k)) for k in _TABLE_V),
            *(StackRelease("gaussian", s) for s in _TABLE_V_SIGMA),
        ]
        for batch in (64, 32, 16):
            for name in names:
                job = partial(
                    attack, context, name, small, batch=batch, batches=128 // batch, steps=steps
                )
                blocks[f"iga-{batch}/{name}"] = job
    context.blocks(sink, blocks)


def dlg(context: Context) -> None:
    """Deep Leakage from Gradients, one image at a time (Table III does not say how many)."""
    sink = context.sink("compare-dlg")
    chosen = [
        _PLAIN,
        StackRelease("gaussian", 0.174),
        StackRelease("gaussian", 0.0174),
        StackRelease("vmf", 500.0),
        StackRelease("vmf", 20_000.0),
    ]
    images, steps = (2, 20) if context.quick else (32, 300)
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for name in DATA:
        job = partial(
            attack, context, name, chosen, batch=1, batches=images, steps=steps, kind="dlg"
        )
        blocks[f"dlg/{name}"] = job
    context.blocks(sink, blocks)


def attack(
    context: Context,
    name: str,
    releases: list[StackRelease],
    *,
    batch: int,
    batches: int,
    steps: int,
    kind: str = "iga",
) -> list[Row]:
    """Attacks every release of the same batches in one computation; one row a release."""
    data = records(context, name)
    model = network(data.shape, 10, seed=0).to(context.device)
    parts = [
        leak(model, data, release, batch=batch, batches=batches, seed=100 + number)
        for number, release in enumerate(releases)
    ]
    whole = joined(parts)
    method = (
        InvertingGradients(steps=steps)
        if kind == "iga"
        else DLG(steps=steps, restarts=2 if steps < 100 else 4)
    )
    found = attacked(method, model, whole, data, context.minutes * 60)
    _gallery(context, f"{kind}-{batch}-{name}", releases, found.images, whole.images, data, batches)
    rows = []
    for number, release in enumerate(releases):
        span = slice(number * batches, (number + 1) * batches)
        rows.append(
            {
                "data": name,
                "defence": release.kind,
                "value": release.value,
                "clipping": release.clipping,
                "batch": batch,
                "attack": kind,
                "iterations": found.steps,
                "interrupted": found.interrupted,
                "victim": "untrained",
                "matching_loss": float(found.loss[span].mean()),
                "release": asdict(release),
                **measured(found.images[span], whole.images[span], data),
            }
        )
    return rows


def _gallery(
    context: Context,
    name: str,
    releases: list[StackRelease],
    found: torch.Tensor,
    truth: torch.Tensor,
    data: Any,
    batches: int,
) -> None:
    """The first images of each release, as bytes, for the figures of reconstructions."""
    if context.out is None or found.shape[1] in (16, 32, 64):
        return
    stored: dict[str, Any] = {}
    many = found.shape[1] == 1  # one image a victim
    for number, release in enumerate(releases):
        span = slice(number * batches, (number + 1) * batches)
        pick = found[span][:6, 0] if many else found[span][0, :6]
        key = f"{release.kind}_{release.value:g}_{release.clipping}"
        stored[key] = (data.pixels(pick).clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    first = truth[:6, 0] if many else truth[0, :6]
    stored["originals"] = (
        (data.pixels(first).clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    )
    context.out.mkdir(parents=True, exist_ok=True)
    with replaced(context.out / f"gallery-{name}.npz") as file:
        np.savez_compressed(file, **stored)
