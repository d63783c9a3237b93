r"""Modified Bessel functions of the first kind at high order, in log space.

The von Mises-Fisher law on the sphere in ``p`` dimensions needs :math:`I_\nu(\kappa)` at
:math:`\nu = p/2 - 1`, where the function itself underflows (``scipy.special.ive(6849, 75)`` is
0.0). Everything here works with logarithms, and the quantity that accounting needs is formed
directly:

.. math:: \Lambda_p(\kappa) = \log {}_0F_1(;p/2;\kappa^2/4)
          = \log\Gamma(\nu+1) - \nu\log(\kappa/2) + \log I_\nu(\kappa),

the cumulant generating function of one coordinate of a uniform point of the sphere. It is small
(about :math:`\kappa^2/2p` for :math:`\kappa \ll p`) where the three terms on the right are of the
order of ``p log p``, so it is never computed from them at high order.

Domain: order 0 to 5e8, argument 0 to about 1e12; float64 in and out, arrays broadcast.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["bessel_ratio", "log_0f1", "log_0f1_difference", "log_iv"]

Array = npt.NDArray[np.float64]

# Above this order the uniform expansion reaches full precision with the terms below.
_DEBYE_ORDER = 30.0
_DEBYE_TERMS = 15
# Below that order Hankel's expansion does, above this argument (SciPy's code gives up at 2³⁰).
_HANKEL_ARGUMENT = 1e4
_HANKEL_TERMS = 12
# The power series is used while its largest term is at most about e^(2 sqrt(4 * (nu + 1))).
_SERIES_LIMIT = 4.0

# eta(z) = sqrt(1 + z^2) + log(z / (1 + sqrt(1 + z^2))) vanishes at _ETA_ROOT (as a sum of two
# doubles); its Taylor coefficients there, from mpmath at 50 digits.
_ETA_ROOT = (0.6627434193491816, 8.155323790501267e-18)
_ETA_TAYLOR = (
    1.8101705806989772,
    -0.948886416256837,
    1.1001528948506503,
    -1.2953006779860539,
    1.5715455665619724,
    -1.9710295801345066,
    2.5442226725502084,
    -3.3574176889619283,
    4.503639745039154,
    -6.116916154170854,
)


@lru_cache(maxsize=1)
def _debye_polynomials() -> tuple[list[Array], list[Array]]:
    """Coefficients, in t², of u_k(t)/t^k and v_k(t)/t^k (Abramowitz & Stegun 9.3.9, 9.3.13)."""
    half, eighth = Fraction(1, 2), Fraction(1, 8)

    def derivative(poly: list[Fraction]) -> list[Fraction]:
        return [k * c for k, c in enumerate(poly)][1:] or [Fraction(0)]

    def integral(poly: list[Fraction]) -> list[Fraction]:
        return [Fraction(0)] + [c / (k + 1) for k, c in enumerate(poly)]

    def multiply(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
        out = [Fraction(0)] * (len(a) + len(b) - 1)
        for i, x in enumerate(a):
            if x:
                for j, y in enumerate(b):
                    out[i + j] += x * y
        return out

    def add(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
        size = max(len(a), len(b))
        a, b = a + [Fraction(0)] * (size - len(a)), b + [Fraction(0)] * (size - len(b))
        return [x + y for x, y in zip(a, b, strict=True)]

    zero, one = Fraction(0), Fraction(1)
    u = [[one]]
    v = [[one]]
    for _ in range(_DEBYE_TERMS):
        last = u[-1]
        slope = derivative(last)
        u.append(
            add(
                multiply([zero, zero, half, zero, -half], slope),
                integral(multiply([eighth, zero, -5 * eighth], last)),
            )
        )
        v.append(
            add(
                u[-1],
                multiply(
                    [zero, -one, zero, one],
                    add([half * c for c in last], multiply([zero, one], slope)),
                ),
            )
        )

    def in_square(poly: list[Fraction], k: int) -> Array:
        return np.array([float(c) for c in poly[k::2]] or [0.0])

    return (
        [in_square(poly, k) for k, poly in enumerate(u)],
        [in_square(poly, k) for k, poly in enumerate(v)],
    )


def _debye_sum(polynomials: list[Array], order: Array, t: Array) -> Array:
    """Sum over k >= 1 of poly_k(t) / order^k, with no more terms than the lowest order needs."""
    lowest = float(order.min())
    terms = next((k for k in range(3, _DEBYE_TERMS) if lowest**k > 1e17 * math.factorial(k)), 0)
    x, square = t / order, t * t
    total = np.zeros_like(t)
    for poly in reversed(polynomials[1 : (terms or _DEBYE_TERMS) + 1]):
        total += np.polynomial.polynomial.polyval(square, poly)
        total *= x
    return total


def _stirling(order: Array) -> Array:
    """Log Γ(order + 1) less its leading terms, order·log(order) - order + log(2π·order)/2."""
    inverse = 1.0 / order
    coefficients = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]
    out: Array = inverse * np.polynomial.polynomial.polyval(inverse * inverse, coefficients)
    return out


def _log_0f1_series(order: Array, x: Array) -> Array:
    """Power series of log 0F1(; order + 1; x), all terms positive, for x <= limit·(order + 1)."""
    excess = np.zeros_like(x)
    terms = 4 + int(6.5 * _SERIES_LIMIT)
    for k in range(terms, 0, -1):
        excess = x / (k * (order + k)) * (1.0 + excess)
    return np.log1p(excess)


def _log_0f1_debye(order: Array, argument: Array) -> Array:
    z = argument / order
    w = np.hypot(1.0, z)
    rise = z * (z / (1.0 + w))  # w - 1 without cancellation
    main = order * (rise - np.log1p(0.5 * rise)) - 0.5 * np.log(w)
    return main + (_stirling(order) + np.log1p(_debye_sum(_debye_polynomials()[0], order, 1 / w)))


def _log_0f1_low_order(order: Array, argument: Array) -> Array:
    scaled = np.log(_scaled_iv(order, argument))
    out: Array = argument + (scaled + special.gammaln(order + 1.0) - order * np.log(0.5 * argument))
    return out


def _scaled_iv(order: Array, argument: Array) -> Array:
    """e^(-x)·I_ν(x) for orders up to about 31: SciPy's, or Hankel's expansion for large x."""
    out = np.empty_like(argument)
    large = argument > _HANKEL_ARGUMENT
    out[~large] = special.ive(order[~large], argument[~large])
    if large.any():
        nu, x = order[large], argument[large]
        total = np.ones_like(x)
        for k in range(_HANKEL_TERMS, 0, -1):
            total = 1.0 - (4.0 * nu * nu - (2 * k - 1) ** 2) / (8.0 * k * x) * total
        out[large] = total / np.sqrt(2.0 * np.pi * x)
    return out


def _broadcast(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
    x, y = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    return x.ravel(), y.ravel(), x.shape


def log_0f1(dim: npt.ArrayLike, argument: npt.ArrayLike) -> Array:
    """Λ_p(κ) = log E[exp(κ u·y)] for y uniform on the unit sphere in ``dim`` dimensions.

    Relative error about 1e-14, down to arguments where the value itself is 1e-300.

    Args:
      dim: Dimension p >= 2.
      argument: Concentration κ >= 0.

    >>> float(log_0f1(3, 1.0))   # log(sinh(1)/1)
    0.161439...
    """
    p, x, shape = _broadcast(dim, argument)
    order = 0.5 * p - 1.0
    out = np.empty_like(x)
    quarter = 0.25 * x * x
    series = quarter <= _SERIES_LIMIT * (order + 1.0)
    debye = ~series & (order >= _DEBYE_ORDER)
    rest = ~series & ~debye
    if series.any():
        out[series] = _log_0f1_series(order[series], quarter[series])
    if debye.any():
        out[debye] = _log_0f1_debye(order[debye], x[debye])
    if rest.any():
        out[rest] = _log_0f1_low_order(order[rest], x[rest])
    return out.reshape(shape)


def log_0f1_difference(dim: npt.ArrayLike, upper: npt.ArrayLike, lower: npt.ArrayLike) -> Array:
    """Λ_p(upper) - Λ_p(lower), accurate also when the two arguments are close.

    Where they differ by less than a factor 1.5 the difference is the integral of the ratio
    A_p = Λ_p' (Gauss-Legendre), so nothing cancels.
    """
    p, b, shape = _broadcast(dim, upper)
    a = np.broadcast_to(np.asarray(lower, float), shape).ravel()
    out = log_0f1(p, b) - log_0f1(p, a)
    close = np.abs(b - a) <= 0.5 * np.maximum(a, b)
    if close.any():
        nodes, weights = np.polynomial.legendre.leggauss(12)
        half = 0.5 * (b[close] - a[close])
        middle = 0.5 * (b[close] + a[close])
        points = middle[:, None] + half[:, None] * nodes
        ratios = bessel_ratio(0.5 * p[close][:, None] - 1.0, points)
        out[close] = half * (ratios @ weights)
    return out.reshape(shape)


def log_iv(order: npt.ArrayLike, argument: npt.ArrayLike) -> Array:
    """Log I_ν(x) for ν >= 0 and x >= 0, error at most 1e-12·max(1, |log I|).

    >>> round(float(log_iv(6849, 75.0)), 9)
    -28822.413538988
    """
    nu, x, shape = _broadcast(order, argument)
    positive = np.maximum(x, 1e-300)
    factor = nu * np.log(0.5 * positive) - special.gammaln(nu + 1.0)
    out: Array = log_0f1(2.0 * nu + 2.0, x) + factor
    debye = (nu >= _DEBYE_ORDER) & (0.25 * x * x > _SERIES_LIMIT * (nu + 1.0))
    if debye.any():
        out[debye] = _log_iv_debye(nu[debye], x[debye])
    zero = x == 0
    out[zero] = np.where(nu[zero] == 0, 0.0, -np.inf)
    return out.reshape(shape)


def _log_iv_debye(order: Array, argument: Array) -> Array:
    z = argument / order
    w = np.hypot(1.0, z)
    eta = w + np.log(z / (1.0 + w))
    # Next to its zero, eta must keep its relative precision: order·eta may be of order 1 while
    # order is 1e8. The distance to the root is formed exactly (Dekker) and eta is its Taylor sum.
    near = np.abs(z / _ETA_ROOT[0] - 1.0) < 0.02
    if near.any():
        nu, x = order[near], argument[near]
        high = nu * _ETA_ROOT[0]
        offset = ((x - high) - _product_error(nu, _ETA_ROOT[0], high)) - nu * _ETA_ROOT[1]
        step = offset / nu
        eta[near] = step * np.polynomial.polynomial.polyval(step, _ETA_TAYLOR)
    correction = np.log1p(_debye_sum(_debye_polynomials()[0], order, 1 / w))
    out: Array = order * eta - 0.5 * np.log(2 * np.pi * order * w) + correction
    return out


def _product_error(a: Array, b: float, product: Array) -> Array:
    """a·b - product, exactly (Dekker's splitting)."""
    split = 134217729.0
    a_high = split * a - (split * a - a)
    b_high = split * b - (split * b - b)
    a_low, b_low = a - a_high, b - b_high
    error: Array = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return error


def bessel_ratio(order: npt.ArrayLike, argument: npt.ArrayLike) -> Array:
    """I_{ν+1}(x) / I_ν(x), the mean cosine A_p(x) of the law with ν = p/2 - 1; relative 1e-13.

    >>> round(float(bessel_ratio(0.5, 2.0)), 12)   # coth(2) - 1/2
    0.537314720728
    """
    nu, x, shape = _broadcast(order, argument)
    out = np.empty_like(x)
    fraction = x <= nu + 1.0
    debye = ~fraction & (nu >= _DEBYE_ORDER)
    rest = ~fraction & ~debye
    if fraction.any():
        out[fraction] = _ratio_fraction(nu[fraction], x[fraction])
    if debye.any():
        out[debye] = _ratio_debye(nu[debye], x[debye])
    if rest.any():
        out[rest] = _scaled_iv(nu[rest] + 1.0, x[rest]) / _scaled_iv(nu[rest], x[rest])
    return out.reshape(shape)


def _ratio_fraction(order: Array, argument: Array) -> Array:
    """Backward recurrence from a tight bound at a higher order; the error shrinks by A² a step."""
    depth = 20
    top = order + depth
    ratio = argument / (top + 0.5 + np.hypot(top + 1.5, argument))
    for k in range(depth - 1, -1, -1):
        ratio = argument / (2.0 * (order + k + 1.0) + argument * ratio)
    return ratio


def _ratio_debye(order: Array, argument: Array) -> Array:
    z = argument / order
    w = np.hypot(1.0, z)
    u, v = _debye_polynomials()
    value = 1.0 + _debye_sum(u, order, 1 / w)
    slope = 1.0 + _debye_sum(v, order, 1 / w)
    ratio: Array = (w * slope / value - 1.0) / z
    return ratio
