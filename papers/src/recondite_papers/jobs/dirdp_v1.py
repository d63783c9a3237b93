"""Faustini et al. (2022), Tables 1 and 2: accuracy on MNIST, CIFAR-10 and LFW."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

import recondite as rc
from recondite.notions.calibration import calibrate
from recondite_papers.jobs.dirdp import records
from recondite_papers.jobs.dirdp_networks import CHOSEN, PaperNetwork
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["HYPER", "accuracy", "with_usual_weights"]

# Table 5: batch, learning rate, epochs, optimizer.
HYPER = {
    ("lenet", "mnist"): (200, 0.1, 30, "sgd"),
    ("lenet", "lfw"): (128, 0.001, 100, "adamw"),
    ("lenet", "cifar10"): (512, 0.001, 90, "adamw"),
    ("mlp2", "mnist"): (128, 0.1, 30, "sgd"),
    ("mlp2", "lfw"): (128, 0.001, 30, "adamw"),
    ("mlp2", "cifar10"): (128, 0.1, 25, "adamw"),
}
EPSILONS = (0.8, 1.0, 2.0, 3.0, 8.0, 80.0)
KAPPAS = (5.0, 10.0, 50.0, 500.0, 300_000.0)
# The partition of the 2023 version, and the one that noise on rows of weights would be.
PARTITIONS = (("elements", "clipped"), ("rows", "clipped"))


def accuracy(context: Context) -> None:
    """Without defence, Gaussian, and VMF by two partitions."""
    _tables(context, "dirdp-v1-accuracy", CHOSEN)


def with_usual_weights(context: Context) -> None:
    """The same from torch's own initial weights."""
    networks = {model: replace(network, first="torch") for model, network in CHOSEN.items()}
    _tables(context, "dirdp-v1-usual", networks)


def _tables(context: Context, job: str, networks: dict[str, PaperNetwork]) -> None:
    sink = context.sink(job)
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for pair in HYPER:
        network = networks[pair[0]]
        for kind in ("plain", "gaussian"):
            blocks[f"{kind}/{pair[0]}/{pair[1]}"] = partial(_block, context, pair, kind, network)
        for blocks_of, weights in PARTITIONS:
            blocks[f"vmf-{blocks_of}/{pair[0]}/{pair[1]}"] = partial(
                _block, context, pair, "vmf", network, (blocks_of, weights)
            )
    if context.small:
        blocks = {key: blocks[key] for key in blocks if "mlp2" not in key or "lfw" in key}
    if context.quick:
        kept = ("plain/lenet/mnist", "gaussian/lenet/mnist", "plain/lenet/lfw")
        blocks = {key: blocks[key] for key in kept}
    context.blocks(sink, blocks)


def _multipliers(context: Context, records_: int, batch: int, epochs: int) -> list[Any]:
    chosen = context.pick((8.0,), (0.8, 8.0, 80.0), EPSILONS)
    schedule = rc.Poisson(batch / records_, epochs * math.ceil(records_ / batch))
    out = []
    for epsilon in chosen:
        found = calibrate(rc.Gaussian(1.0), epsilon, "epsilon", schedule, relative=1e-3, delta=1e-5)
        out.append((epsilon, StackRelease("gaussian", found.value)))
    return out


def _block(
    context: Context,
    pair: tuple[str, str],
    kind: str,
    network: PaperNetwork,
    partition: tuple[str, str] = ("elements", "clipped"),
) -> list[Row]:
    model, name = pair
    batch, rate, epochs, optimizer = HYPER[pair]
    limit = context.pick(300, None if name == "lfw" else 2000, None)
    data = records(context, name, limit)
    epochs = context.pick(1, min(epochs, 15 if kind != "vmf" else 6), epochs)
    if context.small and name != "lfw":
        # Few records: more steps in smaller batches.
        batch = 64
    if kind == "plain":
        cases: list[Any] = [(0.0, StackRelease("none", clipping="none"))]
    elif kind == "gaussian":
        cases = _multipliers(context, len(data.images), batch, epochs)
    else:
        kappas = context.pick((50.0,), (5.0, 500.0), KAPPAS)
        cases = [
            (k, StackRelease("directional", k, blocks=partition[0], weights=partition[1]))
            for k in kappas
        ]
    stack = Stack([network.build(data.shape, data.classes, 0) for _ in cases], context.device)
    steps = epochs * math.ceil(len(data.images) / batch)
    sampling = "poisson" if kind == "gaussian" else "shuffled"
    plan = Plan(steps, batch, sampling, optimizer, rate)
    train(stack, data.images, data.labels, [release for _, release in cases], plan, seed=23)
    tops = (1, 5, 10) if name == "lfw" else (1,)
    scores = {k: stack.topk(data.test_images, data.test_labels, k, 200).cpu() for k in tops}
    return [
        {
            "data": name,
            "model": model,
            "network": network.name,
            "defence": {"plain": "none", "gaussian": "gaussian", "vmf": "vmf"}[kind],
            "value": value,
            "noise": release.value,
            "blocks": partition[0] if kind == "vmf" else None,
            "batch": batch,
            "rate": rate,
            "optimizer": optimizer,
            "epochs": epochs,
            "records": len(data.images),
            "top": {str(k): float(torch.nan_to_num(found[run])) for k, found in scores.items()},
            "run": context.mark,
        }
        for run, (value, release) in enumerate(cases)
    ]
