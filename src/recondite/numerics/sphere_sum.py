"""The sum of von Mises-Fisher draws around the rows of a matrix, without keeping the draws.

A draw is a·x + b·z with z Gaussian and two numbers a, b; so a sum of draws is a weighted sum of
the rows and of the noise. Rows are taken a few at a time, and their noise never leaves the
processor's cache. The law is that of summing ``sample_vmf`` over the rows.
"""

from __future__ import annotations

import math
from typing import Any

from recondite.numerics.random import is_torch, random_source
from recondite.numerics.sphere import SINGLE, SMALL, cosines, sample_vmf

__all__ = ["sum_vmf"]

# Elements of noise drawn at a time: in the cache of a core, or enough to keep a GPU busy.
_CACHED, _LARGE = 1 << 18, 1 << 26
# Squared norms outside this range may have over- or underflowed in single precision.
_COMFORT = (1e-20, 1e20)
# A vector that is all but parallel to its row is left to the general sampler.
_SINE = 0.01


def sum_vmf(rows: Any, kappa: float, generator: Any = None, *, zero: str = "refuse") -> Any:
    """Σ_i y_i with y_i drawn from VMF(x_i, κ) around row i.

    Args:
      rows: Array or tensor of shape (n, p), n >= 1, p >= 2; arguments as in ``sample_vmf``.
      kappa: Concentration κ >= 0; 0 is uniform.
      generator: NumPy or torch generator; fresh operating-system entropy without one.
      zero: What to do with rows that are zero: "refuse", or draw a "uniform" direction.

    Returns:
      A vector of p coordinates, in at least single precision.
    """
    count, dim = rows.shape
    quick = is_torch(rows) and rows.device.type == "cpu" and SMALL <= dim <= SINGLE
    if quick and rows.dtype.is_floating_point and rows.dtype.itemsize >= 4:
        return _quick(rows, kappa, generator, zero)
    step = max(1, _LARGE // dim)
    parts = [
        sample_vmf(rows[start : start + step], kappa, generator, zero=zero).sum(0)
        for start in range(0, count, step)
    ]
    return sum(parts[1:], parts[0])


def _quick(rows: Any, kappa: float, generator: Any, zero: str) -> Any:
    source = random_source(rows, generator)
    count, dim = rows.shape
    step = max(1, _CACHED // dim)
    total = rows.new_zeros(dim)
    t, s = (values.tolist() for values in cosines(count, dim, kappa, rows, source.generator))
    noise = None
    for start in range(0, count, step):
        part = rows[start : start + step]
        noise = source.normal_like(part, noise)
        on_rows, on_noise = [], []
        for place, (row, drawn) in enumerate(zip(part, noise, strict=True), start):
            squared = float(row.dot(row))
            length, along = float(drawn.dot(drawn)), float(row.dot(drawn))
            fits = _COMFORT[0] < squared < _COMFORT[1]
            tangent = length - along * along / squared if fits else 0.0
            if not fits or tangent < _SINE * length:
                # Zero, or out of scale: a draw of its own, whatever was drawn for it here.
                total += sample_vmf(row[None], kappa, source.generator, zero=zero)[0]
                on_rows.append(0.0)
                on_noise.append(0.0)
                continue
            factor = s[place] / math.sqrt(tangent)
            on_noise.append(factor)
            on_rows.append((t[place] - factor * along / math.sqrt(squared)) / math.sqrt(squared))
        total.addmv_(noise.T, total.new_tensor(on_noise))
        if any(on_rows):
            _add_rows(total, part, on_rows)
    return total


def _add_rows(total: Any, part: Any, factors: list[float]) -> None:
    # One by one: a row that is not to be taken may hold infinities, and 0·∞ is not 0.
    for row, factor in zip(part, factors, strict=True):
        if factor:
            total.add_(row, alpha=factor)
