"""Reconstruction robustness: how much better than a blind guess any attacker can do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from recondite import _validate
from recondite.accounting.composition import Composition
from recondite.accounting.distribution import LossDistribution
from recondite.accounting.pld import loss_distributions, tilted_distributions

__all__ = ["reconstruction_bound", "rero", "success_bound"]

Array = npt.NDArray[np.float64]
Curves = tuple[LossDistribution, LossDistribution]
_SMALL = 1e-6  # a prior that the shared curves show to four digits
_ORDERS = 1.0 + np.geomspace(1e-2, 1e4, 40)


def reconstruction_bound(prior: float, remove: LossDistribution, add: LossDistribution) -> float:
    """γ(r): the largest success of any attacker whose best blind guess succeeds with r.

    P is the run with the target's record, Q the run without. Success under P of an event that
    has probability at most r under Q is bounded, for every ε >= 0, by δ_remove(ε) + e^ε·r and by
    1 - e^-ε·(1 - r - δ_add(ε)). Each candidate is sound, so any set of ε is.

    Args:
      prior: r, the success of the best guess without the release.
      remove: The composed loss of P against Q.
      add: The composed loss of Q against P.
    """
    best = 1.0
    for curve, forward in ((remove, True), (add, False)):
        points = _points(curve, prior, forward)
        deltas = curve.delta(points)
        if forward:
            values = deltas + np.exp(points) * prior
        else:
            values = 1.0 - np.exp(-points) * np.maximum(0.0, 1.0 - prior - deltas)
        best = min(best, float(values.min()))
    return max(prior, best)


def success_bound(
    composition: Composition, prior: float, curves: Callable[[], Curves] | None = None
) -> float:
    """γ(r) of a composition, for priors of any size.

    The composed curves have an absolute precision, beside which a tiny prior drowns: below 1e-6
    curves of their own take their place.

    Args:
      composition: What was released.
      prior: r.
      curves: Gives the composed losses, where somebody has them.
    """
    if prior >= _SMALL:
        return reconstruction_bound(prior, *(curves or (lambda: loss_distributions(composition)))())
    # Hölder's inequality: P(E) <= (Q(E)·e^{D_α})^{(α-1)/α}, for every event and every order.
    logs = (np.log(prior) + composition.renyi(_ORDERS)) * (_ORDERS - 1.0) / _ORDERS
    best = float(np.exp(min(0.0, float(np.nanmin(logs)))))
    if best <= prior:
        return prior
    for curve in tilted_distributions(composition, np.geomspace(prior, best, 5).tolist()):
        points = _points(curve, prior, True)
        best = min(best, float((curve.delta(points) + np.exp(points) * prior).min()))
    return max(prior, best)


def _points(curve: LossDistribution, prior: float, forward: bool) -> Array:
    """The bound's minimum lies at a loss of the grid; beyond log(1/r) no candidate is below 1."""
    points = curve.losses[curve.losses >= 0]
    if forward:
        points = points[points <= -np.log(prior)]
    if len(points) > 20_000:
        points = points[:: len(points) // 20_000 + 1]
    return np.append(points, 0.0)


def rero(composition: Composition, prior: float) -> float:
    """The bound for a whole run."""
    rate = _validate.probability("prior", prior)
    if not composition.parts:
        return rate
    return success_bound(composition, rate)
