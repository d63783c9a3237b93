"""Tan et al. (2024) beyond LeNet: times (Table 2), accuracy (Figure 9), inversion (Figure 14)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.experiments.reproductions.jobs.channel import SMALL, STEPS, records
from recondite.experiments.reproductions.jobs.channels import ChannelInputs, Setting, spectrum
from recondite.experiments.reproductions.jobs.leaks import measured
from recondite.experiments.reproductions.jobs.sink import Context
from recondite.mechanisms import Gaussian
from recondite.models import build, count_parameters
from recondite.training import PrivacyEngine

__all__ = ["accuracy", "inversion", "times"]

NETWORKS = ("lenet", "resnet10", "alexnet", "vgg16")


def times(context: Context) -> None:
    """An epoch of plain training, of DP-SGD and of training on noisy data, turn by turn."""
    sink = context.sink("channel-times")
    chosen = context.pick(NETWORKS[:1], NETWORKS, NETWORKS)
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        name: partial(_times, context, name) for name in chosen
    }
    context.blocks(sink, blocks)


def _times(context: Context, name: str) -> list[dict[str, Any]]:
    on_cpu = context.device == "cpu"
    # Per-sample gradients of 134 million weights at batch 64 are 34 GB.
    batch = {"lenet": 64, "resnet10": 16, "alexnet": 8, "vgg16": 4}[name] if on_cpu else 64
    steps = {"lenet": 10, "resnet10": 2, "alexnet": 2, "vgg16": 1}[name] if on_cpu else 50
    repeats = {"lenet": 3, "resnet10": 2, "alexnet": 2, "vgg16": 1}[name] if on_cpu else 4
    data = records(context, "cifar10", max(50, batch * steps))
    runs: dict[str, Callable[[], float]] = {}
    for kind in ("sgd", "dp", "data"):
        chosen = data.images[: batch * steps], data.labels[: batch * steps]
        runs[kind] = _epoch(context, name, *chosen, batch, kind)
    # Turn by turn, so that a busy neighbour slows all three; the least is the least disturbed.
    found: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(repeats):
        for kind, run in runs.items():
            found[kind].append(run())
    row = {"model": name, "batch": batch, "steps": steps, "repeats": repeats}
    seconds = {f"seconds_{kind}": min(values) for kind, values in found.items()}
    parameters = count_parameters(build(name, data.shape, 10, seed=0))
    return [{**row, "parameters": parameters, "run": context.mark, **seconds}]


def _epoch(
    context: Context, name: str, images: torch.Tensor, labels: torch.Tensor, batch: int, kind: str
) -> Callable[[], float]:
    model = build(name, seed=0).to(context.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader: Any = DataLoader(TensorDataset(images, labels), batch_size=batch)
    if kind == "dp":
        loader = PrivacyEngine(seed=0).make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            mechanism=Gaussian(0.8),
            sampling="shuffled",
        )[2]

    def epoch() -> float:
        _wait(context)
        began = time.perf_counter()
        for x, y in loader:
            seen = x + 0.5 * torch.randn_like(x) if kind == "data" else x
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(model(seen), y)
            loss.backward()
            optimizer.step()
        _wait(context)
        return time.perf_counter() - began

    return epoch


def _wait(context: Context) -> None:
    if context.device.startswith("cuda"):
        torch.cuda.synchronize()


def accuracy(context: Context) -> None:
    """Figure 9's other networks: Natural channel by κ, and without defence."""
    sink = context.sink("channel-networks")
    names = context.pick(("resnet10",), ("resnet10", "alexnet"), NETWORKS[1:])
    sets = context.pick(("fashion-mnist",), ("fashion-mnist",), ("fashion-mnist", "cifar10"))
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        f"{model}/{name}": partial(_trained, context, model, name)
        for name in sets
        for model in names
    }
    context.blocks(sink, blocks)


def _trained(context: Context, model: str, name: str) -> list[dict[str, Any]]:
    data = records(context, name, context.pick(60, 3000, None))
    kappas = context.pick((300.0,), (50.0, 300.0), SMALL)
    settings = [Setting(), *(Setting("natural", kappa) for kappa in kappas)]
    generator = torch.Generator(context.device).manual_seed(7)
    inputs = ChannelInputs(data, spectrum(data), settings, generator)
    steps, batch = context.pick(2, 30, STEPS), context.pick(4, 16, 64)
    tests = context.pick(12, 300, 10_000)
    rows = []
    for run, setting in enumerate(settings):
        net = build(model, data.shape, 10, seed=0).to(context.device)
        optimizer = torch.optim.Adam(net.parameters(), 0.001)
        draw = torch.Generator().manual_seed(1)
        for _ in range(steps):
            index = torch.randint(len(data.images), (batch,), generator=draw).to(context.device)
            optimizer.zero_grad()
            seen = inputs.noisy(run, data.images[index])
            loss = nn.functional.cross_entropy(net(seen), data.labels[index])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            guess = torch.cat(
                [net(x).argmax(1) for x in torch.split(data.test_images[:tests], 100)]
            )
        right = float((guess == data.test_labels[:tests]).float().mean())
        rows.append(
            {
                "data": name,
                "model": model,
                "defence": setting.kind,
                "value": setting.capacity,
                "accuracy": [right],
                "steps": steps,
                "batch": batch,
                "run": context.mark,
            }
        )
    return rows


def inversion(context: Context) -> None:
    """Figure 14's other networks, one victim after another: their gradients fill a memory."""
    sink = context.sink("channel-networks-inversion")
    names = context.pick(("resnet10",), ("resnet10", "alexnet"), NETWORKS[1:])
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        f"inversion/{model}": partial(_inverted, context, model) for model in names
    }
    context.blocks(sink, blocks)


def _inverted(context: Context, model: str) -> list[dict[str, Any]]:
    data = records(context, "cifar10", context.pick(300, 4000, None))
    if context.quick:
        settings = [Setting()]
    else:
        known = ("natural", "white", "personalized-paper")
        kinds, kappas = context.pick((), known[:1], known), context.pick((), (50.0, 300.0), SMALL)
        settings = [Setting(), *(Setting(kind, kappa) for kind in kinds for kappa in kappas)]
    generator = torch.Generator(context.device).manual_seed(5)
    shown = [data.images[: context.pick(1, 1, 30)]] * len(settings)
    if not context.quick:
        inputs = ChannelInputs(data, spectrum(data), settings, generator)
        shown = [inputs.noisy(run, images) for run, images in enumerate(shown)]
    net = build(model, data.shape, 10, seed=0).to(context.device)
    method = InvertingGradients(steps=context.pick(2, 80, 4000))
    rows = []
    for setting, noisy in zip(settings, shown, strict=True):
        found = []
        for image, label in zip(noisy, data.labels, strict=False):
            loss = nn.functional.cross_entropy(net(image[None]), label[None])
            gradients = torch.autograd.grad(loss, list(net.parameters()))
            names = [name for name, _ in net.named_parameters()]
            result = method.reconstruct(
                net,
                nn.functional.cross_entropy,
                dict(zip(names, gradients, strict=True)),
                shape=data.shape,
                batch_size=1,
                labels=label[None],
                bounds=data.bounds,
                seed=0,
                time_limit=context.pick(10, 12, 600),
            )
            found.append(result.images)
            steps = result.steps
        truth = data.images[: len(found)].unsqueeze(1)
        rows.append(
            {
                "data": "cifar10",
                "model": model,
                "defence": setting.kind,
                "value": setting.capacity,
                "iterations": steps,
                "run": context.mark,
                **measured(torch.stack(found), truth, data),
            }
        )
    return rows
