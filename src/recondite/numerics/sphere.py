r"""Exact sampling of the von Mises-Fisher law in O(p) time and memory.

A draw around a unit vector x is ``t·x + sqrt(1 - t²)·w`` with the cosine t from its own
one-dimensional law, proportional to :math:`(1-t^2)^{(p-3)/2} e^{\kappa t}`, and w uniform on the
directions orthogonal to x. The cosine is drawn by rejection (Wood, 1994) in float64; w is a
Gaussian vector without its component along x. No rotation matrix is formed.

Works on NumPy arrays and torch tensors alike; torch is imported only if a tensor comes in. On a GPU
with Triton, tensors of single precision go through :mod:`recondite.numerics.device_noise`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recondite.numerics.device_noise import draw_vmf, fused
from recondite.numerics.random import is_torch, random_source
from recondite.numerics.sphere_vector import draw_single

__all__ = ["SINGLE", "SMALL", "cosines", "sample_vmf"]

# Below this dimension a Gaussian vector can lie so close to x that subtracting squared norms
# would cancel; there the component along x is removed explicitly.
SMALL = 256
# From here on rows are handled one by one on the CPU.
_WIDE = 4096
# Up to this dimension one dot product in single precision is as good as sums over chunks.
SINGLE = 65_536
_CHUNK = 4096
# Norms whose squares, and whose coordinates' squares, single precision holds at full precision.
_COMFORT = (1e-12, 1e12)


def cosines(count: int, dim: int, kappa: float, like: Any = None, generator: Any = None) -> Any:
    """Independent draws of the cosine t and of sqrt(1 - t²), as two float64 arrays.

    Args:
      count: How many.
      dim: Dimension p >= 2 of the space the sphere lies in.
      kappa: Concentration κ >= 0.
      like: A tensor whose library and device to use; NumPy without one.
      generator: A generator of that library; fresh operating-system entropy without one.
    """
    source = random_source(like, generator)
    n = dim - 1
    b = n / (2.0 * kappa + math.hypot(2.0 * kappa, n))
    x0 = (1.0 - b) / (1.0 + b)
    slope = x0 * (1.0 + b) * (1.0 + b) / (4.0 * b)  # x0 / (1 - x0²)
    t, s = _candidates(source, n, b, count)
    xp = source.library
    pending = None
    while True:
        here = t if pending is None else t[pending]
        gain = kappa * (here - x0) + n * xp.log1p(slope * (x0 - here))
        rejected = gain < -source.exponential(len(here))
        if not bool(rejected.any()):
            return t, s
        places = source.indices(count) if pending is None else pending
        pending = places[rejected]
        t[pending], s[pending] = _candidates(source, n, b, len(pending))


def _candidates(source: Any, n: int, b: float, count: int) -> tuple[Any, Any]:
    """Proposals of Wood's envelope: 1 - t = 2bG₁/(G₂ + bG₁) with two gamma variates."""
    g1, g2 = source.gamma(0.5 * n, count), source.gamma(0.5 * n, count)
    total = g2 + b * g1
    return (g2 - b * g1) / total, 2.0 * (b * g1 * g2) ** 0.5 / total


