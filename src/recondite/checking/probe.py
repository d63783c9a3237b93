"""Steps of a trainer as vectors: what stays the same, what is noise, what a record moves."""

from __future__ import annotations

import random
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from recondite._interrupts import interrupted
from recondite.checking.pairs import BatchPair
from recondite.checking.trainer import Trainer, as_arrays

__all__ = ["Effect", "MeasuredNoise", "Probe", "global_randomness", "reseed"]

Array = npt.NDArray[np.float64]


def reseed(seed: int) -> None:
    """Seeds what most code draws noise from: Python's, NumPy's and torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global one is what other people's code uses
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


@contextmanager
def global_randomness(seed: int | None) -> Iterator[np.random.Generator]:
    """Seeds the global generators, and gives them back as they were; yields one of our own."""
    torch = sys.modules.get("torch")
    before = (
        random.getstate(),
        np.random.get_state(),  # noqa: NPY002
        None if torch is None else torch.get_rng_state(),
    )
    rng = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
    reseed(int(rng.integers(2**63)))
    try:
        yield rng
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(before[2])


@dataclass(frozen=True)
class MeasuredNoise:
    """What repeated steps on one batch have in common.

    Attributes:
      scale: Standard deviation of each coordinate, pooled over the part that it belongs to; 0
        where nothing but the batch decides.
      parts: Name and place of each part.
    """

    scale: Array
    parts: tuple[tuple[str, slice], ...]

    @property
    def noisy(self) -> npt.NDArray[np.bool_]:
        """Coordinates that have noise."""
        return self.scale > 0

    @property
    def unit(self) -> Array:
        """The scale, with 1 where there is no noise."""
        return np.where(self.noisy, self.scale, 1.0)

    def weights(self, whitened: Array) -> Array:
        """The direction whose inner product with a release is that of both in units of noise."""
        return np.where(self.noisy, whitened, 0.0) / self.unit

    @property
    def dim(self) -> int:
        """Their number."""
        return int(np.count_nonzero(self.noisy))


@dataclass(frozen=True)
class Effect:
    """What the records of a pair move, from two independent halves of the steps.

    Attributes:
      pair: The pair.
      first: Difference of the means, first half.
      second: Second half; where noise cancels, the same.
    """

    pair: BatchPair
    first: Array
    second: Array

    def products(self, noise: MeasuredNoise) -> tuple[float, float]:
        """Squared length in units of the noise without its own noise, and with it."""
        on = noise.noisy
        one, two = self.first[on] / noise.scale[on], self.second[on] / noise.scale[on]
        mean = 0.5 * (one + two)
        return float(one @ two), float(mean @ mean)

    def length(self, noise: MeasuredNoise) -> float:
        """How far the records move the update, in standard deviations of its noise: an estimate."""
        return float(max(0.0, self.products(noise)[0]) ** 0.5)


class Probe:
    """Makes steps, counts them, and knows the parts of what leaves.

    Attributes:
      trainer: The trainer.
      steps: Steps made so far.
    """

    def __init__(self, trainer: Trainer, tick: Callable[[int], None]) -> None:
        self.trainer, self._tick, self.steps = trainer, tick, 0
        first = self._arrays(tuple(trainer.records[i] for i in range(2)))
        ends = np.cumsum([array.size for array in first.values()]).tolist()
        starts = [0, *ends[:-1]]
        self.parts = tuple(
            (name, slice(start, end)) for name, start, end in zip(first, starts, ends, strict=True)
        )
        self.size = int(ends[-1])

    def at(self, number: int) -> Probe:
        """The same after so many steps of a schedule; its steps count as this one's."""
        assert self.trainer.step_at is not None
        later = replace(self.trainer, step=self.trainer.step_at(number))
        return Probe(later, lambda steps: self._count())

    def _count(self) -> None:
        self.steps += 1
        self._tick(self.steps)

    def _arrays(self, batch: Sequence[Any]) -> dict[str, Array]:
        self._count()
        try:
            update = self.trainer.step(batch)
        except Exception as error:  # a person's own code raises what it likes
            if interrupted(error):
                raise
            raise ValueError(
                f"step failed on a batch of {len(batch)} records: {type(error).__name__}: {error}"
            ) from error
        return as_arrays(update)

    def release(self, batch: Sequence[Any]) -> Array:
        """What leaves from one step on a batch."""
        arrays = self._arrays(batch)
        sizes = [place.stop - place.start for _, place in self.parts]
        if [a.size for a in arrays.values()] != sizes:
            raise ValueError("step must give arrays of the same shapes whatever the batch is")
        return np.concatenate(list(arrays.values()))

    def works(self, batch: Sequence[Any]) -> bool:
        """Whether a step on a batch works: some cannot have too few records, or none."""
        try:
            self.release(batch)
        except Exception:  # whatever a person's code says to that
            return False
        return True

    def rows(self, batch: Sequence[Any], count: int) -> Array:
        """So many releases, as rows."""
        return np.stack([self.release(batch) for _ in range(count)])

    def noise(self, rows: Array) -> MeasuredNoise:
        """The noise of steps on one batch."""
        same = (rows == rows[0]).all(0)
        variance = rows.var(0, ddof=1)
        scale = np.zeros(self.size)
        for _, place in self.parts:
            moving = ~same[place]
            if moving.any():
                # A part with some still coordinates: those have none, the others share one.
                level = float(np.sqrt(variance[place][moving].mean()))
                scale[place] = np.where(moving, level, 0.0)
        return MeasuredNoise(scale, self.parts)

    def mean(self, batch: Sequence[Any], count: int) -> Array:
        """Mean of so many steps."""
        total = np.zeros(self.size)
        for _ in range(count):
            total += self.release(batch)
        return total / count

    def effects(
        self, pairs: Sequence[BatchPair], count: int, rng: np.random.Generator
    ) -> tuple[list[Effect], bool]:
        """What the records of each pair move, and whether that is exact: noise cancelled.

        Noise cancels where it follows from the global generators: then differences of two batches
        under one seed agree with those under another. Elsewhere ``count`` steps on each batch are
        averaged, half of them for each of two estimates.
        """
        # Keyed by identity: records need not be hashable, and pairs share their batches.
        batches = {id(batch): batch for pair in pairs for batch in (pair.first, pair.second)}
        known = self._seeded(batches, rng)
        exact = known is not None
        if known is None:
            half = max(1, count // 2)
            known = {
                key: (self.mean(batch, half), self.mean(batch, half))
                for key, batch in batches.items()
            }
        found = []
        for pair in pairs:
            one, other = known[id(pair.first)], known[id(pair.second)]
            found.append(Effect(pair, one[0] - other[0], one[1] - other[1]))
        return found, exact

    def _seeded(
        self, batches: Mapping[int, Sequence[Any]], rng: np.random.Generator
    ) -> dict[int, tuple[Array, Array]] | None:
        """Releases under equal seeds of the global generators, twice; None if noise remains."""
        seeds = rng.integers(2**63, size=2).tolist()
        found: dict[int, tuple[Array, Array]] = {}
        base: tuple[Array, Array] | None = None
        for key, batch in batches.items():
            each = []
            for seed in seeds:
                reseed(seed)
                each.append(self.release(batch))
            found[key] = each[0], each[1]
            base = base or found[key]
            moved = [one - other for one, other in zip(found[key], base, strict=True)]
            size = float(np.abs(moved).max())
            if float(np.abs(moved[0] - moved[1]).max()) > 1e-3 * size:
                found = {}
                break
        reseed(int(rng.integers(2**63)))
        return found or None

    def scores(self, batch: Sequence[Any], direction: Array, count: int) -> Array:
        """So many releases, each by its inner product with a direction."""
        return np.array([float(self.release(batch) @ direction) for _ in range(count)])
