"""`per_step` noise: every use of a record draws fresh noise, and is counted.

The next normal numbers are drawn by a thread while the last are being used.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recondite._forks import generation
from recondite.channels._items import add_noise, is_tensor, stacked
from recondite.channels.ledger import BudgetSpentError, Counted
from recondite.channels.noise import Factored, Noise
from recondite.channels.protected import ProtectedDataset, in_worker
from recondite.numerics.normals import Words, fill_normal, fresh_words, keyed_words, scratch

__all__ = ["DrawnAhead", "FreshNoise", "PerStepDataset"]

_MOST = 1 << 23  # numbers to hold ready: 32 MB in single precision
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


@dataclass(frozen=True)
class _Pending:
    """Numbers that are being drawn.

    Attributes:
      process: Token of the process they are drawn in; no other may use them.
      count: How many.
      numbers: Where they will be.
    """

    process: tuple[int, int]
    count: int
    numbers: Future[NDArray[Any]]


class DrawnAhead:
    """Independent normal numbers of mean zero from OpenSSL's generator, a batch at a time.

    Guarantee: no number is handed out twice. What is ready is let go of before it is used, is not
    copied with this object, and is not touched by a process that was forked after it was drawn.
    Threads may share it.

    Args:
      dtype: float32 or float64.
      scale: Standard deviation.
      shaped: What makes noise of normal numbers, if not the numbers themselves are wanted; they
        are then counted in its rows.
    """

    def __init__(
        self,
        dtype: type[np.floating[Any]],
        scale: float = 1.0,
        shaped: Factored | None = None,
    ) -> None:
        self._dtype, self._scale, self._shaped = dtype, scale, shaped
        # At most one; taking it out is one step, also where several threads do.
        self._ready: deque[_Pending] = deque(maxlen=1)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": deque(maxlen=1)}

    def take(self, count: int) -> NDArray[Any]:
        """Returns numbers that are the caller's own, and has the next ones drawn."""
        pending, process = self._next(), generation()
        if pending is not None and pending.process == process and pending.count >= count:
            numbers = pending.numbers.result()[:count]
        else:
            numbers = self._draw(count)
        if count <= _MOST:
            # When the interpreter is ending no thread can be given work any more.
            with suppress(RuntimeError):
                future = _pool(process).submit(self._draw, count)
                self._ready.append(_Pending(process, count, future))
        return numbers

    def _next(self) -> _Pending | None:
        try:
            return self._ready.popleft()
        except IndexError:
            return None

    def _draw(self, count: int) -> NDArray[Any]:
        if self._shaped is not None:
            dim = self._shaped.factor.shape[1]
            return self._shaped.rows(_filled_by(fresh_words), -(-count // dim)).reshape(-1)[:count]
        numbers = np.empty(count, dtype=self._dtype)
        fill_normal(fresh_words, numbers, self._scale)
        return numbers


def _filled_by(words: Words) -> Callable[[NDArray[Any], float], None]:
    return lambda out, scale: fill_normal(words, out, scale)


def _pool(process: tuple[int, int]) -> ThreadPoolExecutor:
    """The drawing thread of a process: one that was forked has none of its parent's threads."""
    if process not in _pools:
        _pools.clear()
        _pools[process] = ThreadPoolExecutor(1, thread_name_prefix="recondite-noise")
    return _pools[process]


_BLOCK = 1 << 15  # entries of noise drawn at a time
_LARGE = 1 << 23


class FreshNoise:
    """Noise that is drawn anew for every use, a batch at a time.

    Guarantee: independent between records and uses; assuming that OpenSSL's generator, seeded by
    the operating system, looks random. With a seed there is no guarantee: whoever guesses it has
    the records.

    Args:
      noise: The noise of a channel.
      single: Whether the records have no more than single precision.
      seed: For simulations: the noise follows from it and the number of records served before.
    """

    def __init__(self, noise: Noise, *, single: bool, seed: int | None = None) -> None:
        self._noise = noise
        self.seed = seed
        # Noise along all that a spectrum retained stays, with a seed, what it was in 0.1.0.
        repeats = seed is not None and noise.follows_all
        self._factored = None if repeats else noise.factored(single)
        self._working = noise.working_type(single)
        if self._factored is not None:
            self._working = self._factored.factor.dtype.type
        spread = noise.spread
        self._scale = 1.0 if spread is None else spread
        self._ahead = DrawnAhead(self._working, self._scale, self._factored)

    def add(self, batch: Any, served_before: int) -> None:
        """Adds noise to the records of a batch, in place."""
        if is_tensor(batch) and batch.device.type == "cpu" and batch.dtype.itemsize > 2:
            batch = batch.numpy()  # the same memory, with less ado for each part
        # Small arrays stay in the cache; a matrix product wants large ones.
        step = max(1, (_BLOCK if self._noise.along is None else _LARGE) // self._noise.dim)
        draw = self._drawing(len(batch), served_before)
        done = self._noise.spread is not None or self._factored is not None
        for start in range(0, len(batch), step):
            part = batch[start : start + step]
            rows = draw(start, len(part)).reshape(len(part), -1)
            add_noise(part, rows if done else self._noise.shape(rows))

    def _drawing(self, records: int, served_before: int) -> Callable[[int, int], NDArray[Any]]:
        """Returns what gives the noise of some of a batch's records, or its normal numbers."""
        dim, factored = self._noise.dim, self._factored
        # Products of a large batch want more memory than the batch, and are taken in parts.
        quick = self._noise.along is None or (factored is not None and records * dim <= _MOST)
        # Two products take far longer than their numbers, and a worker is ahead already.
        if self.seed is None and quick and not in_worker():
            drawn = self._ahead.take(records * dim)
            return lambda start, count: drawn[start * dim : (start + count) * dim]
        words: Words = fresh_words
        if self.seed is not None:
            words = keyed_words(hashlib.blake2b(f"{self.seed} {served_before}".encode()).digest())

        def draw(_: int, count: int) -> NDArray[Any]:
            if factored is not None:
                return factored.rows(_filled_by(words), count)
            rows = scratch(self._working.__name__, count * dim, self._working)
            fill_normal(words, rows, self._scale)
            return rows

        return draw


class PerStepDataset(ProtectedDataset):
    """Protected records with `per_step` noise; what is kept are the raw records.

    Every access is a use: counted here, or by a protected loader before it hands the index to its
    workers. In a worker nothing can be counted, and an index that was not is refused.

    Args:
      source: The noise.
      *args: As for :class:`ProtectedDataset`.
      **options: As for :class:`ProtectedDataset`.
    """

    noise: ClassVar[str] = "per_step"

    def __init__(self, source: FreshNoise, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._source = source
        self._guarantee = source.seed is None
        self._note = "fresh noise for every use, from a cryptographic generator"
        if source.seed is not None:
            self._note = "simulation: no guarantee, for the noise follows from a seed"

    def admit(self, indices: list[Any]) -> list[Any] | None:
        """Counts a use for each index."""
        counted = self.ledger.serve(indices)
        return None if counted is None else [*counted]

    def _admitted(self, indices: list[Any]) -> list[Any]:
        if all(isinstance(index, Counted) for index in indices):
            return indices
        if self._ledger is None or in_worker():
            raise ValueError(
                "per_step noise cannot be counted in a worker: protect the loader, not its data set"
            )
        counted = self._ledger.serve(indices)
        if counted is None:
            raise BudgetSpentError(self._ledger.message)
        return [*counted]

    def _features_of(self, places: list[int], items: list[Any], *, together: bool) -> Any:
        return stacked([self._features.get(item) for item in items])

    def _noised(self, features: Any, places: list[Any]) -> Any:
        self._source.add(features, places[0].served_before)
        return features
