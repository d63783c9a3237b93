"""Who takes part when: batches drawn on the host, the same on every device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite.accounting.schedules import Poisson, RandomAllocation, Schedule

__all__ = ["Batches", "FrontierPlan"]


@dataclass(frozen=True)
class FrontierPlan:
    """How a training goes, whatever its defence.

    Attributes:
      records: Of the training set.
      per_epoch: Batches in an epoch: a record is in a batch with probability 1/per_epoch.
      epochs: Passes over the records, on average.
      victims: Training records that are played for, the first ones.
    """

    records: int
    per_epoch: int
    epochs: int
    victims: int

    @property
    def steps(self) -> int:
        """Optimizer steps, each a release."""
        return self.per_epoch * self.epochs

    @property
    def batch(self) -> float:
        """Expected records in a batch: the public number that sums are divided by."""
        return self.records / self.per_epoch

    def schedule(self, sampling: str) -> Schedule:
        """As the accountant is told."""
        if sampling == "allocation":
            return RandomAllocation(self.per_epoch, self.epochs)
        return Poisson(1.0 / self.per_epoch, self.steps)


@dataclass(frozen=True)
class Batches:
    """The batches of one seed.

    Attributes:
      index: (steps, room) of the records in each batch, filled up with the first record.
      mask: (steps, room), 1 where a record is meant.
      taken: (steps, victims), 1 where a victim takes part.
    """

    index: npt.NDArray[np.int64]
    mask: npt.NDArray[np.float32]
    taken: npt.NDArray[np.float32]

    @classmethod
    def draw(cls, plan: FrontierPlan, sampling: str, seed: int) -> Batches:
        """Poisson batches, or one batch of every epoch for each record (random allocation)."""
        rng = np.random.default_rng([seed, 0 if sampling == "poisson" else 1])
        chosen: list[npt.NDArray[np.int64]] = []
        for _ in range(plan.epochs):
            if sampling == "allocation":
                place = rng.integers(plan.per_epoch, size=plan.records)
                chosen += [np.flatnonzero(place == step) for step in range(plan.per_epoch)]
            else:
                for _ in range(plan.per_epoch):
                    chosen.append(np.flatnonzero(rng.random(plan.records) < 1 / plan.per_epoch))
        room = max(1, *(len(some) for some in chosen))
        index = np.zeros((plan.steps, room), dtype=np.int64)
        mask = np.zeros((plan.steps, room), dtype=np.float32)
        taken = np.zeros((plan.steps, plan.victims), dtype=np.float32)
        for step, some in enumerate(chosen):
            index[step, : len(some)], mask[step, : len(some)] = some, 1.0
            taken[step, some[some < plan.victims]] = 1.0
        return cls(index, mask, taken)
