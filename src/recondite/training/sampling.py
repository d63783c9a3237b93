"""Loaders that draw batches the way the accountant is told they were drawn.

A batch may be handed out in several physical pieces, and an empty batch as a placeholder of one
record that counts for nothing; the engine learns of both through ``Draw``.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate

from recondite import _validate
from recondite._forks import generation
from recondite.accounting.schedules import FixedSize, Poisson, Schedule, Shuffled
from recondite.numerics.renewed import Renewed
from recondite.numerics.secure import SecureGenerator

__all__ = ["Draw", "PrivateLoader", "default_max_batch"]

SAMPLINGS = ("poisson", "shuffled", "fixed-size")


@dataclass(frozen=True)
class Draw:
    """What the batch in hand is.

    Attributes:
      rows: Records in this physical piece.
      keep: False for the placeholder of an empty batch.
      last: Whether this piece completes the batch.
    """

    rows: int
    keep: bool
    last: bool


def default_max_batch(records: int, rate: float) -> int:
    """A batch size that Poisson batches exceed with probability below 1e-12 (Bernstein)."""
    mean, log = records * rate, 12 * math.log(10)
    spread = math.sqrt(2 * mean * (1 - rate) * log + (log / 3) ** 2) + log / 3
    return min(records, math.ceil(mean + spread))


class PrivateLoader:
    """Iterates over one epoch's worth of private batches.

    Guarantee: batches are drawn with operating-system entropy (or the seed given) exactly as the
    schedule of :meth:`schedule` says. A Poisson batch above ``max_batch_size`` is handed out
    whole: dropping records would let one displace another. The engine projects its sum.
    A process forked in the middle of an epoch does not share its batches: the epoch ends there.

    Attributes:
      draw: What the batch handed out last is.
      allowed: Asked before every batch; False ends the epoch.
      may_begin: Asked before an epoch begins; False leaves it out.
      begin: Called when an epoch begins.
      handed_out: Pieces handed out since the last step.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        *,
        sampling: str = "poisson",
        batch_size: int | None = None,
        max_batch_size: int | None = None,
        physical_batch_size: int | None = None,
        seed: int | None = None,
        secure: bool = False,
    ) -> None:
        self.sampling = _validate.choice("sampling", sampling, SAMPLINGS)
        self.dataset: Any = loader.dataset
        if not hasattr(self.dataset, "__len__") or not hasattr(self.dataset, "__getitem__"):
            raise ValueError(
                "data_loader must have a map-style dataset: its length is accounted for"
            )
        self.records = len(self.dataset)
        size = batch_size or loader.batch_size
        if size is None:
            raise ValueError("batch_size is not set: give make_private(..., batch_size=...)")
        self.batch_size = _validate.at_least("batch_size", size, 1)
        if self.batch_size > self.records:
            raise ValueError(f"batch_size must be at most {self.records}, the number of records")
        self.max_batch_size = max_batch_size or self._default_max()
        self.physical_batch_size = physical_batch_size
        self.collate = loader.collate_fn
        self.workers = loader.num_workers
        self.pin_memory = loader.pin_memory
        self._seeded = seed is not None
        self._entropy = Renewed(
            SecureGenerator if secure else partial(_generator, seed), seeded=self._seeded
        )
        self.draw = Draw(0, False, True)
        self.allowed: Callable[[], bool] = lambda: True
        self.may_begin: Callable[[], bool] = lambda: True
        self.begin: Callable[[], None] = lambda: None
        self.handed_out = 0

    def _default_max(self) -> int:
        if self.sampling == "poisson":
            return default_max_batch(self.records, self.rate)
        return self.batch_size

    @property
    def _rng(self) -> Any:
        return self._entropy.current()

    @property
    def rate(self) -> float:
        """Expected share of the records in a batch."""
        return self.batch_size / self.records

    @property
    def batches(self) -> int:
        """Batches of an epoch: steps of the optimizer, whatever the pieces."""
        return math.ceil(self.records / self.batch_size)

    def __len__(self) -> int:
        """How many pieces an epoch hands out: batches, unless they are cut.

        Raises:
          TypeError: Poisson batches that are cut: their pieces cannot be known in advance. Loops
            that ask for a length then go on until the loader ends, as they must.
        """
        size = self.physical_batch_size
        if size is None:
            return self.batches
        if self.sampling == "poisson":
            raise TypeError(
                "the number of pieces of Poisson batches is random: loader.batches counts batches"
            )
        whole, rest = divmod(self.records, self.batch_size)
        if self.sampling == "fixed-size":
            whole, rest = self.batches, 0
        return whole * math.ceil(self.batch_size / size) + math.ceil(rest / size)

    def schedule(self, steps: int, epochs: int = 0) -> Schedule:
        """The schedule of so many steps.

        Args:
          steps: Batches that were released.
          epochs: Passes that were begun: a part of a shuffled one is accounted as a whole.
        """
        if self.sampling == "poisson":
            return Poisson(self.rate, steps)
        if self.sampling == "fixed-size":
            return FixedSize(self.batch_size, self.records, steps)
        whole = max(epochs, math.ceil(steps / self.batches))
        return Shuffled(whole, self.batch_size, self.records)

    def _batches(self) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
        if self.sampling == "shuffled":
            order = self._rng.permutation(self.records)
            for start in range(0, self.records, self.batch_size):
                yield order[start : start + self.batch_size]
            return
        for _ in range(self.batches):
            if self.sampling == "fixed-size":
                yield self._rng.choice(self.records, self.batch_size, replace=False)
                continue
            yield np.flatnonzero(self._rng.random(self.records) < self.rate)

    def _pieces(self) -> Iterator[tuple[list[int], Draw]]:
        for batch in self._batches():
            if len(batch) == 0:
                yield [int(self._rng.integers(self.records))], Draw(1, False, True)
                continue
            size = self.physical_batch_size or len(batch)
            for start in range(0, len(batch), size):
                part = batch[start : start + size]
                last = start + size >= len(batch)
                yield part.tolist(), Draw(len(part), True, last)

    def _fetch(self, planned: list[tuple[list[int], Draw]]) -> Iterable[Any]:
        """The batches, by one indexing of tensors where the dataset allows it."""
        batches = [indices for indices, _ in planned]
        whole = _tensors(self.dataset)
        if whole is not None and self.workers == 0 and self.collate is default_collate:
            return (tuple(part[indices] for part in whole) for indices in batches)
        return DataLoader(
            self.dataset,
            batch_sampler=batches,
            collate_fn=self.collate,
            num_workers=self.workers,
            pin_memory=self.pin_memory,
        )

    def __iter__(self) -> Iterator[Any]:
        if not self.may_begin():
            return  # an epoch of shuffled batches counts as a whole once it has begun
        self.begin()
        self.handed_out = 0
        planned, process = list(self._pieces()), generation()
        fresh = True
        for batch, (_, draw) in zip(self._fetch(planned), planned, strict=True):
            if not self._seeded and process != generation():
                return  # a fork: these batches are the parent's
            if fresh and not self.allowed():
                return  # the budget would be overspent: end the epoch here
            self.draw, fresh = draw, draw.last
            self.handed_out += 1
            yield batch


def _generator(seed: int | None) -> np.random.Generator:
    entropy = secrets.randbits(128) if seed is None else seed
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))


def _tensors(dataset: Any) -> tuple[torch.Tensor, ...] | None:
    """The tensors of a dataset that is nothing but tensors in memory."""
    if type(dataset) is TensorDataset:
        return dataset.tensors
    found = getattr(dataset, "tensors", None)
    return found if isinstance(found, tuple) else None
