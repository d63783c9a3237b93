"""The four papers' reconstruction tables again, by an attacker who knows the defence.

    python -m recondite_papers.gpu intruder --device cpu --small --data-dir DIR --out results

One block for each paper, network and data set. Defences that the papers' own attacks left with
nothing to see are attacked by the posterior attackers of the library: importance weights over
public records, Gauss and Newton's linearisation, the exact posterior behind noise on records; on
one release and on several pooled; and by the identification game.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from recondite.attacks.posterior.prior import PublicPrior
from recondite.mechanisms import Directional, Gaussian, Mechanism, VonMisesFisher
from recondite.models import build
from recondite_papers.jobs import channel, compare, dirdp
from recondite_papers.jobs.channels import ChannelSetting, Fitter, spectrum
from recondite_papers.jobs.compare_network import network
from recondite_papers.jobs.dirdp_networks import CHOSEN
from recondite_papers.jobs.intruder_attacks import Guarded, on_copies, on_gradients
from recondite_papers.jobs.intruder_scene import Scene, scene_of
from recondite_papers.jobs.sink import Context, Row
from recondite_papers.single_weights import SingleWeights

__all__ = [
    "KAPPAS", "MORE", "SIGMAS", "STRENGTHS", "biswas2025", "faustini2022", "faustini2023",
    "intruder", "tan2024",
]  # fmt: skip

Rows = list[Row]

# Biswas et al.: Table VI's, and on to where something is seen.
SIGMAS = (1.23, 0.660, 0.461, 0.420, 0.321, 0.282, 0.229, 0.204, 0.174, 0.117, 0.0174)
KAPPAS = (75, 100, 150, 200, 250, 300, 350, 400, 500, 2_000, 8_000, 20_000, 40_000)
# Batch 128 once more, where the noise is little: ranks need settings in which something is seen.
MORE = (3_000, 5_000, 12_000, 28_000, 80_000, 160_000)
_ALONE = (75, 400, 500, 2_000, 8_000, 20_000)
_SMALL = (75, 100, 150, 200, 250, 300, 350, 400)
STRENGTHS = {"compare": 3, "dirdp": 10, "dirdp-v1": 10, "channel": 13}
"""Releases that are pooled: Biswas et al. train for 3 epochs, Tan et al. use a record 13 times; ten
of the 30 and more of Faustini et al., three in a small run."""


def intruder(context: Context) -> None:
    """All blocks, the cheap ones first."""
    _run(context, _COMPARE, _CHANNEL, _DIRDP, _EARLY)


def biswas2025(context: Context) -> None:
    """Those of Biswas et al. alone."""
    _run(context, _COMPARE)


def tan2024(context: Context) -> None:
    """Those of Tan et al. alone."""
    _run(context, _CHANNEL)


def faustini2023(context: Context) -> None:
    """Those of Faustini et al. (2023) alone."""
    _run(context, _DIRDP)


def faustini2022(context: Context) -> None:
    """Those of Faustini et al. (2022) alone."""
    _run(context, _EARLY)


def _run(context: Context, *parts: dict[str, Callable[[Context], Rows]]) -> None:
    # Of a quick version the first block of each paper, whatever else was asked for.
    chosen = [dict(list(part.items())[:1]) if context.quick else part for part in parts]
    blocks: dict[str, Callable[[], Rows]] = {}
    for part in chosen:
        blocks |= {name: partial(run, context) for name, run in part.items()}
    context.blocks(context.sink("intruder"), blocks)


def _scene(context: Context, data: Any, *, large: bool = False) -> Scene:
    """Who is attacked; a large network's gradients cost more, so a small run has fewer of them."""
    victims = context.pick(4, 16 if large else 24, 50)
    public = context.pick(300, 2_000 if large else 5_000, 10_000)
    return scene_of(data, victims=victims, public=public)


