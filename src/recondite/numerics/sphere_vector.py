"""One von Mises-Fisher draw around one long torch vector, with as few tensor operations as can be.

A training step draws one direction; at 13,700 coordinates the cost of the general sampler is that
of launching its two dozen operations, not of computing. Here everything but the vector itself is a
Python float, and a long vector is read by as few passes as can be. The law is the same.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["draw_cosine", "draw_single"]

# Squared norms outside this range may have over- or underflowed in single precision.
_COMFORT = (1e-20, 1e20)
# Up to this dimension an inner product in single precision is as good as sums over chunks; those of
# longer pieces are joined in double precision.
_PIECE = 65_536


def draw_single(row: Any, kappa: float, source: Any) -> Any:
    """A draw from VMF(row / ‖row‖, κ), or None where the general sampler has to look closer.

    Args:
      row: A one-dimensional tensor of at least a few hundred coordinates.
      kappa: Concentration κ >= 0.
      source: Random numbers on the tensor's device.
    """
    squared = _dot(row, row)
    if not _COMFORT[0] < squared < _COMFORT[1]:
        return None
    noise = source.normal_like(row)
    norm = math.sqrt(squared)
    length, along = _dot(noise, noise), _dot(row, noise) / norm
    tangent = length - along * along
    if not tangent >= 0.01 * length:
        return None
    t, s = draw_cosine(len(row) - 1, kappa, source)
    on_noise = s / math.sqrt(tangent)
    noise *= on_noise
    noise.add_(row, alpha=(t - on_noise * along) / norm)
    return noise


def _dot(one: Any, other: Any) -> float:
    """An inner product, as if summed up in double precision."""
    if len(one) <= _PIECE:
        return float(one.dot(other))
    pieces = zip(one.split(_PIECE), other.split(_PIECE), strict=True)
    return sum(float(part.dot(same)) for part, same in pieces)


def draw_cosine(n: int, kappa: float, source: Any) -> tuple[float, float]:
    """The cosine and its sine by Wood's rejection; the formulas of ``numerics.sphere.cosines``."""
    b = n / (2.0 * kappa + math.hypot(2.0 * kappa, n))
    x0 = (1.0 - b) / (1.0 + b)
    slope = x0 * (1.0 + b) * (1.0 + b) / (4.0 * b)
    while True:
        g1, g2 = source.gamma(0.5 * n, 2).tolist()
        total = g2 + b * g1
        t = (g2 - b * g1) / total
        gain = kappa * (t - x0) + n * math.log1p(slope * (x0 - t))
        if gain >= -source.exponential(1).item():
            return t, 2.0 * math.sqrt(b * g1 * g2) / total
