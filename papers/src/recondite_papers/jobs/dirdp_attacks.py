"""Faustini et al. (2023) Table 4, and (2022) Tables 3, 4 and 6: single images reconstructed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from recondite.attacks.gradient.base import GradientAttack
from recondite.attacks.gradient.dlg import DLG
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.models import build, count_parameters
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.dirdp import EPSILONS, KAPPAS, MULTIPLIERS, records
from recondite_papers.jobs.dirdp_networks import CHOSEN, PaperNetwork
from recondite_papers.jobs.single_images import ImageCase, attack_cases
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["early", "relu", "table_4"]

_PLAIN = StackRelease("none", clipping="none")
_V1_SIGMA = (0.8, 1.0, 2.0, 3.0, 8.0, 80.0)
_V1_KAPPA = (5.0, 10.0, 50.0, 500.0, 300_000.0)


def table_4(context: Context) -> None:
    """Inverting Gradients on LeNet and MLP, Gaussian and every partition of VMF noise."""
    _table_4(context, "dirdp-iga", lambda model: CHOSEN[model])


def relu(context: Context) -> None:
    """The same on our own networks, with ReLU and torch's own initial weights."""
    _table_4(context, "dirdp-iga-relu", lambda model: None)


def _table_4(context: Context, job: str, network: Callable[[str], PaperNetwork | None]) -> None:
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for name in ("fashion-mnist", "cifar10", "lfw"):
        for model in ("lenet", "mlp2"):
            blocks[f"{model}/{name}"] = partial(_iga, context, network(model), model, name)
    if context.quick:
        blocks = {"lenet/fashion-mnist": blocks["lenet/fashion-mnist"]}
    context.blocks(context.sink(job), blocks)


def _vmf(kappas: tuple[float, ...], partitions: tuple[tuple[str, str], ...]) -> list[ImageCase]:
    return [
        ImageCase(
            {"defence": "vmf", "value": k, "blocks": blocks, "weights": weights},
            StackRelease("directional", k, blocks=blocks, weights=weights),
        )
        for blocks, weights in partitions
        for k in kappas
    ]


def _iga(context: Context, network: PaperNetwork | None, model: str, name: str) -> list[Row]:
    data = records(context, name, 200 if context.quick else None)
    if network is None:
        net, called = build(model, data.shape, data.classes, seed=0), f"{model}/relu"
    else:
        net, called = network.build(data.shape, data.classes, 0), network.name
    net = net.to(context.device)
    cases = [ImageCase({"defence": "none", "value": 0.0}, _PLAIN)]
    pairs = zip(EPSILONS, MULTIPLIERS[model, name], strict=True)
    cases += [
        ImageCase({"defence": "gaussian", "value": e, "sigma": s}, StackRelease("gaussian", s))
        for e, s in pairs
    ]
    partitions: tuple[tuple[str, str], ...] = (
        ("elements", "clipped"), ("flat", "public"), ("layers", "own"), ("rows", "own"),
        ("rows", "public"),
    )  # fmt: skip
    cases += _vmf(KAPPAS, partitions[:3] if model == "mlp2" else partitions)
    images = 1 if context.quick else 50 if model == "lenet" else 20
    method = InvertingGradients(steps=20 if context.quick else 2000)
    rows = attack_cases(net, data, cases, method, images=images, seconds=context.seconds, most=2000)
    label = {"data": name, "model": model, "network": called, "victim": "untrained"}
    return [{**label, **row} for row in rows]


def early(context: Context) -> None:
    """The first version's tables: DLG and Inverting Gradients, untrained and trained victims."""
    sink = context.sink("dirdp-v1-attacks")
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for name in ("mnist", "cifar10", "lfw"):
        for model in ("lenet-dlg", "mlp2"):
            for attack in ("dlg", "iga"):
                key = f"{attack}/{model}/{name}"
                blocks[f"{key}/plain"] = partial(_undefended, context, model, name, attack)
                blocks[f"{key}/noisy"] = partial(_early, context, model, name, attack)
    if context.quick:
        blocks = {key: run for key, run in blocks.items() if "lenet-dlg/mnist" in key}
    context.blocks(sink, blocks)


def _undefended(context: Context, model: str, name: str, attack: str) -> list[Row]:
    """Without noise, before and after training, apart from noise: nothing takes its time."""
    net, data, images = _victim(context, model, name)
    method = _method(attack, 20 if context.quick else 1000)
    cases = [ImageCase({"defence": "none", "value": 0.0}, _PLAIN)]
    rows = []
    for victim in ("untrained", "trained"):
        if victim == "trained":
            if context.quick:
                break
            _train(net, model, data, context)
        done = attack_cases(net, data, cases, method, images=images, seconds=context.seconds)
        rows += [{"victim": victim, **row} for row in done]
    return [{"data": name, "model": model, "run": context.mark, **row} for row in rows]


def _victim(context: Context, model: str, name: str) -> tuple[nn.Module, Split, int]:
    """A network, its records, and how many images are attacked."""
    data = records(context, name, context.pick(200, 2000, None), scale="published")
    net = build(model, data.shape, data.classes, seed=0).to(context.device)
    small = 10 if count_parameters(net) < 100_000 else 4
    return net, data, context.pick(1, small, 50)


def _method(attack: str, steps: int) -> GradientAttack:
    # Double precision: DLG either finds an image exactly or not at all.
    return DLG(steps=steps) if attack == "dlg" else InvertingGradients(steps=steps)


def _early(context: Context, model: str, name: str, attack: str) -> list[Row]:
    net, data, images = _victim(context, model, name)
    # As printed: noise of standard deviation ε on the gradient itself, so that larger is noisier.
    cases = [
        ImageCase(
            {"defence": "gaussian", "value": s},
            StackRelease("gaussian", s, clipping="flat", norm=1e6, sensitivity=1.0),
        )
        for s in _V1_SIGMA
    ]
    for blocks in ("flat", "rows"):
        cases += [
            ImageCase(
                {"defence": "vmf", "value": k, "blocks": blocks},
                StackRelease("directional", k, blocks=blocks, weights="own"),
                keep_norm=True,
            )
            for k in _V1_KAPPA
        ]
    if context.quick:
        cases = cases[:1]
    method = _method(attack, 20 if context.quick else 1000)
    done = attack_cases(net, data, cases, method, images=images, seconds=context.seconds, most=700)
    marks = {"data": name, "model": model, "victim": "untrained", "run": context.mark}
    return [{**marks, **row} for row in done]


def _train(net: nn.Module, model: str, data: Any, context: Context) -> None:
    """Five epochs of AdamW: enough for most of the accuracy (the paper's have up to 100)."""
    stack = Stack([net], context.device)
    steps = 5 * max(1, len(data.images) // 128)
    rate = 0.001 if model == "mlp2" else 0.003
    plan = Plan(steps, 128, "shuffled", "adamw", rate)
    train(stack, data.images, data.labels, [StackRelease("none", clipping="none")], plan, seed=3)
    net.load_state_dict(stack.state(0))