def _attack(
    context: Context, model: torch.nn.Module, scene: Scene, guarded: list[Guarded], seed: int
) -> Rows:
    """Gauss-Newton goes farther where there is a GPU."""
    return on_gradients(
        model.to(context.device).eval(),
        scene,
        guarded,
        steps=context.pick(1, 2, 3),
        rank=context.pick(20, 80, 150),
        seed=seed,
    )


def _named(study: str, data: str, model: str, run: str, rows: Rows) -> Rows:
    named = {"study": study, "data": data, "model": model, "victim": "untrained", "run": run}
    return [{**named, **row} for row in rows]


def _compare(context: Context, name: str) -> Rows:
    """Tables II, III and VI: VMF noise in batches of 128 to 16 and alone; Gaussian noise.

    Who knows the others' records subtracts them, and Gaussian noise on the sum is the same in
    every batch: one row stands for all of them.
    """
    data = compare.records(context, name)
    scene = _scene(context, data)
    model = network(data.shape, 10, seed=0)
    many = (1, STRENGTHS["compare"])
    guarded = [_gaussian(sigma, many) for sigma in SIGMAS]
    for batch, kappas in ((128, KAPPAS), (64, _SMALL), (32, _SMALL), (16, _SMALL), (1, _ALONE)):
        for kappa in kappas:
            label = {"defence": "vmf", "value": float(kappa)}
            counts = many if batch in (1, 128) else (1,)
            guarded.append(
                Guarded(label, VonMisesFisher(float(kappa)), batch=batch, releases=counts)
            )
    if context.quick:
        guarded = [guarded[0], guarded[-1]]
    return _named("compare", name, "mlp", context.mark, _attack(context, model, scene, guarded, 7))


def _little(context: Context, name: str) -> Rows:
    """VMF noise in batches of 128, on to where it hides as little as the least Gaussian noise."""
    data = compare.records(context, name)
    model = network(data.shape, 10, seed=0)
    many = context.pick((1,), (1,), (1, STRENGTHS["compare"]))
    guarded = [
        Guarded(
            {"defence": "vmf", "value": float(kappa)},
            VonMisesFisher(float(kappa)),
            batch=128,
            releases=many,
        )
        for kappa in context.pick(MORE[-1:], MORE[2:], MORE)
    ]
    found = _attack(context, model, _scene(context, data), guarded, 23)
    return _named("compare", name, "mlp", context.mark, found)


def _gaussian(sigma: float, counts: tuple[int, ...], **label: Any) -> Guarded:
    told = {"defence": "gaussian", "value": sigma, **label}
    return Guarded(told, Gaussian(sigma), releases=counts)


_LENGTHS = "its lengths are public here: what is released besides only tells more"


def _dirdp(context: Context, model: str, name: str) -> Rows:
    """Table 4: Gaussian noise of its ε, and every partition of VMF noise."""
    data = dirdp.records(context, name)
    many = (1, context.pick(2, 3, STRENGTHS["dirdp"]))
    chosen = context.pick((0,), (0, 4, 5), range(6))
    guarded = []
    for place in chosen:
        sigma = dirdp.MULTIPLIERS[model, name][place]
        told = {"defence": "gaussian", "value": dirdp.EPSILONS[place], "sigma": sigma}
        guarded.append(Guarded(told, Gaussian(sigma), releases=many))
    kappas = context.pick((50.0,), (1.0, 50.0, 500.0, 300_000.0), dirdp.KAPPAS)
    for blocks, weights in (("flat", "public"), ("layers", "own"), ("rows", "own")):
        for kappa in kappas:
            mechanism: Mechanism = Directional(kappa, blocks=1 if blocks == "flat" else blocks)
            label = {"defence": "vmf", "value": kappa, "blocks": blocks, "weights": weights}
            note = "" if blocks == "flat" else _LENGTHS
            # The likelihood in blocks is slow: one release of them.
            counts = many if blocks == "flat" else (1,)
            guarded.append(Guarded(label, mechanism, releases=counts, note=note))
    for kappa in (1.0, 5.0):
        label = {"defence": "vmf", "value": kappa, "blocks": "elements", "weights": "clipped"}
        guarded.append(Guarded(label, SingleWeights(kappa), releases=(1,), note=_LENGTHS))
    net = CHOSEN[model].build(data.shape, data.classes, 0)
    rows = _attack(context, net, _scene(context, data, large=True), guarded, 11)
    return _named("dirdp", name, model, context.mark, rows)


