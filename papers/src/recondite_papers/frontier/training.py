"""Trainings of a stack with the intruder beside them, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite_papers.frontier.banks import Bank, Factors
from recondite_papers.frontier.batches import Batches, FrontierPlan
from recondite_papers.frontier.defences import FrontierRun
from recondite_papers.frontier.games import Games, ratios
from recondite_papers.frontier.releases import BankReleaser, Family, Filter, families

__all__ = ["Intruder", "plain", "private"]

MOMENTUM = 0.9


@dataclass(frozen=True)
class Intruder:
    """What is scored beside a training.

    Attributes:
      inputs: (n, views, …): victims, then the pool.
      labels: (n,).
      pool: How many of them are the pool.
    """

    inputs: Tensor
    labels: Tensor
    pool: int


class _Momentum:
    """SGD with momentum, a learning rate for each run."""

    def __init__(self, bank: Bank, rates: Sequence[float], has: Sequence[bool]) -> None:
        self.bank, self.last = bank, torch.zeros_like(bank.flat)
        self.rates = torch.tensor(list(rates), device=bank.flat.device)[:, None]
        kept = [MOMENTUM if one else 0.0 for one in has]
        self.kept = torch.tensor(kept, device=bank.flat.device)[:, None]

    def step(self, gradient: Tensor) -> None:
        self.last.mul_(self.kept).add_(gradient)
        self.bank.flat.sub_(self.rates * self.last)
        self.bank.moved()


def private(
    bank: Bank,
    runs: Sequence[FrontierRun],
    plan: FrontierPlan,
    batches: Batches,
    inputs: Callable[[Tensor], Tensor],
    labels: Tensor,
    blocks: tuple[int, ...],
    *,
    seed: int,
    norm: float = 1.0,
    intruder: Intruder | None = None,
) -> Games | None:
    """Trains every run in place; returns the games where an intruder is given.

    Args:
      bank: The models.
      runs: Additive noise first, then VMF, then partitioned.
      plan: How long.
      batches: Who takes part.
      inputs: From indices to (B, views, …).
      labels: Of all training records.
      blocks: Of partitioned noise.
      seed: Of the noise.
      norm: Clipping norm of the rules that have one.
      intruder: Victims and pool; None to train only.
    """
    device = bank.flat.device
    generator = torch.Generator(device).manual_seed(seed)
    index, mask, taken = (
        torch.as_tensor(part, device=device)
        for part in (batches.index, batches.mask, batches.taken)
    )
    found = families(runs, bank.dim, blocks)
    releaser = BankReleaser(
        runs, found, len(bank.layers), bank.dim, plan.batch, plan.steps, generator
    )
    factors = Factors([run.defence.rule for run in runs], norm, device)
    parts = [Factors([r.defence.rule for r in runs[f.runs]], norm, device) for f in found]
    low_pass = Filter([run.defence.filtered for run in runs], bank.dim, device)
    optimizer = _Momentum(bank, [run.rate for run in runs], [run.defence.momentum for run in runs])
    sampling = runs[0].defence.sampling
    told = [run.defence.noise == "directional" for run in runs]
    games = (
        None if intruder is None else Games(len(runs), plan, intruder.pool, sampling, told, device)
    )
    for step in range(plan.steps):
        bank.backward(inputs(index[step]), labels[index[step]], mask[step])
        bounded = factors(bank.squared()) * mask[step][None, :, None]
        sums, count = bank.total(bounded), mask[step].sum()
        gradient = releaser(sums, count)
        if games is not None and intruder is not None:
            _look(bank, games, intruder, found, parts, releaser, sums, count, taken[step])
        optimizer.step(low_pass(gradient))
    return games


def _look(
    bank: Bank, games: Games, intruder: Intruder, found: Sequence[Family],
    parts: Sequence[Factors], releaser: BankReleaser, sums: Tensor, count: Tensor, taken: Tensor,
) -> None:  # fmt: skip
    """One release, before the weights change."""
    ones = torch.ones(len(intruder.labels), device=sums.device)
    bank.backward(intruder.inputs, intruder.labels, ones)
    made, place = [], 0
    for family, factors in zip(found, parts, strict=True):
        rows = bank.rows(family.runs, factors, family.sizes, len(taken))
        if family.kind == "additive":
            vectors = releaser.noise[:, None]
        else:
            vectors = torch.stack([releaser.release[family.runs], sums[family.runs]], 1)
        inner = bank.inner(family.runs, vectors)
        made.append(ratios(family, place, releaser, rows, inner, sums, count, taken))
        place += family.kind == "spherical"
    games.add(torch.cat(made), taken)


def plain(
    bank: Bank,
    rates: Sequence[float],
    plan: FrontierPlan,
    batches: Batches,
    inputs: Callable[[Tensor], Tensor],
    labels: Tensor,
) -> None:
    """Trains without noise on gradients: no defence, or noise on records in ``inputs``."""
    device = bank.flat.device
    index = torch.as_tensor(batches.index, device=device)
    mask = torch.as_tensor(batches.mask, device=device)
    optimizer = _Momentum(bank, rates, [True] * len(rates))
    for step in range(plan.steps):
        bank.backward(inputs(index[step]), labels[index[step]], mask[step])
        weight = mask[step] / mask[step].sum().clamp(min=1.0)
        layers = len(bank.layers)
        weights = weight[None, :, None].expand(len(bank.flat), -1, layers)
        optimizer.step(bank.total(weights))
