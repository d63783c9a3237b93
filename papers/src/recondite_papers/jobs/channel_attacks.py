"""Tan et al. (2024): gradient inversion of Figure 14, and the guidelines of Figures 6 and 8."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.models import build
from recondite_papers.jobs.channel import SMALL, records
from recondite_papers.jobs.channels import ChannelInputs, ChannelSetting, spectrum
from recondite_papers.jobs.leaks import finished, measured
from recondite_papers.jobs.single_images import ImageCase, attack_cases
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import StackRelease

__all__ = ["figure_14", "guidelines"]

_PLAIN = StackRelease("none", clipping="none")
_SIZES = (1, 2, 4, 8, 16, 32, 64)


def figure_14(context: Context) -> None:
    """MSE of reconstructions from the gradients of noisy images, LeNet on CIFAR-10."""
    sink = context.sink("channel-inversion")
    blocks: dict[str, Callable[[], list[Row]]] = {}
    name = "fashion-mnist" if context.quick else "cifar10"
    blocks[f"lenet/{name}"] = partial(_inversion, context, name)
    context.blocks(sink, blocks)


def _inversion(context: Context, name: str) -> list[Row]:
    data = records(context, name, 1500 if context.quick else None)
    known = spectrum(data)
    kinds = ("natural", "white", "personalized-paper", "personalized", "minimum-power")
    settings = [
        ChannelSetting(),
        *(ChannelSetting(kind, kappa) for kind in kinds for kappa in SMALL),
    ]
    settings += [ChannelSetting(kind, 1500.0) for kind in kinds]
    if context.quick:
        settings = settings[:3]
    generator = torch.Generator(context.device).manual_seed(5)
    inputs = ChannelInputs(data, known, settings, generator)
    images = 2 if context.quick else 30
    noisy = [inputs.noisy(run, data.images[:images]) for run in range(len(settings))]
    cases = [ImageCase({"defence": s.kind, "value": s.capacity}, _PLAIN) for s in settings]
    net = build("lenet", data.shape, 10, seed=0).to(context.device)
    rows = []
    for variation in (1e-4, 1e-2):
        method = InvertingGradients(steps=20 if context.quick else 4000, total_variation=variation)
        done = attack_cases(
            net, data, cases, method, images=images, seconds=context.seconds, noisy=noisy
        )
        rows += [
            {"data": name, "model": "lenet", "total_variation": variation, **row} for row in done
        ]
    return rows


def guidelines(context: Context) -> None:
    """Batch size under DP, under constant noise and without defence; one eigenvector removed."""
    sink = context.sink("channel-guidelines")
    name = "fashion-mnist" if context.quick else "cifar10"
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"batch/{name}": partial(_batches, context, name),
        f"compression/{name}": partial(_compression, context, name),
    }
    context.blocks(sink, blocks)


def _batches(context: Context, name: str) -> list[Row]:
    """As Appendix D: one image is rebuilt from a batch's gradient and compared with its mean."""
    data = records(context, name, 1500 if context.quick else None)
    net = build("lenet", data.shape, 10, seed=0).to(context.device)
    sizes, repeats = ((1, 4), 2) if context.quick else (_SIZES, 20)
    generator = torch.Generator(context.device).manual_seed(5)
    names = [key for key, _ in net.named_parameters()]
    leaks: dict[str, list[Tensor]] = {key: [] for key in names}
    labels, means, keys = [], [], []
    for defence in ("none", "dp", "constant"):
        for size in sizes:
            for repeat in range(repeats):
                span = slice(repeat * size, (repeat + 1) * size)
                x, y = data.images[span], data.labels[span]
                flat = _average(net, x, y, clip=defence == "dp")
                # DP: noise of size 1.3/B on the average; constant: the same at every batch size.
                spread = {"none": 0.0, "dp": 1.3 / size, "constant": 1.3 / 64}[defence]
                for key, value in zip(names, flat, strict=True):
                    noise = torch.randn(value.shape, device=value.device, generator=generator)
                    leaks[key].append(value + spread * noise)
                labels.append(nn.functional.one_hot(y, 10).float().mean(0, keepdim=True))
                means.append(x.mean(0, keepdim=True))
                keys.append((defence, size))
    found = finished(
        InvertingGradients(steps=20 if context.quick else 2000).reconstruct_many(
            net,
            nn.functional.cross_entropy,
            {key: torch.stack(value) for key, value in leaks.items()},
            shape=data.shape,
            batch_size=1,
            labels=torch.stack(labels),
            bounds=data.bounds,
            seed=0,
            time_limit=context.seconds,
        )
    )
    truth = torch.stack(means)
    rows = []
    for start in range(0, len(keys), repeats):
        span = slice(start, start + repeats)
        defence, size = keys[start]
        row = {"data": name, "defence": defence, "batch": size, "iterations": found.steps}
        rows.append({**row, **measured(found.images[span], truth[span], data)})
    return rows


def _average(net: nn.Module, x: Tensor, y: Tensor, *, clip: bool) -> list[Tensor]:
    """The averaged gradient of a batch, each record's clipped to 1 or not."""
    total: list[Tensor] | None = None
    parameters = list(net.parameters())
    for image, label in zip(x, y, strict=True):
        loss = nn.functional.cross_entropy(net(image[None]), label[None])
        found = torch.autograd.grad(loss, parameters)
        norm = torch.cat([g.flatten() for g in found]).norm()
        factor = 1.0 / max(1.0, float(norm)) if clip else 1.0
        part = [g * factor / len(x) for g in found]
        total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    assert total is not None
    return total


def _compression(context: Context, name: str) -> list[Row]:
    """Images without their component along one eigenvector, as Appendix D."""
    data = records(context, name, 1500 if context.quick else None)
    known = spectrum(data)
    vectors = torch.from_numpy(known.eigenvectors.copy()).float().to(context.device)
    images = 2 if context.quick else 100
    shown = data.images[:images]
    noisy, cases = [shown], [ImageCase({"defence": "none", "value": 0.0}, _PLAIN)]
    for place in (0, 1, 10, 100):
        along = vectors[:, place]
        flat = shown.flatten(1)
        # Around zero, as a map to the compressed eigenspace does: the mean's share goes too.
        cut = (flat - (flat @ along)[:, None] * along).view_as(shown)
        noisy.append(cut)
        label = {"defence": "compression", "value": float(known.eigenvalues[place])}
        cases.append(ImageCase({**label, "place": place}, _PLAIN))
    net = build("lenet", data.shape, 10, seed=0).to(context.device)
    method = InvertingGradients(steps=20 if context.quick else 4000)
    rows = attack_cases(
        net, data, cases, method, images=images, seconds=context.seconds, noisy=noisy
    )
    return [{"data": name, "model": "lenet", **row} for row in rows]
