"""Noise for the next batch, drawn in a thread while the caller trains on this one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ahead"]

Rows = NDArray[Any]


class Ahead:
    """Hands out rows of noise, each to one caller only.

    A process that was forked meanwhile (a worker of a loader) throws away what it inherited, and
    rows that a smaller batch leaves over are drawn anew. Arrays are used again, for fresh memory
    costs more than the noise.

    Args:
      draw: Fills the rows of an array with noise and returns them, in this array or another.
      width: The number of features.
      dtype: The type of the arrays.
    """

    def __init__(self, draw: Callable[[Rows], Rows], width: int, dtype: Any) -> None:
        self._draw = draw
        self._width = width
        self._dtype = dtype
        self._process = os.getpid()
        self._most = 0
        # Taking something off a deque is what makes it ours, whichever thread we are in.
        self._waiting: deque[Future[Rows]] = deque()
        self._free: deque[Rows] = deque(maxlen=2)
        self._thread: ThreadPoolExecutor | None = None

    @contextmanager
    def noise(self, count: int) -> Iterator[Rows]:
        """Gives ``count`` rows of noise for the time of the context."""
        rows = self._next(count)
        yield rows[:count]
        self._free.append(rows)

    def _next(self, count: int) -> Rows:
        self._most = max(self._most, count)
        if os.getpid() != self._process:
            return self._draw(self._array())
        try:
            rows = self._waiting.popleft().result()
        except IndexError:
            rows = None
        if rows is None or len(rows) < count:
            rows = self._draw(self._array())
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="recondite-noise")
        self._waiting.append(self._thread.submit(self._draw, self._array()))
        return rows

    def _array(self) -> Rows:
        try:
            rows = self._free.popleft()
        except IndexError:
            rows = np.empty((0, self._width))
        if rows.shape[0] >= self._most and rows.dtype == self._dtype:
            return rows
        return np.empty((self._most, self._width), dtype=self._dtype)
