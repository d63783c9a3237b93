"""Accuracy against reconstruction risk: every defence, strength and seed, attacked as it trains.

A block is a group of runs of one data set, model and seed. Learning rates come first: one training
of every run and rate with a seed that is not used again, judged on held-out records on which no
accuracy is reported. The price of that choice is in no account here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from recondite_papers.frontier.banks import Head
from recondite_papers.frontier.batches import Batches, FrontierPlan
from recondite_papers.frontier.copies import (
    judged,
    noisy_inputs,
    noisy_training_set,
    variance_of,
)
from recondite_papers.frontier.defences import (
    CAPACITIES,
    DEFENCES,
    FrontierDefence,
    FrontierRun,
    strengths,
)
from recondite_papers.frontier.risk import gains, identified
from recondite_papers.frontier.training import plain, private
from recondite_papers.frontier.world import Sizes, World
from recondite_papers.jobs.data import split
from recondite_papers.jobs.sink import Context, Row

__all__ = ["GROUPS", "PLANS", "measured", "offered", "plan_of"]

Rows = list[Row]
PLANS = {"fashion-mnist": (60_000, 30, 10), "cifar10": (50_000, 25, 12)}
GROUPS = ("main", "allocation", "views", "none", "once", "per-step", "filter")
_ORDER = ("gaussian", "directional", "vmf", "partitioned")
_TUNING_SEED = 1000
_RATES = {
    ("head", "noise"): (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 90.0),
    ("head", "filter"): (1.0, 3.0, 10.0, 30.0, 90.0, 300.0, 900.0),
    ("head", "direction"): (0.01, 0.04, 0.15, 0.6, 2.4, 10.0, 40.0),
    ("head", "plain"): (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    ("net", "noise"): (0.07, 0.2, 0.6, 1.8, 5.4),
    ("net", "filter"): (0.6, 2.0, 6.0, 18.0, 54.0),
    ("net", "direction"): (0.01, 0.04, 0.16, 0.6, 2.4),
    ("net", "plain"): (0.01, 0.03, 0.1, 0.3, 1.0),
}
# Runs that are trained at a time, by what memory holds; a view counts as a run.
_STACKED = {("fashion-mnist", "net"): 60, ("cifar10", "net"): 24}


def plan_of(name: str, quick: bool) -> FrontierPlan:
    """How many records, batches and steps."""
    if quick:
        return FrontierPlan(400, 4, 2, 20)
    return FrontierPlan(*PLANS[name], 100)


def _sizes(name: str, model: str, quick: bool) -> Sizes:
    if quick:
        return Sizes(20, 40, 40)
    pool = {"head": 2000, "net": 1000 if name == "fashion-mnist" else 500}[model]
    return Sizes(100, pool, 2000)


def offered(group: str, world: World, quick: bool) -> list[tuple[FrontierDefence, float]]:
    """Defences and strengths of a group, in the order in which runs stand."""
    groups: dict[str, Callable[[FrontierDefence], bool]] = {
        "main": lambda d: d.sampling == "poisson" and d.views == 1 and d.momentum,
        "allocation": lambda d: d.sampling == "allocation",
        "views": lambda d: d.views > 1,
        "filter": lambda d: not d.momentum,
    }
    wanted = groups[group]
    out: list[tuple[FrontierDefence, float]] = []
    for defence in sorted(DEFENCES, key=lambda d: _ORDER.index(d.noise)):
        if not wanted(defence) or (defence.rule == "per-layer" and len(world.layers) == 1):
            continue
        found = strengths(defence, world.dim, world.plan.batch, world.blocks)
        some = found[3:4] if world.model == "net" else found[2::3]
        out += [(defence, value) for value in (some if quick else found)]
    return out


def measured(context: Context) -> None:
    """Every data set, model, group and seed; learning rates first."""
    sink = context.sink("frontier")
    names = ("fashion-mnist",) if context.quick else ("fashion-mnist", "cifar10")
    blocks: dict[str, Callable[[], Rows]] = {}
    worlds: dict[tuple[str, str], World] = {}

    def world(name: str, model: str) -> World:
        if (name, model) not in worlds:
            for old in worlds.values():
                old.forget()
            worlds.clear()
            data = split(
                name, device=context.device, data_dir=context.data_dir, scale="unit",
                records=400 if context.quick else None,
            )  # fmt: skip
            sizes, plan = _sizes(name, model, context.quick), plan_of(name, context.quick)
            worlds[name, model] = World(data, model, plan, sizes)
        return worlds[name, model]

    for name in names:
        for model in ("head", "net"):
            seeds = 1 if context.quick else 3 if (name, model) == ("cifar10", "net") else 5
            groups = [g for g in GROUPS if _fits(g, name, model, context.quick)]
            for group in groups:
                task = (context, partial(world, name, model), group)
                blocks[f"{name}/{model}/{group}/rates"] = partial(_rates, *task)
            for seed in range(seeds):
                for group in groups:
                    if group in ("once", "per-step") and seed >= 3:
                        continue
                    task = (context, partial(world, name, model), group)
                    blocks[f"{name}/{model}/{group}/{seed}"] = partial(_seed, *task, seed)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        context.blocks(sink, blocks)
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _fits(group: str, name: str, model: str, quick: bool) -> bool:
    """Features of fresh copies at every use of a head cost too much: networks only."""
    if quick:
        return group in ("main", "none") or (model == "net" and group == "per-step")
    return group != "per-step" or model == "net"


def _family(defence: FrontierDefence) -> str:
    if not defence.momentum:
        return "filter"
    return "direction" if defence.noise in ("vmf", "partitioned") else "noise"


def _rates(context: Context, get: Callable[[], World], group: str) -> Rows:
    """The best learning rate of every defence and strength, on held-out records."""
    world = get()
    grid = slice(2, 3) if context.quick else slice(None)
    if group in ("none", "once", "per-step"):
        rates = _RATES[world.model, "plain"][grid]
        tried = {
            capacity: _plain_runs(world, group, [capacity], rates, _TUNING_SEED, "held")[0]
            for capacity in _capacities(group, context.quick)
        }
        named = [(_channel(group), capacity, rates, found) for capacity, found in tried.items()]
    else:
        pairs = offered(group, world, context.quick)
        tried_too = _tried(pairs, world, context.quick)
        runs = [
            FrontierRun(defence, value, rate)
            for defence, value in dict.fromkeys(tried_too)
            for rate in _RATES[world.model, _family(defence)][grid]
        ]
        found = _private_runs(world, group, runs, _TUNING_SEED, play=False)
        held: dict[tuple[str, float], list[float]] = {}
        for run, row in zip(runs, found, strict=True):
            held.setdefault((run.defence.name, run.value), []).append(row["held"])
        named = []
        for (defence, value), (_, tuned) in zip(pairs, tried_too, strict=True):
            rates = _RATES[world.model, _family(defence)][grid]
            named.append((defence.name, value, rates, held[defence.name, tuned]))
    rows = []
    for name, value, rates, some in named:
        best = int(np.argmax(some))
        rows.append(
            {**_facts(world), "kind": "rate", "group": group, "defence": name, "value": value,
             "rate": rates[best], "tried": dict(zip(map(str, rates), some, strict=True)),
             "edge": len(rates) > 1 and best in (0, len(rates) - 1), "run": context.mark}
        )  # fmt: skip
    return rows


def _tried(
    pairs: Sequence[tuple[FrontierDefence, float]], world: World, quick: bool
) -> list[tuple[FrontierDefence, float]]:
    """At which strength the rate of each pair is chosen: its own, or its stronger neighbour's."""
    if quick or world.model == "head" or world.data.name == "fashion-mnist":
        return list(pairs)
    out: list[tuple[FrontierDefence, float]] = []
    place = 0
    for number, (defence, value) in enumerate(pairs):
        first = number == 0 or pairs[number - 1][0] != defence
        place = 0 if first else place + 1
        out.append((defence, value) if place % 2 == 0 else out[-1])
    return out


