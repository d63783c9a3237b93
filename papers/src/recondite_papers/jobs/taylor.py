"""Tan et al. (2024), Eq. 17: noise on a record as noise on its gradient, to first order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

from recondite.channels import NaturalChannel
from recondite.models import build
from recondite.records import ImageSet, load
from recondite.training.trainer import descend
from recondite_papers.groups import Rows
from recondite_papers.jobs.sink import Context

__all__ = ["first_order"]

_LENGTHS = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0)
_NATS = (5.0, 10.0, 20.0, 50.0)
_CASES = (("mlp", "untrained"), ("mlp", "trained"), ("mlp2", "untrained"), ("mlp2", "trained"))


def first_order(context: Context) -> None:
    """What of a gradient's change under noise on its record the Jacobian does not explain."""
    sink = context.sink("channel-taylor")
    cases = _CASES[:1] if context.quick else _CASES
    blocks: dict[str, Callable[[], Rows]] = {
        f"taylor/{network}/{state}": partial(_block, context, network, state)
        for network, state in cases
    }
    context.blocks(sink, blocks)


def _block(context: Context, network: str, state: str) -> Rows:
    """Every noise is white; lengths are Euclidean, pixels lie in [0, 1]."""
    digits = load("digits")
    count = context.pick(16, 64, 64)
    kept, own = digits.subset(range(count)), digits.subset(range(count, len(digits)))
    model = build(network, digits.shape, len(digits.classes), seed=0).double()
    if state == "trained":
        _train(model, own)
    images, labels = kept.images.double(), kept.labels
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(images.shape, generator=generator, dtype=images.dtype)
    unit = drawn / drawn.flatten(1).norm(dim=1).reshape(-1, 1, 1, 1)
    flat = own.images.flatten(1).double().numpy()
    noises: list[tuple[str, float, Tensor]] = [("length", r, r * unit) for r in _LENGTHS]
    for nats in _NATS:
        channel = NaturalChannel.fit(flat, capacity=nats)
        noises.append(("natural", nats, channel.noise_variance**0.5 * drawn))
    rows: Rows = []
    for kind, value, noise in noises:
        change, rest = _expanded(model, images, labels, noise)
        left = rest / change
        rows.append(
            {
                "network": network,
                "victim": state,
                "noise": kind,
                "value": value,
                "length": float(noise.flatten(1).norm(dim=1).median()),
                "remainder": float(left.median()),
                "remainder_90": float(left.quantile(0.9)),
                "records": count,
                "run": "quick" if context.quick else "",
            }
        )
    return rows


def _expanded(
    model: nn.Module, images: Tensor, labels: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor]:
    """Lengths of each record's change of gradient, and of what its Jacobian leaves of it."""
    weights = {name: value.detach() for name, value in model.named_parameters()}

    def loss(point: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, point, (image[None],))
        return nn.functional.cross_entropy(logits, label[None])

    def gradient(image: Tensor, label: Tensor) -> Tensor:
        found = grad(loss)(weights, image, label)
        return torch.cat([found[name].flatten() for name in weights])

    def one(image: Tensor, label: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
        both: tuple[Tensor, ...] = jvp(lambda x: gradient(x, label), (image,), (moved,))
        before, along = both[0], both[1]
        change = gradient(image + moved, label) - before
        return change.norm(), (change - along).norm()

    lengths: tuple[Tensor, Tensor] = vmap(one)(images, labels, noise)
    return lengths


def _train(model: nn.Module, records: ImageSet, steps: int = 300) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    images, labels = records.images.double(), records.labels
    drawn = (torch.randint(len(labels), (64,), generator=generator) for _ in range(steps))
    for _ in descend(model, optimizer, ((images[batch], labels[batch]) for batch in drawn)):
        pass
