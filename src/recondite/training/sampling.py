"""Loaders that draw batches the way the accountant is told they were drawn.

A batch may be handed out in several physical pieces, and an empty batch as a placeholder of one
record that counts for nothing; the engine learns of both through ``Draw``. Every piece may be
released once: what was not handed out since the last step cannot be stepped on.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch.utils.data import (
    DataLoader,
    default_collate,
)

from recondite import _validate
from recondite._forks import generation
from recondite.accounting.schedules import (
    SAMPLINGS,
    FixedSize,
    Poisson,
    RandomAllocation,
    Schedule,
    Shuffled,
)
from recondite.mechanisms import Mechanism
from recondite.numerics.fork_safe import Renewed
from recondite.numerics.secure import SecureGenerator
from recondite.records.sources import refuse_streams
from recondite.training.distributed import Places, Ranks
from recondite.training.fetching import chosen, collated, taken, tensors_of

__all__ = ["Draw", "LoaderEvents", "PrivateLoader", "default_max_batch", "usual_sampling"]


@dataclass(frozen=True)
class Draw:
    """What the batch in hand is.

    Attributes:
      rows: Records in this physical piece.
      keep: False for the placeholder of an empty batch.
      last: Whether this piece completes the batch.
      records: Places of its records in the data set; none for a placeholder.
      elsewhere: With the last piece: places of the batch's records that other processes hold.
    """

    rows: int
    keep: bool
    last: bool
    records: list[int]
    elsewhere: Sequence[int] = ()


class LoaderEvents:
    """What a private loader asks and tells whoever trains with it. This one allows everything."""

    def may_begin(self) -> bool:
        """Asked before an epoch begins; False leaves it out."""
        return True

    def begin(self) -> None:
        """Called when an epoch begins."""

    def may_go_on(self) -> bool:
        """Asked before every batch; False ends the epoch."""
        return True

    def opened(self) -> None:
        """Called when a batch, or a piece of one, is handed out."""


def usual_sampling(mechanism: Mechanism) -> str:
    """How batches are drawn unless a person says otherwise."""
    return "fixed-size" if mechanism.stage == "record" else "poisson"


def default_max_batch(records: int, rate: float) -> int:
    """A batch size that batches exceed with probability below 1e-12 (Bernstein).

    Args:
      records: Number of records, each of which joins a batch independently of the others.
      rate: With what probability.
    """
    mean, log = records * rate, 12 * math.log(10)
    spread = math.sqrt(2 * mean * (1 - rate) * log + (log / 3) ** 2) + log / 3
    return min(records, math.ceil(mean + spread))


def fixed_size(batch_size: int, records: int, *, varies: bool) -> int:
    """Rows of padded pieces: those of a batch, with room for most that are larger.

    Args:
      batch_size: The expected number of records.
      records: The largest number.
      varies: Whether batches have a random size. One in 40 then needs a second piece.
    """
    if not varies:
        return batch_size
    return min(records, -(-math.ceil(batch_size + 2 * math.sqrt(batch_size)) // 8) * 8)


class PrivateLoader:
    """Iterates over one epoch's worth of private batches.

    Guarantee: batches are drawn with operating-system entropy (or the seed given) exactly as the
    schedule of :meth:`schedule` says. A Poisson batch, or one of a random allocation, above
    ``max_batch_size`` is handed out whole: dropping records would let one displace another. The
    engine projects its sum.
    A process forked in the middle of an epoch does not share its batches: the epoch ends there.
    So does an epoch when the next one begins: going on with it is refused.

    The records are those of the loader's data set, or those that its ``SubsetRandomSampler`` names.
    Other samplers are refused: their draws are not the ones that are accounted for.

    Attributes:
      dataset: The records that are drawn from.
      draw: What the batch handed out last is.
      events: Who is asked and told what happens to the batches.
      handed_out: Pieces handed out since the last step; none after the end of an epoch.
      padded: Whether every piece has ``physical_batch_size`` rows: copies of a record that is drawn
        without looking fill it up, and count for nothing.
      batch: The piece in hand.

    With ``ranks`` each process hands out its own part of the batches that the first one draws;
    sizes and schedules are those of whole batches, pieces those of this process.
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
        padded: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        self._ranks = Ranks() if ranks is None else ranks
        self.sampling = _validate.choice("sampling", sampling, SAMPLINGS)
        self.dataset: Any = loader.dataset
        refuse_streams(self.dataset, "the data set of data_loader")
        self.dataset = chosen(loader)
        self.records = len(self.dataset)
        size = batch_size or loader.batch_size
        if size is None:
            raise ValueError("batch_size is not set: give make_private(..., batch_size=...)")
        self.batch_size = _validate.at_least("batch_size", size, 1)
        if self.batch_size > self.records:
            raise ValueError(f"batch_size must be at most {self.records}, the number of records")
        self.max_batch_size = max_batch_size or self._default_max()
        self.padded, self.batch = padded, None
        if padded and physical_batch_size is None:
            most = -(-self.batch_size // self._ranks.world)
            physical_batch_size = fixed_size(most, self.records, varies=self.sizes_vary)
        self.physical_batch_size = physical_batch_size
        own = loader.collate_fn is not default_collate
        self.collate: Callable[[list[Any]], Any] = loader.collate_fn if own else collated
        self.workers = loader.num_workers
        self.pin_memory = loader.pin_memory
        self._seeded = seed is not None
        self._entropy = Renewed(
            SecureGenerator if secure else partial(_generator, seed), seeded=self._seeded
        )
        self.draw = Draw(0, False, True, [])
        self.events = LoaderEvents()
        self.handed_out = 0
        self._epoch = 0
        self._process = generation()

    def _default_max(self) -> int:
        if self.sizes_vary:
            return default_max_batch(self.records, self.rate)
        return self.batch_size

    @property
    def generator(self) -> Any:
        """Where batches come from: a seeded simulation goes on elsewhere with its state."""
        return self._entropy.current()

    @property
    def sizes_vary(self) -> bool:
        """Whether a batch has a random number of records, none among them."""
        return self.sampling in ("poisson", "allocation")

    @property
    def whole_epochs(self) -> bool:
        """Whether an epoch counts as a whole once it has begun."""
        return self.sampling in ("shuffled", "allocation")

    @property
    def rate(self) -> float:
        """Expected share of the records in a batch."""
        if self.sampling == "allocation":
            return 1.0 / self.batches
        return self.batch_size / self.records

    @property
    def batches(self) -> int:
        """Batches of an epoch: steps of the optimizer, whatever the pieces."""
        return math.ceil(self.records / self.batch_size)

    def __len__(self) -> int:
        """How many pieces an epoch hands out: batches, unless they are cut.

        Raises:
          TypeError: Batches of a random size that are cut: their pieces cannot be known in advance.
            Loops that ask for a length then go on until the loader ends, as they must.
        """
        size = self.physical_batch_size
        if size is None:
            return self.batches
        if self.sizes_vary:
            raise TypeError(
                f"the number of pieces of {self.sampling.replace('poisson', 'Poisson')} batches is "
                "random: loader.batches counts batches"
            )
        whole, rest = divmod(self.records, self.batch_size)
        if self.sampling == "fixed-size":
            whole, rest = self.batches, 0
        parts = (max(1, self._ranks.part_size(count)) for count in (self.batch_size, rest))
        pieces, more = (math.ceil(part / size) for part in parts)
        return whole * pieces + (more if rest else 0)

    def schedule(self, steps: int, epochs: int = 0) -> Schedule:
        """The schedule of so many steps.

        Args:
          steps: Batches that were released.
          epochs: Passes that were begun: a part of one is accounted as a whole where each record
            is in it once.
        """
        if self.sampling == "poisson":
            return Poisson(self.rate, steps)
        if self.sampling == "fixed-size":
            return FixedSize(self.batch_size, self.records, steps)
        whole = max(epochs, math.ceil(steps / self.batches))
        if self.sampling == "allocation":
            return RandomAllocation(self.batches, whole)
        return Shuffled(whole, self.batch_size, self.records)

    def _batches(self) -> Iterator[Places]:
        if self.sampling == "shuffled":
            order = self.generator.permutation(self.records)
            for start in range(0, self.records, self.batch_size):
                yield order[start : start + self.batch_size]
            return
        if self.sampling == "allocation":
            batch = self.generator.integers(self.batches, size=self.records)
            order = np.argsort(batch, kind="stable")
            yield from np.split(order, np.searchsorted(batch[order], range(1, self.batches)))
            return
        for _ in range(self.batches):
            if self.sampling == "fixed-size":
                yield self.generator.choice(self.records, self.batch_size, replace=False)
                continue
            yield np.flatnonzero(self.generator.random(self.records) < self.rate)

    def drawn_batches(self) -> Iterator[list[int]]:
        """Places of the records of each batch of a pass that is never handed out: for audits."""
        return (batch.tolist() for batch in self._batches())

    def _pieces(self, batches: Iterable[Places]) -> Iterator[tuple[list[int], Draw]]:
        for batch, others in self._ranks.parts(batches):
            elsewhere = others.tolist()
            if len(batch) == 0 and not self.padded:
                place = int(self.generator.integers(self.records))
                yield [place], Draw(1, False, True, [], elsewhere)
                continue
            size = self.physical_batch_size or len(batch)
            for start in range(0, max(1, len(batch)), size):
                part = batch[start : start + size].tolist()
                rows = part
                if self.padded and len(part) < size:
                    rows = part + [int(self.generator.integers(self.records))] * (size - len(part))
                last = start + size >= len(batch)
                yield rows, Draw(len(rows), bool(part), last, part, elsewhere if last else ())

    def _fetch(self, planned: list[tuple[list[int], Draw]]) -> Iterable[Any]:
        """The batches, by one indexing of tensors where the dataset allows it."""
        batches = [indices for indices, _ in planned]
        whole = tensors_of(self.dataset)
        if whole is not None and self.workers == 0 and self.collate is collated:
            return (tuple(taken(part, indices) for part in whole) for indices in batches)
        return DataLoader(
            self.dataset,
            batch_sampler=batches,
            collate_fn=self.collate,
            num_workers=self.workers,
            pin_memory=self.pin_memory,
        )

    def take(self) -> Draw:
        """What the batch in hand is. It can be taken once: a second release is another draw.

        Raises:
          ValueError: No batch, or more than one, was handed out since the last step.
        """
        if self.handed_out > 1:
            raise ValueError(
                "step must follow every batch of the private loader: gradients are not accumulated "
                "over batches (give physical_batch_size for large ones)"
            )
        if self.handed_out == 0:
            raise ValueError(
                "step needs a new batch of the private loader: each batch is released once, while "
                "its epoch lasts"
            )
        if not self._seeded and self._process != generation():
            raise ValueError("this batch was drawn before the process was forked: begin an epoch")
        self.handed_out = 0
        return self.draw

    def __iter__(self) -> Iterator[Any]:
        return self._pass(self._batches, self._fetch)

    def present(self, records: Sequence[Any]) -> Iterator[Any]:
        """Hands out one batch of anybody's records instead of a pass over drawn ones: for audits.

        Args:
          records: The whole batch, none for an empty one; they need not be in the data set. An
            observer is told their places in this list.

        Raises:
          ValueError: The engine has no seed, so that this training is no simulation.
        """
        if not self._seeded:
            raise ValueError(
                "present hands out records that were not drawn, in simulations only: give the "
                "engine a seed"
            )
        source = records if len(records) > 0 else self.dataset

        def fetch(planned: list[tuple[list[int], Draw]]) -> Iterable[Any]:
            return (self.collate([source[place] for place in part]) for part, _ in planned)

        return self._pass(lambda: [np.arange(len(records))], fetch)

    def _pass(
        self,
        batches: Callable[[], Iterable[Places]],
        fetch: Callable[[list[tuple[list[int], Draw]]], Iterable[Any]],
    ) -> Iterator[Any]:
        if not self.events.may_begin():
            return  # some epochs count as a whole once it has begun
        self.events.begin()
        self.handed_out = 0
        self._epoch += 1
        mine = self._epoch
        planned, process = list(self._pieces(batches())), generation()
        fresh = True
        for batch, (_, draw) in zip(fetch(planned), planned, strict=True):
            if mine != self._epoch:
                raise ValueError(
                    "another pass over the private loader has begun: finish or leave one before "
                    "the next"
                )
            if not self._seeded and process != generation():
                return  # a fork: these batches are the parent's
            if fresh and not self.events.may_go_on():
                break  # the budget would be overspent: end the epoch here
            self.draw, fresh = draw, draw.last
            self.handed_out += 1
            self._process = process
            self.batch = batch
            self.events.opened()
            if not self.padded:
                self.batch = None
            yield batch
        if mine == self._epoch:
            self.handed_out = 0  # the epoch is over: what is left of it is not stepped on


def _generator(seed: int | None) -> np.random.Generator:
    entropy = secrets.randbits(128) if seed is None else seed
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))
