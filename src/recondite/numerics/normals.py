"""Standard normal numbers from cryptographic random words, keyed or fresh.

torch's CPU generators would not do: their Mersenne twister is linear, and a few thousand pixels
that an attacker knows, black borders for instance, give its state and the noise of all others.

The transform is Box and Muller's, written here because it must not change under a record: NumPy
promises its bit streams for ever, its normal variates only for a version.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite._forks import generation

_random_bytes: Callable[[int], bytes] = os.urandom
_stir: Callable[[bytes, float], object] | None = None
with suppress(ImportError):  # a Python without OpenSSL
    import ssl

    _random_bytes, _stir = ssl.RAND_bytes, ssl.RAND_add

__all__ = ["Words", "fill_normal", "fresh_words", "keyed_words", "scratch"]

Words = Callable[[int], NDArray[np.uint64]]

# Numbers are made a block at a time, to stay in the cache. The size of a block is part of what a
# key stands for.
_BLOCK = 1 << 15
# Words from here on, one in 64, stand for logarithms below 1/64.
_NEAR_ONE = np.uint32(2**32 - 2**26)
_mine = threading.local()
_stirred = {generation()}  # processes whose OpenSSL is known to be seeded by themselves


def keyed_words(key: bytes) -> Words:
    """Returns the stream of 64-bit words that a key stands for, by SHAKE-128."""
    start = hashlib.shake_128(key)
    parts = itertools.count()

    def words(count: int) -> NDArray[np.uint64]:
        part = start.copy()
        part.update(next(parts).to_bytes(8, "little"))
        return np.frombuffer(part.digest(8 * count), dtype="<u8").astype(np.uint64, copy=False)

    return words


def fresh_words(count: int) -> NDArray[np.uint64]:
    """Returns random 64-bit words that nothing can repeat, in this process or a forked one.

    They come from OpenSSL's generator (AES-256 in counter mode, seeded by the operating system,
    and again after a fork), which is twenty times as fast as the operating system itself.
    """
    if _stir is not None and generation() not in _stirred:
        # OpenSSL knows a fork by the process's number, which is the same in another namespace.
        _stir(os.urandom(32), 32.0)
        _stirred.add(generation())
    return np.frombuffer(_random_bytes(8 * count), dtype=np.uint64)


def fill_normal(words: Words, out: NDArray[Any], scale: float = 1.0) -> None:
    """Fills a flat array of float32 or float64 with independent normal numbers of mean zero.

    The same words give the same numbers up to the rounding of log, sin and cos, and the same bits
    on the same kind of CPU. In double precision they have 53 random bits each and none lies beyond
    8.7 (probability 5e-18), in single precision 32 bits and 6.8 (probability 1e-11).

    Args:
      words: Where the random bits come from.
      out: What to fill.
      scale: Standard deviation; it costs nothing here, and a pass over the array elsewhere.
    """
    fill = _fill_single if out.dtype == np.float32 else _fill_double
    even = out.size - out.size % 2
    for start in range(0, even, _BLOCK):
        fill(words, out[start : min(start + _BLOCK, even)], scale)
    if even < out.size:
        pair = np.empty(2, dtype=out.dtype)
        fill(words, pair, scale)
        out[even] = pair[0]


def _fill_double(words: Words, out: NDArray[Any], scale: float) -> None:
    """Makes each pair of numbers of two words."""
    half = out.size // 2
    uniform = (words(out.size) >> np.uint64(11)).astype(np.float64)
    radius, angle = uniform[:half], uniform[half:]
    radius += 0.5
    np.log(radius, out=radius)
    np.subtract(53 * math.log(2), radius, out=radius)
    # The largest word rounds up to a logarithm of 0 or a hair above.
    np.maximum(radius, 0.0, out=radius)
    np.sqrt(radius, out=radius)
    radius *= math.sqrt(2) * scale
    angle *= 2 * math.pi * 2.0**-53
    np.cos(angle, out=out[:half])
    np.sin(angle, out=out[half:])
    out[:half] *= radius
    out[half:] *= radius


def _fill_single(words: Words, out: NDArray[Any], scale: float) -> None:
    """Makes each pair of numbers of one word."""
    half = out.size // 2
    bits = words(half).view(np.uint32)
    radius = scratch("radius", half, np.float32)
    np.copyto(radius, bits[:half], casting="same_kind")
    radius += np.float32(0.5)
    np.log(radius, out=radius)
    np.subtract(np.float32(32 * math.log(2)), radius, out=radius)
    # A small difference of two nearly equal numbers: such are computed in double precision.
    near = np.flatnonzero(bits[:half] >= _NEAR_ONE)
    radius[near] = 32 * math.log(2) - np.log(bits[near] + 0.5)
    radius *= np.float32(2 * scale**2)
    np.sqrt(radius, out=radius)
    angle = scratch("angle", half, np.float32)
    np.copyto(angle, bits[half:], casting="same_kind")
    angle *= np.float32(2 * math.pi * 2.0**-32)
    np.cos(angle, out=out[:half])
    np.sin(angle, out=out[half:])
    out[:half] *= radius
    out[half:] *= radius


def scratch(name: str, count: int, dtype: Any) -> NDArray[Any]:
    """Returns this thread's array of a name, with whatever is in it.

    Memory that is given back after every batch comes fresh from the operating system for the
    next, and each page of it costs as much as a thousand numbers.
    """
    array = getattr(_mine, name, None)
    if array is None or array.size < count:
        array = np.empty(max(count, _BLOCK), dtype=dtype)
        setattr(_mine, name, array)
    return np.asarray(array[:count])
