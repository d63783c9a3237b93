"""Random numbers for NumPy arrays and torch tensors through one small interface.

Without a generator the randomness comes fresh from the operating system: noise that protects
must not follow from a seed that somebody set elsewhere.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from recondite.numerics import device_noise
from recondite.numerics.secure import SecureGenerator, SecureSource

__all__ = ["NumpySource", "TorchSource", "is_torch", "new_generator", "random_source"]


def is_torch(value: Any) -> bool:
    """Whether this is a torch tensor, without importing torch."""
    return type(value).__module__.split(".")[0] == "torch"


class NumpySource:
    """Random numbers from a NumPy generator."""

    def __init__(self, generator: Any) -> None:
        self.library: Any = np
        self.generator = np.random.default_rng() if generator is None else generator

    def gamma(self, shape: float, count: int) -> Any:
        """Standard gamma variates, float64."""
        return self.generator.standard_gamma(shape, count)

    def exponential(self, count: int) -> Any:
        """Standard exponential variates, float64."""
        return self.generator.standard_exponential(count)

    def normal_like(self, rows: Any, out: Any = None) -> Any:
        """Standard normal variates of an array's shape and precision."""
        del out
        dtype = rows.dtype if rows.dtype in (np.float32, np.float64) else np.float64
        return self.generator.standard_normal(rows.shape, dtype=dtype)

    def add_normal(self, rows: Any, std: float) -> Any:
        """The array plus normal variates of this standard deviation."""
        return _added(self.normal_like(rows), rows, std)

    def indices(self, count: int) -> Any:
        """0 … count - 1."""
        return np.arange(count)


class TorchSource:
    """Random numbers from a torch generator on the tensor's device."""

    def __init__(self, generator: Any, like: Any) -> None:
        import torch

        self.library: Any = torch
        self.device = like.device
        self._generator = generator

    @property
    def generator(self) -> Any:
        """The generator that was given, or a new one on the operating system's entropy."""
        if self._generator is None:
            # The global generator may have been seeded: noise that protects must not be.
            self._generator = _fresh(self.library, self.device)
        return self._generator

    def gamma(self, shape: float, count: int) -> Any:
        """Standard gamma variates, float64."""
        full = self.library.full((count,), shape, dtype=self.library.float64, device=self.device)
        return self.library._standard_gamma(full, generator=self.generator)

    def exponential(self, count: int) -> Any:
        """Standard exponential variates, float64."""
        out = self.library.empty(count, dtype=self.library.float64, device=self.device)
        return out.exponential_(generator=self.generator)

    def normal_like(self, rows: Any, out: Any = None) -> Any:
        """Standard normal variates of a tensor's shape and precision.

        ``out`` is what an earlier call returned, to be overwritten where it has the right shape:
        fresh memory costs more than numbers that stay in the cache.
        """
        if out is None or out.shape != rows.shape:
            # empty_like keeps the strides of a broadcast view; a fresh tensor is contiguous.
            out = self.library.empty(rows.shape, dtype=rows.dtype, device=self.device)
        return out.normal_(generator=self.generator)

    def add_normal(self, rows: Any, std: float) -> Any:
        """The tensor plus normal variates of this standard deviation; one pass on a GPU."""
        if device_noise.fused(rows, self._generator):
            return device_noise.add_gaussian(rows, std, self._generator)
        return _added(self.normal_like(rows), rows, std)

    def indices(self, count: int) -> Any:
        """0 … count - 1."""
        return self.library.arange(count, device=self.device)


def _added(noise: Any, rows: Any, std: float) -> Any:
    noise *= std
    noise += rows
    return noise


def _fresh(torch: Any, device: Any) -> Any:
    """A torch generator that holds the operating system's entropy."""
    generator = device_noise.fresh_generator()(device=device)
    generator.manual_seed(secrets.randbits(63))
    if generator.device.type == "cpu":
        # The CPU generator keeps 32 bits of its seed, few enough to try them all. Its whole state
        # (624 words of a Mersenne twister, 64 bits apart, after a header of 24 bytes) is drawn.
        state = generator.get_state()
        words = np.frombuffer(secrets.token_bytes(4 * 624), dtype=np.uint32).astype(np.uint64)
        state[24 : 24 + 8 * 624] = torch.from_numpy(words.view(np.uint8))
        generator.set_state(state)
    return generator


def random_source(like: Any, generator: Any) -> NumpySource | TorchSource | SecureSource:
    """The source that matches an array's library and device."""
    if isinstance(generator, SecureGenerator):
        return SecureSource(generator, like if is_torch(like) else None)
    return TorchSource(generator, like) if is_torch(like) else NumpySource(generator)


def new_generator(like: Any, seed: int | None = None, *, secure: bool = False) -> Any:
    """A generator for a tensor's device: from the operating system's entropy, or from a seed.

    Args:
      like: The tensor.
      seed: Makes the noise repeatable, and worthless as protection.
      secure: Take every bit from a cryptographic generator instead.
    """
    if secure:
        return SecureGenerator()
    if seed is None:
        return random_source(like, None).generator
    import torch

    return torch.Generator(device=like.device).manual_seed(seed)
