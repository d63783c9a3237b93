"""Tan et al. (2024), remark on Theorem 3: the same guarantee for embeddings, with Σ_embedding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from recondite.channels import NaturalChannel, Spectrum
from recondite.models import build
from recondite_papers.jobs.channel import SMALL, records
from recondite_papers.jobs.channel_training import (
    drawn_from,
    precision,
    right_share,
    train_all,
)
from recondite_papers.jobs.channels import covariance
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.sink import Context, Row

__all__ = ["guideline"]

_BATCH = 64


def guideline(context: Context) -> None:
    """A classifier on noisy embeddings of a public LeNet, beside one on noisy pixels."""
    sink = context.sink("channel-embedding")
    names = context.pick(("fashion-mnist",), ("fashion-mnist",), ("fashion-mnist", "cifar10"))
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"embedding/{name}": partial(_block, context, name) for name in names
    }
    context.blocks(sink, blocks)


def _block(context: Context, name: str) -> list[Row]:
    data = records(context, name, context.pick(400, 5000, None))
    half = len(data.images) // 2
    public = data.images[:half], data.labels[:half]
    own, labels = data.images[half:], data.labels[half:]
    net = build("lenet", data.shape, 10, seed=0).to(context.device)
    steps = context.pick(1, 5, 20) * -(-half // _BATCH)
    train_all([net], [drawn_from(*public, _BATCH)], steps, seeds=[0], device=context.device)
    encoder = nn.Sequential(*list(net.children())[:-1]).eval()
    kappas = (0.0, *context.pick(SMALL[:1], SMALL, SMALL))
    rows = []
    for kind, transform in (("embedding", encoder), ("pixels", nn.Flatten())):
        clean, tests = _through(transform, own), _through(transform, data.test_images)
        # The channel of an embedding is fitted to the records through the encoder.
        known = Spectrum.from_covariance(covariance(clean).cpu().numpy())
        fitted = [NaturalChannel.from_spectrum(known, k) if k else None for k in kappas]
        generator = torch.Generator(context.device).manual_seed(3)
        noisy = [clean if c is None else c.perturb(clean, generator) for c in fitted]
        heads = [_head(kind, data, clean.shape[1]).to(context.device) for _ in kappas]
        # Noise is drawn once a record: what a linear guess is then measured on.
        draws = [drawn_from(seen, labels, _BATCH) for seen in noisy]
        seeds = list(range(1, len(kappas) + 1))
        train_all(heads, draws, steps, seeds=seeds, device=context.device)
        for kappa, channel, seen, head in zip(kappas, fitted, noisy, heads, strict=True):
            rows.append(
                {
                    "data": name,
                    "defence": kind,
                    "value": kappa,
                    "features": clean.shape[1],
                    "capacity": 0.0 if channel is None else _nats(channel),
                    "noise_variance": 0.0 if channel is None else channel.noise_variance,
                    "accuracy": [right_share(head, tests, data.test_labels)],
                    "mse_scaled": _best_linear(seen, own.flatten(1)),
                    "steps": steps,
                    "precision": precision(context.device),
                    "run": context.mark,
                }
            )
    return rows


def _nats(channel: NaturalChannel) -> float:
    values, variance = channel.spectrum.values, channel.noise_variance
    return 0.5 * float(np.sum(channel.spectrum.counts * np.log1p(values / variance)))


@torch.no_grad()
def _through(transform: nn.Module, images: Tensor) -> Tensor:
    return torch.cat([transform(x) for x in torch.split(images, 1000)]).flatten(1)


def _head(kind: str, data: Split, features: int) -> nn.Module:
    """On an embedding one linear layer, on pixels the whole LeNet."""
    torch.manual_seed(0)
    if kind == "embedding":
        return nn.Linear(features, 10)
    return nn.Sequential(nn.Unflatten(1, data.shape), build("lenet", data.shape, 10, seed=0))


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