def _seed(context: Context, get: Callable[[], World], group: str, seed: int) -> Rows:
    """All runs of a group with one seed, and what the intruder got."""
    world = get()
    chosen = [
        row
        for row in context.sink("frontier").rows
        if row["kind"] == "rate"
        and (row["data"], row["model"], row["group"]) == (world.data.name, world.model, group)
    ]
    facts = {**_facts(world), "kind": "run", "group": group, "seed": seed, "run": context.mark}
    if group in ("none", "once", "per-step"):
        return [
            {**facts, "defence": row["defence"], "value": row["value"], "rate": row["rate"], **one}
            for row in chosen
            for one in _plain_seed(world, group, row["value"], row["rate"], seed)
        ]
    by_name = {defence.name: defence for defence in DEFENCES}
    runs = [FrontierRun(by_name[row["defence"]], row["value"], row["rate"]) for row in chosen]
    found = _private_runs(world, group, runs, seed, play=True)
    return [
        {**facts, "defence": run.defence.name, "value": run.value, "rate": run.rate, **one}
        for run, one in zip(runs, found, strict=True)
    ]


def _facts(world: World) -> Row:
    return {
        "data": world.data.name, "model": world.model, "dim": world.dim,
        "steps": world.plan.steps, "batch": world.plan.batch, "victims": world.sizes.victims,
        "pool": world.sizes.pool, "layers": list(world.layers), "blocks": list(world.blocks),
    }  # fmt: skip


