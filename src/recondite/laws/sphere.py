r"""The antipodal von Mises-Fisher pair.

The loss of VMF(u) against VMF(-u) is :math:`2\kappa t` with :math:`t = u\cdot y`, whose density
is proportional to :math:`(1-t^2)^{(p-3)/2} e^{\pm\kappa t}`. With :math:`t = \tanh x` (Mercator's
latitude) it becomes :math:`\mathrm{sech}^{p-1}(x)\, e^{\pm\kappa\tanh x}` on the whole line:
smooth for every :math:`p \ge 2`, unimodal, and no narrower than :math:`1/\sqrt{2(p-1)}` at any
concentration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from recondite import _validate
from recondite.laws.base import Array, LossLaw
from recondite.laws.latent import LatentLoss
from recondite.numerics.bessel import log_0f1, log_0f1_difference

__all__ = ["SphereLoss"]


@dataclass(frozen=True)
class SphereLoss(LatentLoss):
    """VMF(u, κ) against VMF(-u, κ) on the sphere in ``dim`` dimensions.

    Guarantee: this pair dominates VMF(u) against VMF(v) for every u and v, and VMF against the
    uniform law either way (the hockey-stick divergence is nondecreasing in the angle; proof in
    the documentation, "Theory"). Any number of a person's records can turn the average by at
    most a half turn, so the pair is the same for every number of them.
    """

    dim: int
    kappa: float

    def __post_init__(self) -> None:
        if _validate.at_least("dim", self.dim, 2) > 1e300:
            raise ValueError("dim must be 1e300 or less")
        if _validate.positive("kappa", self.kappa) > 1e12:
            raise ValueError(f"kappa must be 1e12 or less, got {self.kappa:g}")

    @property
    def supremum(self) -> float:
        """2κ."""
        return 2.0 * self.kappa

    @property
    def width(self) -> float:
        """The narrowest the law gets at any tilt."""
        return 1.0 / math.sqrt(2.0 * (self.dim - 1))

    def log_q(self, x: Array) -> Array:
        """Log-density of the latitude under VMF(-u)."""
        norm = float(log_0f1(self.dim, self.kappa)) + _log_sech_integral(self.dim)
        return -(self.dim - 1) * _log_cosh(x) - self.kappa * np.tanh(x) - norm

    def loss(self, x: Array, records: int = 1) -> Array:
        """2κ·tanh(x), whatever the number of records (at least one)."""
        del records
        return 2.0 * self.kappa * np.tanh(x)

    def inverse(self, losses: Array) -> Array:
        """The latitude of a loss; losses outside the support are left out."""
        t = losses / (2.0 * self.kappa)
        out: Array = np.arctanh(t[np.abs(t) < 1.0])
        return out

    def span(self, drop: float, order: float, records: int = 1) -> tuple[float, float]:
        """From the lower tail of Q to the upper tail of the law tilted to ``order``."""
        del records
        tilt = (2.0 * max(1.0, order) - 1.0) * self.kappa
        return -_upper_end(self.dim, self.kappa, drop), _upper_end(self.dim, tilt, drop)

    def together(self, records: int) -> SphereLoss:
        """The pair is antipodal already."""
        del records
        return self

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """[Λ((2α-1)κ) - Λ(κ)] / (α-1), Λ the log of 0F1(; p/2; κ²/4)."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        rise = log_0f1_difference(self.dim, (2.0 * alpha - 1.0) * self.kappa, self.kappa)
        out: Array = rise / (alpha - 1.0)
        return out

    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """Only whether any of the person's records takes part matters."""
        return super().mixture((float(weights[0]), math.fsum(weights[1:])))


def _log_cosh(x: Array) -> Array:
    magnitude = np.abs(x)
    near = np.log1p(2.0 * np.sinh(0.5 * np.minimum(magnitude, 1.0)) ** 2)
    far = magnitude + np.log1p(np.exp(-2.0 * magnitude)) - math.log(2.0)
    out: Array = np.where(magnitude < 1.0, near, far)
    return out


def _log_sech_integral(dim: int) -> float:
    """Log of the integral of sech(x)^(dim-1), that is log B(1/2, (dim-1)/2)."""
    z = 0.5 * (dim - 1)
    if z < 50:
        return float(special.betaln(0.5, z))
    r = 1 / z  # whose powers vanish where those of z would overflow
    series = 1 + r / 8 + r**2 / 128 - 5 * r**3 / 1024 - 21 * r**4 / 32768
    return 0.5 * math.log(math.pi / z) + math.log(series)


def _upper_end(dim: int, concentration: float, drop: float) -> float:
    """Where sech^(p-1)·e^(c·tanh) has fallen ``drop`` nats (and a margin) below its maximum."""
    mode = 2.0 * concentration / (dim - 1 + math.hypot(dim - 1, 2.0 * concentration))
    start = math.atanh(min(mode, 1 - 1e-16))

    def height(x: float) -> float:
        if x < 1.0:
            log_cosh = math.log1p(2.0 * math.sinh(0.5 * x) ** 2)
        else:
            log_cosh = x + math.log1p(math.exp(-2.0 * x)) - math.log(2.0)
        return -(dim - 1) * log_cosh + concentration * math.tanh(x)

    # Right of the mode the log-density is concave and falls by 1 nat within a width or so, so
    # the mass beyond the end is below the density there times a few widths: the margin covers it.
    floor = height(start) - drop - 4.0
    low, step = start, 1.0 / math.sqrt(2.0 * (dim - 1))
    while height(low + step) > floor:
        low, step = low + step, 2.0 * step
    high = low + step
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if height(middle) > floor else (low, middle)
    return high
