"""Faustini et al. (2023), Table 2: which network gives the printed accuracies?

The paper names "LeNet, the original" and "an MLP with 2 layers"; activation, pooling, width and
the scale of pixels are left open. Each is varied, without defence and under Gaussian noise, with
everything else as printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from recondite_papers.jobs.data import Split
from recondite_papers.jobs.dirdp import EPSILONS, HYPER, MULTIPLIERS, records
from recondite_papers.jobs.dirdp_networks import (
    ACTIVATIONS,
    CHOSEN,
    PaperNetwork,
    usual,
)
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["again", "moved", "norms", "sweep"]

_HIDDEN = ((64,), (256,), (1024,), (50, 15))
_SOME = (0.8, 3.0, 50.0)  # of the six ε
_LOUD = (0.8, 1.0)  # where LeNet on CIFAR-10 is off
_PLAIN = StackRelease("none", clipping="none")
_BOUNDS = (
    ("flat", 2.0), ("flat", 5.0), ("flat", 10.0), ("flat", 20.0), ("flat", 40.0),
    ("per-layer", 1.0),
)  # fmt: skip


def _networks(data: str) -> list[PaperNetwork]:
    out = [
        PaperNetwork("lenet", act, pooling=pool)
        for act, pool in product(ACTIVATIONS, ("max", "average"))
    ]
    out += [PaperNetwork("lenet", act, pixels="unit") for act in ACTIVATIONS]
    out += [
        PaperNetwork("mlp2", act, hidden=hidden, pixels=pixels)
        for act, hidden, pixels in product(ACTIVATIONS, _HIDDEN, ("half", "unit"))
    ]
    own = _earlier("lenet", data), _earlier("mlp2", data)
    out += [replace(network, first=first) for network in own for first in ("xavier", "dlg")]
    if data == "lfw":
        # Table 1 prints a momentum beside Adam, which has none.
        out += [
            PaperNetwork("mlp2", act, hidden=hidden, pixels=pixels, optimizer="sgd")
            for act, hidden, pixels in product(ACTIVATIONS, _HIDDEN, ("half", "unit"))
        ]
    return out


def _earlier(model: str, data: str) -> PaperNetwork:
    """From torch's own initial weights, and by SGD for the MLP on LFW.

    Table 1 prints a momentum beside Adam there, which has none.
    """
    return replace(usual(model), optimizer="sgd" if (model, data) == ("mlp2", "lfw") else None)


def _plan(network: PaperNetwork, name: str, count: int, sampling: str, steps: int | None) -> Plan:
    """Table 1's for so many records, but for the network's optimizer; or fewer steps."""
    batch, rate, epochs, optimizer, momentum = HYPER[network.model, name]
    if network.optimizer is not None:
        optimizer, momentum = network.optimizer, 0.9
    whole = epochs * math.ceil(count / batch)
    return Plan(steps or whole, batch, sampling, optimizer, rate, momentum)


def _sigmas(network: PaperNetwork, name: str) -> dict[float, float]:
    """By ε."""
    return dict(zip(EPSILONS, MULTIPLIERS[network.model, name], strict=True))


def sweep(context: Context) -> None:
    """Every reading on every data set, the cheap ones first."""
    sink = context.sink("dirdp-variants")
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for model, data in (
        ("mlp2", "lfw"), ("lenet", "lfw"), ("mlp2", "fashion-mnist"), ("mlp2", "cifar10"),
        ("lenet", "fashion-mnist"), ("lenet", "cifar10"),
    ):  # fmt: skip
        for network in _networks(data):
            if network.model == model:
                blocks[f"{data}/{network.name}"] = partial(_block, context, network, data)
    if context.quick:
        blocks = {key: blocks[key] for key in blocks if key.startswith("lfw/mlp2/tanh/64/half/as-")}
    context.blocks(sink, blocks)


def norms(context: Context) -> None:
    """Gaussian noise with other clipping norms than 1, which the paper does not print.

    Noise grows with C, and the released signal only up to the gradients' own lengths.
    """
    sink = context.sink("dirdp-norms")
    order = [
        ("mlp2", "cifar10"), ("lenet", "cifar10"), ("mlp2", "lfw"), ("lenet", "lfw"),
        ("mlp2", "fashion-mnist"), ("lenet", "fashion-mnist"),
    ]  # fmt: skip
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"norms/{model}/{name}": partial(_norms, context, model, name) for model, name in order
    }
    context.blocks(sink, dict(list(blocks.items())[2:3]) if context.quick else blocks)


def _norms(context: Context, model: str, name: str) -> list[Row]:
    network = _earlier(model, name)
    data = records(context, name, 300 if context.quick else None, network.pixels)
    known = _sigmas(network, name)
    cases = list(product(_BOUNDS, _SOME))
    releases = [
        StackRelease("gaussian", known[epsilon], clipping=clipping, norm=norm)
        for (clipping, norm), epsilon in cases
    ]
    plan = _plan(network, name, len(data.images), "poisson", 2 if context.quick else None)
    found = trained(context, network, data, releases, plan)
    return [
        {"data": name, "model": model, "network": network.name, "defence": "gaussian",
         "epsilon": epsilon, "clipping": clipping, "norm": norm, "steps": plan.steps,
         "accuracy": scores}
        for ((clipping, norm), epsilon), scores in zip(cases, found, strict=True)
    ]  # fmt: skip


def again(context: Context) -> None:
    """Cells of Table 2 that are more than 3 points off, from another seed and with other widths."""
    sink = context.sink("dirdp-again")
    lenet, mlp = CHOSEN["lenet"], CHOSEN["mlp2"]
    cases: list[tuple[PaperNetwork, str, float | None, int]] = [
        (replace(mlp, hidden=hidden), name, None, 1)
        for name in ("lfw", "cifar10")
        for hidden in (mlp.hidden, *_HIDDEN[:-1])
    ]
    cases += [(lenet, "lfw", None, 1)]
    cases += [(lenet, "cifar10", epsilon, 1) for epsilon in _LOUD]
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for case in cases:
        network, name, epsilon, _ = case
        blocks[f"{name}/{network.name}/{epsilon or 0:g}"] = partial(_again, context, *case)
    context.blocks(sink, dict(list(blocks.items())[:1]) if context.quick else blocks)


def _again(
    context: Context, network: PaperNetwork, name: str, epsilon: float | None, seed: int
) -> list[Row]:
    data = records(context, name, 300 if context.quick else None, network.pixels)
    release, sampling = _PLAIN, "shuffled"
    if epsilon is not None:
        release, sampling = StackRelease("gaussian", _sigmas(network, name)[epsilon]), "poisson"
    plan = _plan(network, name, len(data.images), sampling, 2 if context.quick else None)
    (scores,) = trained(context, network, data, [release], plan, seed=seed)
    return [
        {"data": name, "model": network.model, "network": network.name, "defence": release.kind,
         "epsilon": epsilon, "seed": seed, "steps": plan.steps, "accuracy": scores}
    ]  # fmt: skip


def moved(context: Context) -> None:
    """LeNet on LFW with faces moved and scaled at random, as images that are not aligned are."""
    sink = context.sink("dirdp-moved")
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"moved/{pixels}": partial(_moved, context, pixels, pixels / 20) for pixels in (0, 2, 4, 6)
    }
    context.blocks(sink, dict(list(blocks.items())[:1]) if context.quick else blocks)


def _moved(context: Context, pixels: int, zoom: float) -> list[Row]:
    network = CHOSEN["lenet"]
    data = records(context, "lfw", 300 if context.quick else None, network.pixels)
    draw = torch.Generator().manual_seed(0)
    images, test = (_shifted(x, pixels, zoom, draw) for x in (data.images, data.test_images))
    data = replace(data, images=images, test_images=test)
    known = _sigmas(network, "lfw")
    rows = []
    for epsilons, sampling in (((None,), "shuffled"), ((8.0, 50.0), "poisson")):
        releases = [_PLAIN if e is None else StackRelease("gaussian", known[e]) for e in epsilons]
        plan = _plan(network, "lfw", len(images), sampling, 2 if context.quick else None)
        for epsilon, scores in zip(
            epsilons, trained(context, network, data, releases, plan), strict=True
        ):
            rows.append(
                {
                    "data": "lfw", "model": "lenet", "network": network.name, "moved": pixels,
                    "zoom": zoom, "defence": "none" if epsilon is None else "gaussian",
                    "epsilon": epsilon, "steps": plan.steps, "accuracy": scores,
                }
            )  # fmt: skip
    return rows


def _shifted(images: Tensor, pixels: int, zoom: float, draw: torch.Generator) -> Tensor:
    """Every image moved by up to so many pixels and scaled by up to 1 ± zoom."""
    count, side = len(images), images.shape[-1]
    maps = torch.zeros(count, 2, 3)
    scale = 1 + zoom * (2 * torch.rand(count, generator=draw) - 1)
    maps[:, 0, 0], maps[:, 1, 1] = scale, scale
    maps[:, :, 2] = (2 * torch.rand(count, 2, generator=draw) - 1) * 2 * pixels / side
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False).to(images)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _block(context: Context, network: PaperNetwork, name: str) -> list[Row]:
    data = records(context, name, 1000 if context.quick else None, network.pixels)
    known = _sigmas(network, name)
    private = [StackRelease("gaussian", known[epsilon]) for epsilon in _SOME]
    rows = []
    for releases, sampling in (([_PLAIN], "shuffled"), (private, "poisson")):
        plan = _plan(network, name, len(data.images), sampling, 4 if context.quick else None)
        found = trained(context, network, data, releases, plan)
        for number, release in enumerate(releases):
            rows.append(
                {
                    "data": name,
                    "model": network.model,
                    "network": network.name,
                    "activation": network.activation,
                    "pooling": network.pooling if network.model == "lenet" else None,
                    "hidden": list(network.hidden) if network.model == "mlp2" else None,
                    "pixels": network.pixels,
                    "optimizer": plan.optimizer,
                    "defence": release.kind,
                    "value": release.value,
                    "epsilon": _SOME[number] if release.kind == "gaussian" else None,
                    "steps": plan.steps,
                    "accuracy": found[number],
                }
            )
    return rows


def trained(
    context: Context,
    network: PaperNetwork,
    data: Split,
    releases: list[StackRelease],
    plan: Plan,
    seeds: int = 1,
    seed: int = 0,
) -> list[list[float]]:
    """Test accuracy (Top-10 on LFW) of every release and seed, counted from the one given."""
    runs = [release for release in releases for _ in range(seeds)]
    stack = Stack(
        [network.build(data.shape, data.classes, seed + n % seeds) for n in range(len(runs))],
        context.device,
    )
    train(stack, data.images, data.labels, runs, plan, seed=17 + seed)
    top = 10 if data.name == "lfw" else 1
    scores = stack.topk(data.test_images, data.test_labels, top, 200)
    return [[float(x) for x in torch.nan_to_num(row)] for row in scores.view(-1, seeds).cpu()]