def _private_runs(
    world: World, group: str, runs: Sequence[FrontierRun], seed: int, *, play: bool
) -> list[Row]:
    """Accuracies and risks of runs that share their batches."""
    sampling, count = runs[0].defence.sampling, runs[0].defence.views
    batches = Batches.draw(world.plan, sampling, seed)
    most = _STACKED.get((world.data.name, world.model), 400) // count
    intruder = world.intruder(count) if play else None
    inputs = world.inputs(count)
    out = []
    for start in range(0, len(runs), most):
        some = list(runs[start : start + most])
        bank = world.bank(len(some), seed)
        if intruder is not None and isinstance(bank, Head):
            bank.keep(intruder.inputs, world.sizes.victims)
        games = private(
            bank, some, world.plan, batches, inputs, world.data.labels, world.blocks,
            seed=seed + start, intruder=intruder,
        )  # fmt: skip
        test, held = (world.accuracy(bank, part).tolist() for part in ("test", "held"))
        secret = None if games is None else games.secret
        for place in range(len(some)):
            row: Row = {"accuracy": test[place], "held": held[place]}
            if games is not None and secret is not None:
                row["took_part"] = float(batches.taken.sum(0).mean())
                for side, scores in (("secret", secret[place]), ("known", games.known[place])):
                    row[side] = {"identified": identified(scores)}
                    if row[side]["identified"]:
                        row[side].update(gains(scores[:, 1:], world.public))
            out.append(row)
    return out


def _capacities(group: str, quick: bool) -> tuple[float, ...]:
    if group == "none":
        return (0.0,)
    return CAPACITIES[2::3] if quick else CAPACITIES


def _channel(group: str) -> str:
    return "none" if group == "none" else f"natural-{group}"


def _plain_runs(
    world: World, group: str, capacities: Sequence[float], rates: Sequence[float], seed: int,
    part: str,
) -> list[list[float]]:  # fmt: skip
    """Accuracies by capacity and rate."""
    batches = Batches.draw(world.plan, "poisson", seed)
    values = world.eigenvalues if group != "none" else None
    out = []
    for capacity in capacities:
        inputs = world.inputs()
        if values is not None:
            variance = variance_of(values, capacity)
            if group == "per-step":
                inputs = noisy_inputs(world, [variance], len(rates), seed)
            else:
                copies, _ = noisy_training_set(world, variance, seed)
                inputs = _one_view(copies)
        bank = world.bank(len(rates), seed)
        plain(bank, rates, world.plan, batches, inputs, world.data.labels)
        out.append(world.accuracy(bank, part).tolist())
    return out


def _one_view(copies: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda index: copies[index].unsqueeze(1)


def _plain_seed(world: World, group: str, capacity: float, rate: float, seed: int) -> Rows:
    accuracy = _plain_runs(world, group, [capacity], [rate], seed, "test")[0][0]
    row: Row = {"accuracy": accuracy}
    if group == "none":
        return [row]
    taken = Batches.draw(world.plan, "poisson", seed).taken.sum(0)
    variance = variance_of(world.eigenvalues, capacity)
    uses = taken if group == "per-step" else np.ones_like(taken)
    found = judged(world, variance, uses, seed + 77)
    ranks = {n: found[f"identified_{n}"] for n in ("10", "100") if f"identified_{n}" in found}
    risk = {"identified": ranks, **{k: found[k] for k in ("gain", "plain", "records", "wiener")}}
    return [{**row, "secret": risk, "known": risk, "noise_variance": variance,
             "took_part": float(uses.mean())}]  # fmt: skip
