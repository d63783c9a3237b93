"""Faustini et al. (2023), Table 3: membership by reference models (MIA-R)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

import recondite as rc
from recondite.attacks.membership import Reference
from recondite.attacks.membership.references import References, halves
from recondite.notions.calibration import calibrate
from recondite_papers.jobs.dirdp import EPSILONS, KAPPAS, records
from recondite_papers.jobs.dirdp_networks import usual
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.stacked import Plan, Stack, StackRelease, train

__all__ = ["HYPER", "LEARNT", "PARTITIONS", "decided", "table_3"]

# Bottom of Table 1: batch, learning rate, epochs; Adam everywhere.
HYPER = {
    ("lenet", "fashion-mnist"): (8, 0.001, 10),
    ("lenet", "cifar10"): (8, 0.01, 60),
    ("mlp2", "fashion-mnist"): (8, 0.1, 30),
    ("mlp2", "cifar10"): (256, 0.001, 25),
}
# Rates at which both networks learn, few records and many epochs: victims that can be told apart.
LEARNT = (50, 0.003, 30)
PARTITIONS = ("flat", "layers", "rows", "elements")
_PLAIN = StackRelease("none", clipping="none")


def table_3(context: Context) -> None:
    """Victims on half of the training records, references on halves of the other half."""
    sink = context.sink("dirdp-membership")
    pairs = list(HYPER)[:1] if context.quick else list(HYPER)
    trained: dict[tuple[str, str], References] = {}
    blocks: dict[str, Callable[[], list[Row]]] = {
        f"{model}/{name}/{defence}": partial(_victims, context, trained, model, name, defence)
        for model, name in pairs
        for defence in ("none", "gaussian", "vmf")
    }
    if not context.quick:
        # At these rates Adam learns next to nothing: were they those of SGD?
        for model, name in (("mlp2", "fashion-mnist"), ("lenet", "cifar10")):
            blocks[f"{model}/{name}/none-sgd"] = partial(
                _victims, context, {}, model, name, "none", "sgd"
            )
    # At the printed rates gradients die out; numbers near zero make a CPU a hundred times slower.
    torch.set_flush_denormal(True)
    try:
        context.blocks(sink, blocks)
    finally:
        torch.set_flush_denormal(False)


def decided(context: Context) -> None:
    """MIA-R on every partition of VMF noise, with victims that learnt something.

    At the printed rates some networks learn nothing, and Table 3 was run on single weights alone.
    Here both networks train for 30 epochs on 1,000 records of Fashion-MNIST (all of half of them in
    full), where the attack works without defence.
    """
    sink = context.sink("dirdp-decided")
    trained: dict[tuple[str, str], References] = {}
    blocks: dict[str, Callable[[], list[Row]]] = {}
    for model in ("mlp2", "lenet"):
        for part in ("none", "gaussian", *PARTITIONS):
            kind = "vmf" if part in PARTITIONS else part
            blocks[f"{model}/fashion-mnist/{part}"] = partial(
                _victims, context, trained, model, "fashion-mnist", kind, hyper=LEARNT, blocks=part
            )
    if context.quick:
        blocks = {key: run for key, run in blocks.items() if key == "mlp2/fashion-mnist/flat"}
    context.blocks(sink, blocks)


def _victims(
    context: Context,
    trained: dict[tuple[str, str], References],
    model: str,
    name: str,
    defence: str,
    optimizer: str = "adam",
    *,
    hyper: tuple[int, float, int] | None = None,
    blocks: str = "elements",
) -> list[Row]:
    """One stack of victims; the references of a pair are trained once a call."""
    data = records(context, name)
    half = len(data.images) // 2
    count = context.pick(80, 1000, half)
    batch, rate, epochs = hyper or HYPER[model, name]
    if context.quick or (context.small and hyper is None):
        # A batch of 8 would be a step a tenth as long in which little is computed at once.
        batch, epochs = max(batch, 32), context.pick(2, 15, epochs)
    members = data.images[:count], data.labels[:count]
    tests = min(count, len(data.test_images))
    others = data.test_images[:tests], data.test_labels[:tests]
    pool = slice(half, half + 2 * count)
    if (model, name) not in trained:
        chosen = (batch, rate, epochs)
        images, labels = data.images[pool], data.labels[pool]
        trained[model, name] = _references(
            context, model, images, labels, chosen, data.classes, optimizer
        )
    references = trained[model, name]
    network = usual(model)
    releases = _releases(context, defence, count, batch, epochs, blocks)
    stack = Stack([network.build(data.shape, data.classes, 0) for _ in releases], context.device)
    sampling = "poisson" if defence == "gaussian" else "shuffled"
    plan = Plan(epochs * math.ceil(count / batch), batch, sampling, optimizer, rate)
    train(stack, *members, [release for _, release in releases], plan, seed=19)
    right = stack.accuracy(*others, 200).cpu()
    fits = stack.accuracy(*members, 200).cpu()
    rows: list[Row] = []
    for run, (value, release) in enumerate(releases):
        net = network.build(data.shape, data.classes, 0).to(context.device)
        net.load_state_dict(stack.state(run))
        found = Reference().infer(net, members, others, references=references, seed=0)
        low, high = found.auc_interval
        rows.append(
            {
                "data": name,
                "model": model,
                "network": network.name,
                "defence": defence if optimizer == "adam" else f"{defence}-{optimizer}",
                "value": value,
                "noise": release.value,
                "auc": found.auc,
                "auc_low": low,
                "auc_high": high,
                "accuracy": [float(right[run])],
                "train_accuracy": [float(fits[run])],
                "members": count,
                "references": len(references),
                "batch": batch,
                "rate": rate,
                "optimizer": optimizer,
                "epochs": epochs,
                "run": context.mark,
                **({"blocks": blocks} if defence == "vmf" else {}),
            }
        )
    return rows


def _references(
    context: Context,
    model: str,
    images: torch.Tensor,
    labels: torch.Tensor,
    hyper: tuple[int, float, int],
    classes: int,
    optimizer: str,
) -> References:
    """Undefended models on random halves of a pool, as :func:`train_references` would train."""
    batch, rate, epochs = hyper
    count = context.pick(2, 4, 8)
    positions, inside = halves(len(images), count, seed=1)
    channels, height, width = images.shape[1:]
    network = usual(model)
    models = [network.build((channels, height, width), classes, 100 + n) for n in range(count)]
    stack = Stack(models, context.device)
    plan = Plan(epochs * math.ceil(positions.shape[1] / batch), batch, "shuffled", optimizer, rate)
    subsets = torch.as_tensor(positions, device=context.device)
    train(stack, images, labels, [_PLAIN] * count, plan, seed=29, subsets=subsets)
    for run, net in enumerate(models):
        net.load_state_dict(stack.state(run))
        net.to(context.device).eval()
    return References(tuple(models), inside, images, labels, batched=True)


def _releases(
    context: Context, defence: str, count: int, batch: int, epochs: int, blocks: str
) -> list[tuple[float, StackRelease]]:
    """(ε_G or ε_V, release) of each victim."""
    if defence == "none":
        return [(0.0, _PLAIN)]
    if defence == "vmf":
        kappas = context.pick((50.0,), (1.0, 50.0, 500.0, 300_000.0), KAPPAS)
        # Single weights with their lengths are the partition that gives Table 2 (see the puzzle of
        # that study's page); the others have public lengths, as the proof of their ε needs.
        weights = "clipped" if blocks == "elements" else "public"
        return [
            (kappa, StackRelease("directional", kappa, blocks=blocks, weights=weights))
            for kappa in kappas
        ]
    schedule = rc.Poisson(batch / count, epochs * math.ceil(count / batch))
    out = []
    for epsilon in context.pick((1.0,), (0.8, 8.0, 50.0), EPSILONS):
        found = calibrate(rc.Gaussian(1.0), epsilon, "epsilon", schedule, relative=1e-3, delta=1e-5)
        out.append((epsilon, StackRelease("gaussian", found.value)))
    return out
