"""Rényi differential privacy: conversion to (ε, δ) and the best order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from recondite.accounting.composition import Composition

__all__ = ["epsilon_from_renyi", "rdp_epsilon"]

Array = npt.NDArray[np.float64]

_COARSE = 1.0 + np.geomspace(1e-5, 1e6, 56)


def epsilon_from_renyi(orders: npt.ArrayLike, renyi: npt.ArrayLike, delta: float) -> Array:
    """ε(δ) implied by D_α <= renyi at each order (Canonne, Kamath and Steinke, 2020, Prop. 12)."""
    alpha, tau = np.asarray(orders, float), np.asarray(renyi, float)
    out: Array = tau + np.log1p(-1.0 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1.0)
    return np.maximum(out, 0.0)


def rdp_epsilon(composition: Composition, delta: float) -> tuple[float, float]:
    """The smallest ε that the run's Rényi curve gives at δ, and the order that gives it.

    Guarantee: an upper bound on ε(δ); the order is optimised over the reals, not a grid.
    """
    if not composition.parts:
        return 0.0, math.inf
    orders = _COARSE
    values = epsilon_from_renyi(orders, composition.renyi(orders), delta)
    best = int(np.nanargmin(values))
    for _ in range(3):
        low, high = orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)]
        if not math.isfinite(values[best]) or high - low <= 1e-7 * high:
            break
        orders = 1.0 + np.geomspace(low - 1.0, high - 1.0, 17)
        values = epsilon_from_renyi(orders, composition.renyi(orders), delta)
        best = int(np.nanargmin(values))
    return float(values[best]), float(orders[best])
