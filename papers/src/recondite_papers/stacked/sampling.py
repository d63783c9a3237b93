"""Batches for many runs at once, drawn on the device: Poisson, shuffled or of fixed size."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["Sampler"]


class Sampler:
    """Indices (R, M) and masks (R, M) of the records of every run's next batch.

    "poisson" is exact: the size of a batch is binomial and its records are a uniform draw without
    replacement (draws with replacement whose repeats are skipped). The room M covers seven standard
    deviations; the one batch in about 10¹¹ that needs more is cut.

    Attributes:
      room: M.
      per_epoch: Steps in an epoch.
    """

    def __init__(
        self, kind: str, runs: int, records: int, batch: int, generator: torch.Generator
    ) -> None:
        if kind != "shuffled" and batch > records:
            raise ValueError(f"batch must be at most the number of records {records}, got {batch}")
        self.kind, self.runs, self.records, self.batch = kind, runs, records, batch
        self.generator = generator
        self.device = generator.device
        self.per_epoch = math.ceil(records / batch)
        spread = 7.0 * math.sqrt(batch * (1.0 - batch / records)) if kind == "poisson" else 0.0
        self.room = min(batch + math.ceil(spread), records)
        self._order: Tensor | None = None
        self._at = 0

    def draw(self) -> tuple[Tensor, Tensor]:
        """The next batch of every run."""
        if self.kind == "shuffled":
            return self._shuffled()
        size = torch.full((self.runs, 1), self.batch, device=self.device)
        if self.kind == "poisson":
            count = torch.full((self.runs, 1), float(self.records), device=self.device)
            share = torch.full_like(count, self.batch / self.records)
            size = torch.binomial(count, share, generator=self.generator).long()
        return self._distinct(size)

    def _distinct(self, size: Tensor) -> tuple[Tensor, Tensor]:
        # Repeats among M draws are about M²/2N; twelve times that, and sixteen, is never short.
        extra = min(math.ceil(6 * self.room**2 / self.records) + 16, self.room + 16)
        shape = (self.runs, self.room + extra)
        drawn = torch.randint(self.records, shape, device=self.device, generator=self.generator)
        ordered, place = drawn.sort(dim=1, stable=True)
        repeated = torch.zeros_like(ordered, dtype=torch.bool)
        repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
        repeat = torch.zeros_like(repeated).scatter_(1, place, repeated)
        # Distinct draws first, in the order drawn.
        first = repeat.to(torch.uint8).sort(dim=1, stable=True).indices[:, : self.room]
        index = drawn.gather(1, first)
        taken = torch.arange(self.room, device=self.device) < size
        return index, taken.to(torch.float32)

    def _shuffled(self) -> tuple[Tensor, Tensor]:
        if self._order is None or self._at >= self.records:
            keys = torch.rand(
                (self.runs, self.records), device=self.device, generator=self.generator
            )
            self._order, self._at = keys.argsort(1), 0
        index = self._order[:, self._at : self._at + self.batch]
        self._at += self.batch
        mask = torch.ones(index.shape, device=self.device)
        missing = self.batch - index.shape[1]
        if missing:
            index = torch.cat([index, index[:, :1].expand(-1, missing)], 1)
            mask = torch.cat([mask, mask.new_zeros(self.runs, missing)], 1)
        return index, mask
