"""Spectra of covariances, and the error that their entropy leaves to any estimate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate as check

__all__ = ["as_eigenvalues", "error_floor"]

FloatArray = NDArray[np.float64]


def as_eigenvalues(values: ArrayLike, name: str = "eigenvalues") -> FloatArray:
    """Returns ``values`` as non-negative float64 eigenvalues, in the order given.

    A symmetric eigensolver returns small negative numbers for a singular covariance. Those within
    its rounding error (1e-9 of the largest, more for float32 input) become 0.

    Raises:
      ValueError: Where the values are no spectrum of a covariance.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be real numbers, got an array of {given.dtype}")
    spectrum = np.array(given, dtype=np.float64).reshape(-1) if given.ndim <= 1 else None
    if spectrum is None or spectrum.size == 0:
        raise ValueError(f"{name} must be a non-empty list of numbers, got shape {given.shape}")
    if not np.isfinite(spectrum).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    resolution = float(np.finfo(given.dtype).eps) if given.dtype.kind == "f" else 0.0
    tolerance = max(1e-9, 8 * resolution * spectrum.size) * max(float(spectrum.max()), 0.0)
    smallest = float(spectrum.min())
    if smallest < -tolerance:
        raise ValueError(f"{name} are not those of a covariance: {smallest:.6g} is negative")
    return np.maximum(spectrum, 0.0)


def error_floor(entropy: float, dim: int, information: float) -> float:
    """Returns e^{2h/d}/(2πe) · e^{−2I/d}: Theorem 1's least mean squared error per coordinate.

    With the true differential entropy h of the record this bounds the *average* error of every
    estimator. The entropy of real data is not known: with :func:`gaussian_entropy` in its place
    the result is an estimate that overstates the floor, and it says nothing of the worst record.

    Args:
      entropy: The differential entropy h in nats; minus infinity gives a floor of 0.
      dim: The number d of coordinates.
      information: The mutual information I in nats, or an upper bound on it.
    """
    coordinates = check.at_least("dim", dim, 1)
    nats = _extended("information", information)
    if nats < 0:
        raise ValueError(f"information must be 0 or more, got {information!r}")
    h = _extended("entropy", entropy)
    if h == math.inf:
        raise ValueError("entropy must be finite or minus infinity, got inf")
    if h == -math.inf or nats == math.inf:
        return 0.0
    exponent = 2 * (h - nats) / coordinates - math.log(2 * math.pi * math.e)
    if exponent > math.log(np.finfo(np.float64).max):
        raise ValueError(f"entropy is too large for {coordinates} dimensions, got {entropy!r}")
    return math.exp(exponent)


def _extended(name: str, value: Any) -> float:
    """Returns ``value`` as a float that may be infinite but not NaN."""
    if isinstance(value, (float, np.floating)) and math.isinf(value):
        return float(value)
    return check.finite(name, value)
