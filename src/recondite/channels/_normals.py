"""Standard normal numbers from random words: a keyed cryptographic stream, or fresh entropy.

The transform is Box and Muller's, written here because it must not change under a record: NumPy
promises its bit streams for ever, its normal variates only for a version.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import secrets
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ahead", "Words", "double_normals", "philox", "shake", "single_normals"]

Words = Callable[[int], NDArray[np.uint64]]

_TOP = (1 << 64) - 1
_BLOCK = 1 << 14  # pairs of single numbers made at a time


def shake(key: bytes | None = None) -> Words:
    """Returns a cryptographic stream of 64-bit words: SHAKE-128 of a key, by default a fresh one."""
    start = hashlib.shake_128(secrets.token_bytes(32) if key is None else key)
    parts = itertools.count()

    def words(count: int) -> NDArray[np.uint64]:
        part = start.copy()
        part.update(next(parts).to_bytes(8, "little"))
        stream = part.digest(8 * count)
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)

    return words


def philox(key: bytes | None = None) -> Words:
    """Returns a stream of 64-bit words from Philox with a 128-bit key, by default a fresh one.

    No way is known to find the key from its output, but it was not built to withstand one. (The
    Mersenne twister of torch's CPU generators is linear: a few thousand known pixels, black
    borders for instance, give its state and with it the noise of all others.)
    """
    number = secrets.randbits(128) if key is None else int.from_bytes(key[:16], "little")
    generator = np.random.Generator(np.random.Philox(key=number))

    def words(count: int) -> NDArray[np.uint64]:
        return generator.integers(0, _TOP, size=count, dtype=np.uint64, endpoint=True)

    return words


def double_normals(words: Words, count: int) -> NDArray[np.float64]:
    """Returns ``count`` standard normal numbers with 53 random bits each, one word for each.

    The same words give the same numbers up to the rounding of log, sin and cos, and the same bits
    on the same kind of CPU. None lies beyond 8.7 (probability 5e-18).
    """
    half = (count + 1) // 2
    uniform = (words(2 * half) >> np.uint64(11)).astype(np.float64)
    radius = uniform[:half] + 0.5
    radius *= 2.0**-53
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    angle = uniform[half:] * (2 * math.pi * 2.0**-53)
    out = np.concatenate((np.cos(angle), np.sin(angle)))
    out[:half] *= radius
    out[half:] *= radius
    return out[:count]


def single_normals(words: Words, count: int) -> NDArray[np.float32]:
    """Returns ``count`` standard normal numbers in single precision, a word for two of them.

    None lies beyond 6.8 (probability 1e-11).
    """
    out: NDArray[np.float32] = np.empty(count + count % 2, dtype=np.float32)
    block = min(_BLOCK, out.size // 2)
    # Large temporary arrays come fresh from the operating system and cost more than the numbers.
    scratch = np.empty(block)
    angles: NDArray[np.float32] = np.empty(block, dtype=np.float32)
    radii: NDArray[np.float32] = np.empty(block, dtype=np.float32)
    for start in range(0, out.size, 2 * block):
        part = out[start : start + 2 * block]
        half = part.size // 2
        bits = words(half).view(np.uint32)
        logs, angle, radius = scratch[:half], angles[:half], radii[:half]
        np.add(bits[:half], 0.5, out=logs)
        np.log(logs, out=logs)
        np.subtract(32 * math.log(2), logs, out=radius, casting="same_kind")
        np.sqrt(radius, out=radius)
        radius *= np.float32(math.sqrt(2))
        np.copyto(angle, bits[half:], casting="unsafe")
        angle *= np.float32(2 * math.pi * 2.0**-32)
        np.cos(angle, out=part[:half])
        np.sin(angle, out=part[half:])
        part[:half] *= radius
        part[half:] *= radius
    return out[:count]


class Ahead:
    """Draws the next batch's noise in a thread while the caller trains on this one.

    What was drawn is handed out once: a process that was forked meanwhile (a worker of a data
    loader) throws its inherited copy away, and rows that a short batch leaves over are dropped.
    """

    def __init__(self, draw: Callable[[int], NDArray[Any]]) -> None:
        self._draw = draw
        self._process = os.getpid()
        self._waiting: deque[tuple[int, Future[NDArray[Any]]]] = deque()
        self._thread: ThreadPoolExecutor | None = None

    def take(self, count: int) -> NDArray[Any]:
        """Returns noise for ``count`` records that nobody else gets."""
        if os.getpid() != self._process:
            self._waiting.clear()
            return self._draw(count)
        try:
            # Taking it off the queue is what makes it ours, whichever thread we are in.
            size, future = self._waiting.popleft()
            drawn = future.result() if size >= count else self._draw(count)
        except IndexError:
            drawn = self._draw(count)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="recondite-noise")
        if count:
            self._waiting.append((count, self._thread.submit(self._draw, count)))
        return drawn[:count]
