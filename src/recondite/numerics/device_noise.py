"""Noise on a GPU by fused kernels, and what they need from the host: words and cosines.

The law is that of :mod:`recondite.numerics.sphere` and of adding normal numbers; the same tests run
on both. Nothing waits for the device: cosines are drawn here in float64, a few numbers go there,
and none comes back (unless a row without a direction has to be refused).

Entropy: without a seed every call takes 128 fresh bits for its numbers from OpenSSL's generator, in
whatever process it runs. Cosines come from a generator of this process (Philox on 128 such bits; a
forked process makes its own). What an attacker sees exactly could in principle reveal a call's key
(Philox was not made to resist that), but no other call's. With a seed (simulations) numbers follow
from the generator and how often it was used. In secure mode numbers are drawn on the CPU as ever:
at a million coordinates about 25 ms instead of 0.1.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recondite.numerics.fork_safe import Renewed
from recondite.numerics.normals import fresh_words
from recondite.numerics.secure import SecureGenerator

if TYPE_CHECKING:
    from recondite.numerics.random import NumpySource

__all__ = ["add_gaussian", "draw_vmf", "fresh_generator", "fused", "row_squares"]

# Programs that keep a large GPU busy, and no more partial sums than one of them adds up quickly.
_PROGRAMS = 4224
# Programs that each add up several rows: fewer, for each leaves a vector behind.
_SUMMING = 1056
# Blocks below this may have noise all but parallel to their row: float64 to the end.
_SMALL = 256

# Squared norms from here on are refused: noise times such coordinates may overflow.
_MOST = 1e74


def fused(rows: Any, generator: Any) -> bool:
    """Whether the kernels serve a tensor: float32 or narrower, on a GPU, not in secure mode."""
    if not (rows.is_cuda or _interpreted()) or isinstance(generator, SecureGenerator):
        return False
    narrow = rows.dtype.is_floating_point and rows.dtype.itemsize <= 4
    return bool(narrow and rows.numel() and _installed())


@lru_cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


@lru_cache
def fresh_generator() -> Any:
    """A torch generator's class that says that no seed stands behind it."""
    import torch

    class FreshGenerator(torch.Generator):
        """A torch generator that holds the operating system's entropy."""

    return FreshGenerator


