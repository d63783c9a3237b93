"""Fresh normal numbers, the next of which a thread draws while the last are being used."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite._forks import generation
from recondite.numerics.normals import fill_normal, fresh_words

__all__ = ["DrawnAhead"]

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
    """

    def __init__(self, dtype: type[np.floating[Any]], scale: float = 1.0) -> None:
        self._dtype, self._scale = dtype, scale
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
        numbers = np.empty(count, dtype=self._dtype)
        fill_normal(fresh_words, numbers, self._scale)
        return numbers


def _pool(process: tuple[int, int]) -> ThreadPoolExecutor:
    """The drawing thread of a process: one that was forked has none of its parent's threads."""
    if process not in _pools:
        _pools.clear()
        _pools[process] = ThreadPoolExecutor(1, thread_name_prefix="recondite-noise")
    return _pools[process]
