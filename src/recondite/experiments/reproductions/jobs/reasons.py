"""One likely reason tested for each cell that is off: size of noise, network, scale of pixels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.experiments.reproductions.jobs.compare import _data
from recondite.experiments.reproductions.jobs.data import Split, split
from recondite.experiments.reproductions.jobs.leaks import joined, leak, measured
from recondite.experiments.reproductions.jobs.sink import Context
from recondite.experiments.reproductions.stacked import Plan, Release, Stack, train
from recondite.models import build

__all__ = ["networks", "noise_size"]

_PLAIN = Release("none", clipping="none")


def noise_size(context: Context) -> None:
    """Biswas et al., Table VI: the Gaussian cells with the noise divided once more."""
    sink = context.sink("compare-noise-size")
    sizes = (4,) if context.quick else (16, 64) if context.small else (16, 32, 64, 128)
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        f"noise/mnist/{batch}": partial(_sizes, context, batch) for batch in sizes
    }
    if not context.quick:
        blocks["victim/mnist/16"] = partial(_sizes, context, 16, trained=True)
    context.blocks(sink, blocks)


def _sizes(context: Context, batch: int, trained: bool = False) -> list[dict[str, Any]]:
    data = _data(context, "mnist")
    model = build("mlp", data.shape, 10, seed=0).to(context.device)
    if trained:
        stack = Stack([model], context.device)
        plan = Plan(1400, 128, "shuffled", "adamw", 0.005)
        train(stack, data.images, data.labels, [_PLAIN], plan, seed=0)
        model.load_state_dict(stack.state(0))
    cases = [("clipped flat", 0.0, 0.0, Release("clip"))]
    cases.append(("clipped by layer", 0.0, 0.0, Release("clip", clipping="per-layer")))
    divisors = (1.0,) if trained or context.quick else (1.0, 8.0, 16.0, 32.0, float(batch))
    for sigma in (0.204, 0.461, 1.23):
        for divisor in dict.fromkeys(divisors):
            cases.append(("gaussian", sigma, divisor, Release("gaussian", sigma / divisor)))
        by_layer = Release("gaussian", sigma, clipping="per-layer")
        cases.append(("gaussian by layer", sigma, 1.0, by_layer))
    batches = 1 if batch > 16 else 2
    whole = joined(
        [
            leak(model, data, case[3], batch=batch, batches=batches, seed=100 + number)
            for number, case in enumerate(cases)
        ]
    )
    steps = 40 if context.quick else 2500 if context.small else 10_000
    found = InvertingGradients(steps=steps).reconstruct_many(
        model,
        nn.functional.cross_entropy,
        whole.gradients,
        shape=data.shape,
        batch_size=batch,
        labels=whole.labels,
        bounds=data.bounds,
        seed=0,
        time_limit=170,
    )
    rows = []
    for number, (name, sigma, divisor, _) in enumerate(cases):
        span = slice(number * batches, (number + 1) * batches)
        rows.append(
            {
                "data": "mnist",
                "defence": name,
                "value": sigma,
                "divisor": divisor,
                "batch": batch,
                "victim": "trained" if trained else "untrained",
                "iterations": found.steps,
                "run": context.mark,
                **measured(found.images[span], whole.images[span], data),
            }
        )
    return rows


def networks(context: Context) -> None:
    """Faustini et al. (2023), Table 2 without defence: LeNet on CIFAR-10, and both on LFW."""
    sink = context.sink("dirdp-reasons")
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {}
    for kind, scale in (("relu", "half"), ("relu", "unit"), ("tanh", "half"), ("sigmoid", "half")):
        blocks[f"cifar10/{kind}-{scale}"] = partial(_lenet, context, kind, scale)
    blocks["lfw/lenet"] = partial(_faces, context, "lenet")
    blocks["lfw/mlp2"] = partial(_faces, context, "mlp2")
    context.blocks(sink, blocks)


def _classic(kind: str, channels: int, classes: int) -> nn.Module:
    """LeNet-5 with another activation and average pooling, as first published."""
    act = {"tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[kind]
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5), act(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), act(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), act(), nn.Linear(120, 84), act(),
        nn.Linear(84, classes),
    )  # fmt: skip


def _lenet(context: Context, kind: str, scale: str) -> list[dict[str, Any]]:
    limit = 200 if context.quick else 10_000 if context.small else None
    data = split(
        "cifar10", device=context.device, data_dir=context.data_dir, scale=scale, records=limit
    )
    epochs = 1 if context.quick else 25 if context.small else 90
    torch.manual_seed(0)
    net = build("lenet", data.shape, 10, seed=0) if kind == "relu" else _classic(kind, 3, 10)
    batch = 512 if limit is None else 128
    scores = _fit(net.to(context.device), data, batch, 0.001, epochs)
    row = {"data": "cifar10", "model": f"LeNet, {kind}", "pixels": scale, "epochs": epochs}
    return [{**row, "records": len(data.images), "run": context.mark, **scores}]


def _faces(context: Context, model: str) -> list[dict[str, Any]]:
    """Learning rates, pixel scales and training shares on LFW, Top-10."""
    rows = []
    epochs = 1 if context.quick else 20 if context.small else 60
    printed = {"lenet": ("sgd", 128, 0.05), "mlp2": ("adam", 256, 0.001)}[model]
    for name, scale, share, rate in (
        ("as printed", "half", 1.0, printed[2]),
        ("pixels in [0, 1]", "unit", 1.0, printed[2]),
        ("a quarter of the pictures", "half", 0.25, printed[2]),
        ("learning rate a tenth", "half", 1.0, printed[2] / 10),
    ):
        data = split("lfw", device=context.device, data_dir=context.data_dir, scale=scale)
        kept = max(20, int(share * len(data.images)))
        # Files stand in the order of names: every fourth keeps all people.
        chosen = torch.arange(0, len(data.images), max(1, round(len(data.images) / kept)))
        part = Split(
            data.images[chosen], data.labels[chosen], data.test_images, data.test_labels,
            data.mean, data.std, data.name, data.classes,
        )  # fmt: skip
        net = build(model, data.shape, data.classes, seed=0).to(context.device)
        scores = _fit(net, part, printed[1], rate, epochs, printed[0], top=10)
        row = {"data": "lfw", "model": model, "change": name, "epochs": epochs}
        rows.append({**row, "records": len(part.images), "run": context.mark, **scores})
    return rows


def _fit(
    net: nn.Module,
    data: Split,
    batch: int,
    rate: float,
    epochs: int,
    optimizer: str = "adam",
    top: int = 1,
) -> dict[str, Any]:
    """Plain training; Top-k on test and training records after every fifth epoch and the last."""
    made: Any = (
        torch.optim.Adam(net.parameters(), rate)
        if optimizer == "adam"
        else torch.optim.SGD(net.parameters(), rate, momentum=0.9)
    )
    generator = torch.Generator().manual_seed(0)
    history = {}
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(data.images), generator=generator).to(data.images.device)
        for part in torch.split(order, batch):
            made.zero_grad()
            loss = nn.functional.cross_entropy(net(data.images[part]), data.labels[part])
            loss.backward()  # type: ignore[no-untyped-call]
            made.step()
        if epoch % 5 == 0 or epoch == epochs:
            history[str(epoch)] = _top(net, data.test_images, data.test_labels, top)
    return {
        "accuracy": [history[str(epochs)]],
        "by_epochs": history,
        "train_accuracy": [_top(net, data.images[:5000], data.labels[:5000], top)],
        "top": top,
    }


@torch.no_grad()
def _top(net: nn.Module, images: torch.Tensor, labels: torch.Tensor, k: int) -> float:
    right = [
        (net(x).topk(k, 1).indices == y[:, None]).any(1)
        for x, y in zip(torch.split(images, 500), torch.split(labels, 500), strict=True)
    ]
    return float(torch.cat(right).float().mean())