def sample_vmf(
    directions: Any, kappa: float, generator: Any = None, *, zero: str = "refuse"
) -> Any:
    """Draws from VMF(x, κ) around each row of ``directions``, which need not be normalised.

    Args:
      directions: Array or tensor of shape (..., p), p >= 2, finite and nonzero.
      kappa: Concentration κ >= 0; 0 is uniform.
      generator: NumPy or torch generator; fresh operating-system entropy without one.
      zero: What to do with rows that are zero: "refuse", or draw a "uniform" direction. Rows that
        are not finite are refused; on a GPU, where "uniform" waits for nothing, they give NaN.

    Returns:
      Unit vectors, same shape, dtype (at least single precision) and library.
    """
    dim = directions.shape[-1]
    if dim < 2:
        raise ValueError(f"directions must have 2 or more coordinates, got {dim}")
    if is_torch(directions) and fused(directions, generator):
        return draw_vmf(directions, (dim,), (kappa,), generator, zero=zero)
    rows = directions.reshape(-1, dim)
    rows = _at_least_single(rows)
    one = is_torch(rows) and len(rows) == 1 and dim >= SMALL
    if one and (dim <= SINGLE or rows.device.type == "cpu"):
        drawn = draw_single(rows[0], kappa, random_source(rows, generator))
        if drawn is not None:
            return drawn.reshape(directions.shape)
    norms = _norms(rows)
    if not bool(((norms > _COMFORT[0]) & (norms < _COMFORT[1])).all()):
        # Squares may have over- or underflowed, wholly or in part (a norm that is slightly wrong
        # is noise that is slightly wrong). Only directions matter, so rescale and look again.
        largest = _largest(rows)
        empty = largest == 0
        uniform = zero == "uniform" and bool(empty.any())
        if not bool((largest < math.inf).all()) or (bool(empty.any()) and not uniform):
            raise ValueError("directions must be finite and nonzero: zero has no direction")
        rows = rows / (largest + empty)[:, None]
        if uniform:
            # Noise around a uniform direction is uniform.
            rows[empty] = random_source(rows, generator).normal_like(rows[empty])
        norms = _norms(rows)
    source = random_source(rows, generator)
    noise, along, tangent = _tangents(source, rows, norms)
    t, s = cosines(len(rows), dim, kappa, rows, source.generator)
    on_noise = _as(s / tangent, rows)
    on_rows = _as((t - s * along / tangent) / norms, rows)
    noise *= on_noise[:, None]
    if is_torch(noise):
        noise.addcmul_(rows, on_rows[:, None])
    elif dim < SMALL:
        noise += on_rows[:, None] * rows
    else:
        for i in range(len(rows)):  # row by row: no temporary of the size of the input
            noise[i] += on_rows[i] * rows[i]
    return noise.reshape(directions.shape)


def _tangents(source: Any, rows: Any, norms: Any) -> tuple[Any, Any, Any]:
    """Gaussian vectors, their components along the rows, and the norms of what is orthogonal.

    A vector that is all but parallel to its row is drawn again (a generator seeded like the one
    that made the row gives such): its tangent would be rounding error. Tangent directions do not
    depend on that angle, so their law stays exact.
    """
    small = rows.shape[-1] < SMALL
    limit = 1e-3 if small else 0.1  # sine of the angle; above, never seen in independent draws
    noise = source.normal_like(rows)
    while True:
        lengths = _norms(noise)
        if small:
            noise -= (((rows * noise).sum(-1) / norms**2)[:, None]) * rows
            noise -= (((rows * noise).sum(-1) / norms**2)[:, None]) * rows
            along, tangents = 0.0 * norms, _norms(noise)
        else:
            along = _dots(rows, noise) / norms
            tangents = abs(lengths**2 - along**2) ** 0.5
        parallel = ~(tangents > limit * lengths)
        if not bool(parallel.any()):
            return noise, along, tangents
        noise[parallel] = source.normal_like(rows[parallel])


def _at_least_single(rows: Any) -> Any:
    if is_torch(rows):
        wide = rows.dtype.is_floating_point and rows.dtype.itemsize >= 4
        return rows if wide else rows.float()
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def _largest(rows: Any) -> Any:
    return rows.abs().amax(-1) if is_torch(rows) else abs(rows).max(-1)


def _norms(rows: Any) -> Any:
    """Euclidean norms in float64."""
    if is_torch(rows):
        # A running sum in single precision is off by 1e-5 at a million coordinates and by 4e-4 at
        # ten million: sums over chunks, joined in double precision, are not.
        whole = rows.shape[-1] // _CHUNK * _CHUNK
        total = rows[:, whole:].norm(dim=-1).double() ** 2
        if whole:
            parts = rows[:, :whole].unflatten(-1, (-1, _CHUNK)).norm(dim=-1)
            total += (parts.double() ** 2).sum(-1)
        return total**0.5
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    return norms


def _dots(rows: Any, noise: Any) -> Any:
    if is_torch(rows):
        if rows.shape[-1] >= _WIDE and rows.device.type == "cpu":
            # A batched product of long vectors is several times slower than their dot products.
            dots = [row.dot(other) for row, other in zip(rows, noise, strict=True)]
            return dots[0].new_tensor(dots).double()
        return (rows[:, None, :] @ noise[:, :, None]).reshape(-1).double()
    return np.einsum("ij,ij->i", rows, noise, dtype=np.float64)


def _as(values: Any, rows: Any) -> Any:
    return values.to(rows.dtype) if is_torch(rows) else values.astype(rows.dtype)