def add_gaussian(x: Any, std: float, generator: Any) -> Any:
    """The tensor plus independent normal numbers of this standard deviation, in one pass."""
    import torch

    from recondite.numerics import kernels

    x = x.contiguous()
    out = torch.empty_like(x, dtype=torch.float32)
    key, nonce = words(generator, 2).tolist()
    grid = (-(-x.numel() // kernels.TILE),)
    with _on(x):
        kernels.add_gaussian[grid](x, out, key, nonce, x.numel(), std, kernels.QUARTER)
    return out


def row_squares(rows: Any) -> Any:
    """Squared norms of the rows of a float32 matrix on a GPU, in float64, without a copy."""
    import torch

    from recondite.numerics import kernels

    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    count, dim = rows.shape
    width = kernels.TILE
    pieces = max(1, min(-(-dim // width), _PROGRAMS // count))
    length = -(-dim // (pieces * width)) * width
    out = torch.empty(count, pieces, dtype=torch.float64, device=rows.device)
    with _on(rows):
        kernels.row_squares[(count * pieces,)](
            rows, out, rows.stride(0), dim, pieces, length, width
        )
    return out[:, 0] if pieces == 1 else out.sum(1)


def draw_vmf(
    rows: Any,
    sizes: Sequence[int],
    kappas: Sequence[float],
    generator: Any,
    *,
    weights: Sequence[float] = (1.0,),
    zero: str = "refuse",
    total: bool = False,
) -> Any:
    """Draws from the von Mises-Fisher law around every block of every row.

    Args:
      rows: A float tensor of shape (..., p).
      sizes: Of the blocks, which add up to p.
      kappas: Concentration of each block.
      generator: torch's, or None for fresh entropy.
      weights: Length of each block's draw.
      zero: What becomes of blocks that are zero: "refuse", or draw a "uniform" direction. Where
        nothing is refused, rows that are not finite give NaN.
      total: Give the sum over all rows, without keeping the draws.

    Returns:
      float32, of the rows' shape or of shape (p,).
    """
    import torch

    from recondite.numerics import kernels

    rows = rows.float().contiguous()
    sizes, dim = tuple(sizes), rows.shape[-1]
    count = rows.numel() // dim
    table = _chunks(sizes, 1 if total else count, total, rows.device)
    chunks = len(table)
    partial = torch.empty(count, chunks, 3, dtype=torch.float64, device=rows.device)
    shared = (kernels.COLUMNS, kernels.QUARTER, min(sizes) < _SMALL)
    key, nonce = words(generator, 2).tolist()
    with _on(rows):
        kernels.moments[(chunks * count,)](rows, partial, key, nonce, table, chunks, dim, *shared)
        # The device has work meanwhile.
        made = _cosines(count, sizes, tuple(kappas), tuple(weights))(generator)
        pairs, t, s = None, 0.0, 0.0
        if count == len(sizes) == 1:
            t, s = made.tolist()
        else:  # the copy does not wait, and neither does anybody for it
            pairs = torch.from_numpy(made).to(rows.device, non_blocking=True)
        given = (partial, key, nonce, pairs, t, s, table, chunks, len(sizes), dim)
        if total:
            several = max(1, count * chunks // _SUMMING)
            parts = -(-count // several)
            out = torch.empty(parts, dim, dtype=torch.float32, device=rows.device)
            kernels.sum_rows[(chunks * parts,)](rows, out, *given, count, several, *shared)
            out = out.sum(0)
        else:
            out = torch.empty_like(rows)
            kernels.combine[(chunks * count,)](rows, out, *given, *shared)
    if zero == "refuse":
        own = partial.new_zeros(count, len(sizes)).index_add_(1, table[:, 3], partial[..., 0])
        if not bool(((own > 0) & (own < _MOST)).all()):
            raise ValueError("directions must be finite and nonzero: zero has no direction")
    return out


def _on(x: Any) -> Any:
    """Triton launches on the current device."""
    import torch

    if x.is_cuda and x.device.index != torch.cuda.current_device():
        return torch.cuda.device(x.device)
    return contextlib.nullcontext()


def words(generator: Any, count: int) -> NDArray[np.uint64]:
    """Random words on the host: fresh, or those that a seeded generator stands for at this call."""
    import torch

    if _unseeded(generator):
        return fresh_words(count)
    if generator.device.type != "cuda":
        drawn = torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator)
        return drawn.numpy().view(np.uint64)
    # Its state is on the host: a seed, and how many numbers were taken.
    place = generator.get_offset()
    generator.set_offset(place + 4)
    entropy = [generator.initial_seed() % 2**64, place]
    return np.random.SeedSequence(entropy).generate_state(count, np.uint64).astype(np.uint64)


def _unseeded(generator: Any) -> bool:
    return generator is None or isinstance(generator, fresh_generator())


def _host(generator: Any) -> NumpySource:
    """Random numbers on the host, for a few cosines."""
    if not _unseeded(generator):
        return _philox(words(generator, 2))
    source: NumpySource = _kept().current()
    return source


@lru_cache
def _kept() -> Renewed:
    return Renewed(lambda: _philox(fresh_words(2)), seeded=False)


def _philox(key: NDArray[np.uint64]) -> NumpySource:
    from recondite.numerics.random import NumpySource

    return NumpySource(np.random.Generator(np.random.Philox(key=key)))


@lru_cache(maxsize=64)
def _cosines(
    count: int, sizes: tuple[int, ...], kappas: tuple[float, ...], weights: tuple[float, ...]
) -> Callable[[Any], NDArray[np.float64]]:
    """What makes t and s of every row and block, each times the block's weight."""
    from recondite.numerics.sphere import cosines
    from recondite.numerics.sphere_vector import draw_cosine

    kinds: dict[tuple[int, float], list[int]] = {}
    for block, kind in enumerate(zip(sizes, kappas, strict=True)):
        kinds.setdefault(kind, []).append(block)
    lengths = np.broadcast_to(np.asarray(weights, np.float64), len(sizes))

    def make(generator: Any) -> NDArray[np.float64]:
        source = _host(generator)
        if count == len(sizes) == 1:
            t, s = draw_cosine(sizes[0] - 1, kappas[0], source)
            return np.array([t * weights[0], s * weights[0]])
        pairs = np.empty((count, len(sizes), 2))
        for (size, kappa), places in kinds.items():
            t, s = cosines(count * len(places), size, kappa, None, source.generator)
            pairs[:, places, 0] = t.reshape(count, -1) * lengths[places]
            pairs[:, places, 1] = s.reshape(count, -1) * lengths[places]
        return pairs.reshape(-1)

    return make


@lru_cache(maxsize=64)
def _chunks(sizes: tuple[int, ...], rows: int, single: bool, device: Any) -> Any:
    """The table of chunks, on the device: which coordinates and counters each has, of which block.

    Args:
      sizes: Of the blocks.
      rows: Each has chunks of its own.
      single: Whether a chunk may have one tile only.
      device: Where it goes; it is made once.
    """
    import torch

    from recondite.numerics.kernels import QUARTER, TILE

    whole = sum(-(-size // TILE) for size in sizes)
    tiles = 1 if single else max(1, -(-whole * rows // _PROGRAMS))
    table: list[tuple[int, ...]] = []
    start = counter = 0
    for block, size in enumerate(sizes):
        many = math.ceil(size / (tiles * TILE))
        first = len(table)
        for chunk in range(many):
            begin = chunk * tiles * TILE
            end = min(size, begin + tiles * TILE)
            table.append((start + begin, start + end, counter, block, first, many))
            counter += -(-(end - begin) // TILE) * QUARTER
        start += size
    return torch.tensor(table, dtype=torch.int64).to(device)
