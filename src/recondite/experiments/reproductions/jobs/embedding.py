"""Tan et al. (2024), remark on Theorem 3: the same guarantee for embeddings, with Σ_embedding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recondite.channels import NaturalChannel
from recondite.experiments.reproductions.jobs.channel import SMALL, records
from recondite.experiments.reproductions.jobs.data import Split
from recondite.experiments.reproductions.jobs.sink import Context
from recondite.models import build

__all__ = ["guideline"]


def guideline(context: Context) -> None:
    """A classifier on noisy embeddings of a public LeNet, beside one on noisy pixels."""
    sink = context.sink("channel-embedding")
    names = context.pick(("fashion-mnist",), ("fashion-mnist",), ("fashion-mnist", "cifar10"))
    blocks: dict[str, Callable[[], list[dict[str, Any]]]] = {
        f"embedding/{name}": partial(_block, context, name) for name in names
    }
    context.blocks(sink, blocks)


def _block(context: Context, name: str) -> list[dict[str, Any]]:
    data = records(context, name, context.pick(400, 5000, None))
    half = len(data.images) // 2
    public = data.images[:half], data.labels[:half]
    own, labels = data.images[half:], data.labels[half:]
    net = build("lenet", data.shape, 10, seed=0).to(context.device)
    epochs = context.pick(1, 5, 20)
    _fit(net, *public, epochs)
    encoder = nn.Sequential(*list(net.children())[:-1]).eval()
    rows = []
    for kind, transform in (("embedding", encoder), ("pixels", nn.Flatten())):
        with torch.no_grad():
            clean = torch.cat([transform(x) for x in torch.split(own, 1000)]).flatten(1)
            tests = torch.cat([transform(x) for x in torch.split(data.test_images, 1000)]).flatten(
                1
            )
        # The channel of an embedding is fitted to the records through the encoder.
        for kappa in (0.0, *context.pick(SMALL[:1], SMALL, SMALL)):
            noisy, nats, variance = clean, 0.0, 0.0
            if kappa:
                channel = NaturalChannel.fit(own, kappa, transform=transform)
                noisy = channel.perturb(clean, torch.Generator(context.device).manual_seed(3))
                values, variance = channel.spectrum.values, channel.noise_variance
                nats = 0.5 * float(np.sum(channel.spectrum.counts * np.log1p(values / variance)))
            head = _head(kind, data, clean.shape[1]).to(context.device)
            _fit(head, noisy, labels, epochs)
            rows.append(
                {
                    "data": name,
                    "defence": kind,
                    "value": kappa,
                    "features": clean.shape[1],
                    "capacity": nats,
                    "noise_variance": variance,
                    "accuracy": [_accuracy(head, tests, data.test_labels)],
                    "mse_scaled": _best_linear(noisy, own.flatten(1)),
                    "run": context.mark,
                }
            )
    return rows


@torch.no_grad()
def _through(transform: nn.Module, images: Tensor) -> Tensor:
    return torch.cat([transform(x) for x in torch.split(images, 1000)]).flatten(1)


def _head(kind: str, data: Split, features: int) -> nn.Module:
    """On an embedding one linear layer, on pixels the whole LeNet."""
    torch.manual_seed(0)
    if kind == "embedding":
        return nn.Linear(features, 10)
    return nn.Sequential(nn.Unflatten(1, data.shape), build("lenet", data.shape, 10, seed=0))


def _fit(net: nn.Module, rows: Tensor, labels: Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam(net.parameters(), 0.001)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        order = torch.randperm(len(rows), generator=generator).to(rows.device)
        for part in torch.split(order, 64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(rows[part]), labels[part])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


@torch.no_grad()
def _accuracy(net: nn.Module, rows: Tensor, labels: Tensor) -> float:
    right = torch.cat([net(part).argmax(1) for part in torch.split(rows, 1000)])
    return float((right == labels).float().mean())


def _best_linear(seen: Tensor, images: Tensor) -> float:
    """Error of the best linear guess of the pixels, fitted to one half, measured on the other.

    The best of five ridges. An attack that anyone with public records can run; a better one may
    exist.
    """
    half = len(seen) // 2
    x, y = seen.double(), images.double()
    centre, middle = x[:half].mean(0), y[:half].mean(0)
    a, b = x[:half] - centre, y[:half] - middle
    inner, outer = a.T @ a, a.T @ b
    one = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    errors = []
    for share in (1e-3, 1e-2, 0.1, 1.0, 10.0):
        weights = torch.linalg.solve(inner + share * float(a.square().mean()) * half * one, outer)
        guess = (x[half:] - centre) @ weights + middle
        errors.append(float((guess - y[half:]).square().mean()))
    return min(errors)
