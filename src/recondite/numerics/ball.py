r"""Bayes' capacity of Gaussian noise on a ball, in log space and O(1) time at any dimension.

For noise of standard deviation s on points of a ball of radius R in p dimensions the integral of
the pointwise supremum of the density splits into the ball itself, V(B_R)/(2πs²)^{p/2}, and the
outside, A(S^{p-1})/(2πs²)^{p/2} ∫₀^∞ (u+R)^{p-1} e^{-u²/2s²} du. The outer integrand is
log-concave, so Gauss-Legendre panels around its mode give it to full precision.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["log_gaussian_ball_capacity"]

Array = npt.NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
# Below this ratio·√p the capacity is 1 + something small, which is what is computed.
_SMALL = 0.1


def log_gaussian_ball_capacity(dim: int, ratio: float) -> float:
    """Log of the Bayes' capacity, with ``ratio`` = radius / standard deviation.

    >>> round(log_gaussian_ball_capacity(1000, 1 / 1.23), 8)
    25.53856922
    """
    # With R = r and s = 1: volume / (2π)^{p/2} = r^p / (2^{p/2} Γ(p/2 + 1)), and the outer part is
    # 2^{1-p/2}/Γ(p/2) ∫ (u+r)^{p-1} e^{-u²/2} du. Both are huge factors times huge integrals; the
    # logs are combined around the mode so that what is added is of the size of the answer.
    n = dim - 1
    inside = dim * math.log(ratio) - 0.5 * dim * math.log(2.0) - float(special.gammaln(dim / 2 + 1))
    if ratio * math.sqrt(dim) < _SMALL:
        return math.log1p(math.exp(inside) + _excess_outside(n, ratio))
    mode = _mode(n, ratio)
    peak = mode + ratio

    def relative(u: Array) -> Array:
        shift = u - mode
        out: Array = -0.5 * shift * (u + mode)
        return out + n * np.log1p(shift / peak) if n else out

    points, weights = _panels(mode, 1.0 / math.sqrt(1.0 + (n / (peak * peak) if n else 0.0)))
    log_integral = math.log(float((weights * np.exp(relative(points))).sum()))
    return float(np.logaddexp(inside, log_integral + _log_peak(dim, ratio, mode)))


def _mode(n: int, ratio: float) -> float:
    """Where (u+r)^n·e^{-u²/2} is largest."""
    return 2.0 * n / (ratio + math.hypot(ratio, 2.0 * math.sqrt(n))) if n else 0.0


def _panels(mode: float, scale: float) -> tuple[Array, Array]:
    edges = np.unique(np.clip(mode + scale * np.arange(-40.0, 41.0, 2.5), 0.0, None))
    half = 0.5 * np.diff(edges)[:, None]
    return 0.5 * (edges[1:] + edges[:-1])[:, None] + half * _NODES, half * _WEIGHTS


def _excess_outside(n: int, ratio: float) -> float:
    """The outer part less 1: E[(1 + r/u)^n - 1] over the chi law of u, precise however small."""
    if n == 0:
        return 0.0
    base = math.sqrt(n)
    u, weights = _panels(base, math.sqrt(0.5))
    height = n * np.log(u / base) - 0.5 * (u - base) * (u + base)
    gain = n * np.log1p(ratio / u)
    density = np.exp(np.maximum(height, -700.0))
    rise = density * np.expm1(np.minimum(gain, 1.0))
    rise = np.where(gain < 1.0, rise, np.exp(np.maximum(height + gain, -700.0)) - density)
    return float((weights * rise).sum() / (weights * density).sum())


def _log_peak(dim: int, ratio: float, mode: float) -> float:
    """Log of 2^{1-p/2}/Γ(p/2)·(m+r)^{p-1}·e^{-m²/2} at the mode m, without large cancellation.

    At r = 0 the mode is √(p-1) and the value is that of the chi density at its mode; the rest is
    the growth from there.
    """
    n = dim - 1
    if n == 0:
        return _log_chi_peak(dim)
    base = math.sqrt(n)
    if ratio > base:
        growth = n * math.log((mode + ratio) / base) - 0.5 * (mode - base) * (mode + base)
    else:
        # mode - base without cancellation; (mode + ratio)·mode = n gives (mode + ratio)/base.
        below = 0.5 * (ratio * ratio / (math.hypot(ratio, 2.0 * base) + 2.0 * base) - ratio)
        growth = -n * math.log1p(below / base) - 0.5 * below * (mode + base)
    return growth + _log_chi_peak(dim)


def _log_chi_peak(dim: int) -> float:
    """Log of 2^{1-p/2}/Γ(p/2)·n^{n/2}·e^{-n/2} with n = p - 1 (n^{n/2} = 1 at n = 0)."""
    n = dim - 1
    if dim < 100:
        power = 0.5 * n * math.log(n) if n else 0.0
        return (1 - 0.5 * dim) * math.log(2.0) - float(special.gammaln(0.5 * dim)) + power - 0.5 * n
    # Stirling for Γ((n+1)/2): log Γ(z + 1/2) = z log z - z + log(2π)/2 - 1/(24z) + 7/(2880z³) - …
    z = 0.5 * n
    series = -1 / (24 * z) + 7 / (2880 * z**3) - 31 / (40320 * z**5)
    return 0.5 * math.log(2.0) - 0.5 * math.log(2 * math.pi) - series
