"""Noise from a capacity: f(σ) = κ solved so that the capacity is met and never exceeded.

Directions come as ``values`` (variances) and ``counts`` (how many directions share one), which
lets a truncated complement of a hundred thousand directions be a single entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recondite import _validate as check
from recondite.numerics.roots import last_true

__all__ = [
    "calibrated",
    "equal_ratio",
    "floored",
    "in_range",
    "information",
    "isotropic_variance",
    "least_power",
    "least_power_variances",
    "met",
    "require_variance",
]

FloatArray = NDArray[np.float64]

# Aimed at below the capacity, so that rounding in the sum of logarithms cannot carry above it.
_MARGIN = 1e-12
_TINY = 1e-290  # far enough inside the range that no quotient leaves it


def information(ratios: FloatArray, counts: FloatArray, uses: float = 1.0) -> float:
    """Returns ½ Σ counts·ln(1 + uses·ratios) for ratios of signal to noise variance."""
    with np.errstate(over="ignore"):
        terms = np.log1p(uses * ratios)
    if not np.isfinite(terms).all():
        # A product beyond the range of a float still has a logarithm well within it.
        with np.errstate(divide="ignore"):
            terms = np.where(np.isfinite(terms), terms, math.log(uses) + np.log(ratios))
    return 0.5 * float(np.sum(counts * terms))


def require_variance(trace: float) -> None:
    """Refuses records that are all equal: no noise gives them a positive capacity."""
    if not trace > 0:
        raise ValueError("data has no variance: all records are equal and carry no information")


def in_range(variances: FloatArray, capacity: float) -> FloatArray:
    """Returns the noise variances, or refuses those that floating point cannot hold."""
    if not (np.isfinite(variances).all() and float(variances.min()) >= _TINY):
        raise ValueError(
            f"capacity is out of reach: {capacity:.6g} nats on this data need a noise variance "
            "beyond the range of floating point; choose one closer to the number of features"
        )
    return variances


def calibrated(
    bound: Callable[[float], float], capacity: float, enough: float, short: float, unit: float
) -> float:
    """Returns the least variance (times ``unit``) at which ``bound`` does not exceed the capacity.

    Args:
      bound: A decreasing function of the variance in units of ``unit``, in nats.
      capacity: The capacity in nats.
      enough: A variance at which the bound is at most the capacity.
      short: One at which it is at least the capacity.
      unit: The unit, a variance.
    """
    in_range(np.array([short, enough]), capacity)
    target = capacity * (1 - _MARGIN)
    # ``enough`` is a bound in exact arithmetic; the nudge makes it one in floating point.
    found = last_true(lambda x: bound(x) <= target, enough * (1 + 2 * _MARGIN), short)
    return float(in_range(np.array([found * unit]), capacity)[0])


def isotropic_variance(values: FloatArray, counts: FloatArray, capacity: float) -> float:
    """Returns the σ with ½ Σ ln(1 + λ_i/σ) = capacity, from above."""
    check.positive("capacity", capacity)
    require_variance(float(values.max()))
    unit = float(values.max())
    order = np.argsort(values)[::-1]
    shares = values[order] / unit
    # ln(1+x) ≤ x gives one end; keeping only the m largest terms gives the other, for every m.
    enough = float(np.sum(counts[order] * shares)) / (2 * capacity)
    with np.errstate(over="ignore"):
        short = float(np.max(shares / np.expm1(2 * capacity / np.cumsum(counts[order]))))
    relative, weights = values / unit, counts
    return calibrated(lambda x: information(relative / x, weights), capacity, enough, short, unit)


def equal_ratio(dim: int, capacity: float) -> float:
    """Returns the ratio g of signal to noise with (d/2) ln(1 + g) = capacity, from below."""
    exponent = 2 * check.positive("capacity", capacity) * (1 - _MARGIN) / dim
    with np.errstate(over="ignore"):
        ratio = float(np.expm1(exponent))
    in_range(np.array([1 / ratio]), capacity)
    return ratio


def least_power_variances(values: FloatArray, counts: FloatArray, capacity: float) -> FloatArray:
    """Returns the variances of least total power with ½ Σ ln(1 + λ_i/σ_i) = capacity.

    Stationarity of Σσ_i + m·½Σln(1+λ_i/σ_i) gives σ² + λσ = mλ/2; the problem is convex, so that
    root, with the multiplier m that meets the capacity, is the minimum.
    """
    unit = float(values.max())
    shares = values / unit

    def ratios(multiplier: float) -> FloatArray:
        return np.asarray((shares + np.sqrt(shares**2 + 2 * multiplier * shares)) / multiplier)

    multiplier = met(lambda m: information(ratios(m), counts), capacity)
    return in_range(unit * least_power(shares, multiplier), capacity)


def least_power(values: FloatArray, multiplier: float) -> FloatArray:
    """Returns the positive roots of σ² + λσ = mλ/2."""
    root = np.sqrt(values**2 + 2 * multiplier * values)
    return np.asarray(multiplier * values / (values + root))


def met(nats: Callable[[float], float], capacity: float) -> float:
    """Returns the least multiplier at which decreasing ``nats`` does not exceed the capacity."""
    target = check.positive("capacity", capacity) * (1 - _MARGIN)

    def holds(multiplier: float) -> bool:
        return nats(multiplier) <= target

    enough = short = 1.0
    while not holds(enough):
        enough *= 16.0
        in_range(np.array([enough]), capacity)
    while holds(short):
        short /= 16.0
        in_range(np.array([short]), capacity)
    return last_true(holds, enough, short)


def floored(
    eigenvalues: FloatArray, dim: int, trace: float, complement: float, floor: float
) -> tuple[FloatArray, float]:
    """Returns retained variances and the complement's, none below the floor.

    Args:
      eigenvalues: The retained eigenvalues.
      dim: The number of directions in all.
      trace: The total variance.
      complement: A bound on the variance in each direction that is not retained.
      floor: The floor, as a share of the mean variance ``trace / dim``.
    """
    share = check.positive("floor", floor)
    largest = float(eigenvalues.max(initial=0.0))
    # Never below the rounding error of the eigenvalues themselves.
    least = max(share * trace / dim, 1e-12 * max(largest, complement))
    return np.maximum(eigenvalues, least), max(complement, least)
