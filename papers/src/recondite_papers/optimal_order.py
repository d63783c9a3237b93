"""Biswas et al. (2025), below Proposition 4: the equation for the best Rényi order α*.

For a given ε the conversion of one release's Rényi curve to (ε, δ) is best at the order with

    2κ·I_{ν+1}(z)/I_ν(z) + log(1 - 1/α*) = ε,   z = (2α* - 1)·κ,   ν = p/2 - 1.

The equation is right. Its left side is the derivative of log δ_α plus ε, and it rises with α from
-∞ to 2κ: log δ_α is convex, which is more than the convexity of δ_α that the paper states. So there
is one root for every ε below 2κ; from there on δ is 0. It is about one release without sampling.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from recondite import _validate
from recondite.laws import SphereLoss
from recondite.numerics.bessel import bessel_ratio

__all__ = ["converted_delta", "converted_epsilon", "optimal_order"]

_LARGEST = 1e12  # log(1 - 1/α) is 1e-12 from its limit there


def optimal_order(kappa: float, dim: int, epsilon: float) -> float:
    """α* of one VMF release for this ε; infinity where ε is 2κ or more, and δ is 0."""
    _validate.positive("kappa", kappa)
    _validate.positive("epsilon", epsilon)

    def slope(excess: float) -> float:
        """Of log δ_α at α = 1 + excess."""
        ratio = float(bessel_ratio(0.5 * dim - 1.0, (1.0 + 2.0 * excess) * kappa))
        return 2.0 * kappa * ratio + math.log(excess) - math.log1p(excess) - epsilon

    if slope(_LARGEST) <= 0.0:
        return math.inf
    # log(1 - 1/α) alone is below -ε - 2κ at the lower end.
    low = math.exp(-min(epsilon + 2.0 * kappa + 1.0, 700.0))
    found = brentq(lambda log: slope(math.exp(log)), math.log(low), math.log(_LARGEST), xtol=1e-13)
    return 1.0 + math.exp(found)


def converted_delta(kappa: float, dim: int, epsilon: float) -> float:
    """δ of one VMF release at α*, by Proposition 4.

    Guarantee: an upper bound on δ(ε) between any two gradients, without sampling. The tight δ is
    smaller (:func:`recondite.epsilon` inverts it).
    """
    order = optimal_order(kappa, dim, epsilon)
    if math.isinf(order):
        return 0.0
    tau = float(SphereLoss(dim, kappa).renyi([order])[0])
    log = (order - 1.0) * (tau - epsilon) - math.log(order - 1.0)
    return min(1.0, math.exp(min(log + order * math.log1p(-1.0 / order), 0.0)))


def converted_epsilon(kappa: float, dim: int, delta: float) -> tuple[float, float]:
    """ε of one VMF release for this δ, and its α*: the smallest ε whose δ at α* is small enough.

    Guarantee: an upper bound on ε(δ), as :func:`converted_delta`.
    """
    _validate.positive("delta", delta)
    low, high = 0.0, 2.0 * kappa  # at 2κ the δ is 0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        enough = converted_delta(kappa, dim, middle) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high, optimal_order(kappa, dim, high)