def _early(context: Context, model: str, name: str) -> Rows:
    """Tables 3 and 4 of the first version: noise of size ε on raw gradients; VMF noise."""
    data = dirdp.records(context, name, scale="published")
    many = (1, context.pick(2, 3, STRENGTHS["dirdp-v1"]))
    net = build(model, data.shape, data.classes, seed=0)
    scene = _scene(context, data, large=True)
    raw = [
        Guarded({"defence": "gaussian", "value": s}, Gaussian(s), "none", releases=many)
        for s in (0.8, 8.0, 80.0)
    ]
    turned = [
        Guarded(
            {"defence": "vmf", "value": kappa, "blocks": "flat"},
            Directional(kappa),
            "none",
            releases=many,
            note=_LENGTHS,
        )
        for kappa in (5.0, 50.0, 500.0, 300_000.0)
    ]
    rows = _attack(context, net, scene, [*raw, *turned], 13)
    return _named("dirdp-v1", name, model, context.mark, rows)


def _copies(context: Context, name: str) -> Rows:
    """Figures 10 and 14: the noisy copies behind the gradients."""
    data = channel.records(context, name, 1_500 if context.quick else None)
    scene = _scene(context, data)
    prior = PublicPrior(scene.public, rank=context.pick(20, 150, 256))
    fitter = Fitter(spectrum(data), data.shape)
    capacities = {"natural": channel.SMALL, "white": (300.0, 1500.0)}
    capacities["personalized-paper"] = (300.0, 1500.0)
    rows: Rows = []
    low, high = data.bounds
    for kind, values in capacities.items():
        for capacity in values:
            noise = fitter(ChannelSetting(kind, capacity)).noise
            label = {"defence": kind, "value": capacity}
            counts = (1, STRENGTHS["channel"])
            rows += on_copies(scene, prior, noise, label, counts, high - low, 17)
    return _named("channel", name, "copy", context.mark, rows)


def _noisy_gradients(context: Context, name: str) -> Rows:
    """Figure 15's DP baselines, on LeNet."""
    data = channel.records(context, name)
    guarded = [_gaussian(sigma, (1, STRENGTHS["channel"])) for sigma in channel.MULTIPLIERS]
    net = build("lenet", data.shape, 10, seed=0)
    rows = _attack(context, net, _scene(context, data, large=True), guarded, 19)
    return _named("channel", name, "lenet", context.mark, rows)


_COMPARE: dict[str, Callable[[Context], Rows]] = {
    f"compare/{part}/{name}": partial(run, name=name)
    for part, run in (("mlp", _compare), ("little", _little))
    for name in compare.DATA
}
_CHANNEL: dict[str, Callable[[Context], Rows]] = {
    "channel/copies/fashion-mnist": partial(_copies, name="fashion-mnist"),
    "channel/copies/cifar10": partial(_copies, name="cifar10"),
    "channel/lenet/cifar10": partial(_noisy_gradients, name="cifar10"),
}
_DIRDP: dict[str, Callable[[Context], Rows]] = {
    f"dirdp/{model}/{name}": partial(_dirdp, model=model, name=name)
    for name in ("fashion-mnist", "cifar10", "lfw")
    for model in ("mlp2", "lenet")
}
_EARLY: dict[str, Callable[[Context], Rows]] = {
    f"dirdp-v1/{model}/{name}": partial(_early, model=model, name=name)
    for name in ("mnist", "cifar10", "lfw")
    for model in ("lenet-dlg", "mlp2")
}
