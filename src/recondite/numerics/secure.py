"""Random numbers of which every bit comes from a cryptographic generator.

The default sources start from the operating system's entropy and go on with a fast generator that
was not made to resist an adversary: whoever saw enough of its output, exactly, could in principle
run it forwards and backwards. Here every word comes from OpenSSL's generator (AES-256 in counter
mode, seeded by the operating system, and again after a fork), or from ``os.urandom`` in a Python
without OpenSSL. Its state is OpenSSL's own: there is nothing here to checkpoint or to steal.

Cost, measured on one core of a busy two-core AMD EPYC machine (processor time, against the default
torch source): normal variates take 6 times as long; the noise of a step takes 5.4 times as long for
Gaussian and 4.4 to 4.8 times for von Mises-Fisher (at 13,700 coordinates 0.31 and 0.42 ms instead
of 0.06 and 0.09; at a million 21 and 24 ms instead of 4 and 5). OpenSSL gives the bits of a million
numbers in under 5 ms, the operating system itself takes 20 times as long. For a tensor on a GPU the
numbers are drawn on the CPU and copied.

What it does not cover:

- Floating-point numbers are not real numbers. Which of them a noised value can be depends on the
  value without noise, and an attacker who sees all its bits can use that (Mironov, "On
  significance of the least significant bits for differential privacy", CCS 2012). A better
  generator does not help against this.
- Side channels: rejection sampling takes a random time, memory is not wiped, and whoever reads the
  process's memory needs no attack on its random numbers.
- Randomness that is not noise or batch sampling: initial weights, dropout, augmentation.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.numerics.normals import fill_normal, fresh_words

__all__ = ["SecureGenerator", "SecureSource"]

FloatArray = NDArray[np.float64]
# Normals are made in pieces that stay in the processor's cache.
_PIECE = 1 << 15
_WORD = 2.0**-64


class SecureGenerator:
    """Takes the place of a NumPy or torch generator, for noise and for batch sampling.

    It cannot be seeded, and a copy or a pickle of it repeats nothing. Variates are as exact as
    functions of 64-bit uniforms in double precision are: 53 significant bits. Normals are made in
    double precision whatever they are rounded to, and none lies beyond 8.7 standard deviations,
    which has probability 5e-18: a billion of them have a law that differs by 5e-9 in total
    variation.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return (SecureGenerator, ())

    def words(self, count: int) -> NDArray[np.uint64]:
        """Uniform 64-bit integers, in memory that may be written to."""
        return fresh_words(count).copy()

    def uniform(self, count: int) -> FloatArray:
        """Uniform on (0, 1], with 53 significant bits however small."""
        return (self.words(count).astype(np.float64) + 0.5) * _WORD

    def exponential(self, count: int) -> FloatArray:
        """Standard exponential variates."""
        return -np.log(self.uniform(count))

    def normal(self, count: int) -> FloatArray:
        """Standard normal variates, by the transform of Box and Muller."""
        out = np.empty(count)
        fill_normal(self.words, out)
        return out

    def gamma(self, shape: float, count: int) -> FloatArray:
        """Standard gamma variates by rejection (Marsaglia and Tsang, 2000)."""
        if shape < 1.0:
            # U^(1/a) in the logarithm: a tiny shape underflows to 0, as its law does.
            return self.gamma(shape + 1.0, count) * np.exp(-self.exponential(count) / shape)
        d = shape - 1.0 / 3.0
        c = 1.0 / np.sqrt(9.0 * d)
        out = np.empty(count)
        pending = np.arange(count)
        while len(pending):
            x = self.normal(len(pending))
            inside = 1.0 + c * x > 0.0
            x = np.where(inside, x, 0.0)
            v = (1.0 + c * x) ** 3
            gain = 0.5 * x * x + d - d * v + 3.0 * d * np.log1p(c * x)
            accepted = inside & (gain > -self.exponential(len(pending)))
            out[pending[accepted]] = d * v[accepted]
            pending = pending[~accepted]
        return out

    def random(self, count: int) -> FloatArray:
        """Uniform on the multiples of 2⁻⁵³ in [0, 1), as a NumPy generator's ``random``."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, high: int, size: int | None = None) -> Any:
        """A uniform integer below ``high``, or an array of so many independent ones."""
        if size is None:
            return secrets.randbelow(high)
        found = self.words(size)
        # A whole number of times ``high`` fits below this: words above would favour small numbers.
        most = np.uint64(2**64 - 1 - 2**64 % high)
        while bool((above := found > most).any()):
            found[above] = self.words(int(above.sum()))
        return (found % np.uint64(high)).astype(np.int64)

    def permutation(self, count: int) -> NDArray[np.int64]:
        """A uniform order of 0 … count - 1: that of random keys, drawn again on a tie."""
        while True:
            keys = self.words(count)
            order = np.argsort(keys)
            keys = keys[order]
            if not bool((keys[1:] == keys[:-1]).any()):
                return order

    def choice(self, among: Any, size: int, replace: bool = False) -> Any:
        """So many distinct elements of an array, or of 0 … among - 1, in random order."""
        if replace:
            raise ValueError("replace must be False: batches do not repeat a record")
        pool = np.arange(among) if isinstance(among, int) else np.asarray(among)
        return pool[self.permutation(len(pool))[:size]]


class SecureSource:
    """Random numbers from a secure generator, as NumPy arrays or as tensors on a device."""

    def __init__(self, generator: SecureGenerator, like: Any = None) -> None:
        """``like`` is a tensor to follow; NumPy arrays without one."""
        self.generator = generator
        self.library: Any = np
        self.device: Any = None
        if like is not None:
            import torch

            self.library, self.device = torch, like.device

    def gamma(self, shape: float, count: int) -> Any:
        """Standard gamma variates, float64."""
        return self._placed(self.generator.gamma(shape, count))

    def exponential(self, count: int) -> Any:
        """Standard exponential variates, float64."""
        return self._placed(self.generator.exponential(count))

    def normal_like(self, rows: Any, out: Any = None) -> Any:
        """Standard normal variates of an array's or a tensor's shape and precision."""
        del out
        single = rows.dtype in (np.float32, getattr(self.library, "float32", None))
        flat = np.empty(int(np.prod(rows.shape)), np.float32 if single else np.float64)
        for start in range(0, len(flat), _PIECE):
            piece = flat[start : start + _PIECE]
            piece[...] = self.generator.normal(len(piece))
        shaped = self._placed(flat.reshape(tuple(rows.shape)))
        return shaped if self.device is None else shaped.to(rows.dtype)

    def add_normal(self, rows: Any, std: float) -> Any:
        """The array or tensor plus normal variates of this standard deviation."""
        noise = self.normal_like(rows)
        noise *= std
        noise += rows
        return noise

    def indices(self, count: int) -> Any:
        """0 … count - 1."""
        return self._placed(np.arange(count))

    def _placed(self, values: Any) -> Any:
        if self.device is None:
            return values
        return self.library.from_numpy(values).to(self.device)
