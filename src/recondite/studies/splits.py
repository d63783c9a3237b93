"""The records of a cell: some are in or out of the training set by coins, for honest audits."""

from __future__ import annotations

import torch
from torch import Tensor

from recondite.attacks.victim import RecordSets
from recondite.configuration import TrainingConfig
from recondite.studies.shapes import Task
from recondite.training.setup import load_records

__all__ = ["pool"]

_COINS = 0x5EED  # apart from the seeds of victims and noise


def pool(plan: TrainingConfig, task: Task) -> RecordSets:
    """The records of a cell.

    With a membership attack, twice as many records as it asks about are drawn, the same for every
    defence at a seed, and each is kept or left out by its own fair coin. That is what makes a
    lower bound on ε from one training run a bound (Steinke et al., 2023).
    """
    records, test = load_records(plan, task.get("data_dir"))
    flipped = 2 * task["common"].get("coins", 0)
    if flipped == 0:
        return RecordSets(records, test)
    generator = torch.Generator().manual_seed(_COINS + task["seed"])
    order = torch.randperm(len(records), generator=generator)
    inside = torch.rand(flipped, generator=generator) < 0.5
    asked = order[:flipped]
    kept = torch.ones(len(records), dtype=torch.bool)
    kept[asked[~inside]] = False
    return RecordSets(
        training=records.subset(kept),
        test=test,
        whole=records,
        members=records.subset(_some(asked[inside])),
        others=records.subset(_some(asked[~inside])),
        rest=records.subset(order[flipped:]) if flipped < len(records) else None,
    )


def _some(positions: Tensor) -> Tensor:
    if len(positions) < 2:
        raise ValueError("records of a membership attack must be more: too few coins fell one way")
    return positions
