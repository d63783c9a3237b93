"""Errors below which no attacker, or no attacker under stated conditions, can go on average.

Two floors under the mean squared error of any reconstruction, biased or not:

* from reconstruction robustness and a packing: a bound, for the packing's prior;
* van Trees' Bayesian Cramér–Rao inequality: a bound for a smooth prior and a regular release, an
  estimate wherever regularity is not shown (the gradients of networks with ReLU jump).

The inequality of Hammersley, Chapman and Robbins speaks of unbiased attackers only and may exceed
what a blind guess errs: it is no floor here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate

__all__ = ["Packing", "packing_floor", "packings", "van_trees"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Packing:
    """Records that lie apart.

    Attributes:
      records: Positions of them.
      radius: Half of the least distance between two of them.
    """

    records: tuple[int, ...]
    radius: float


def packings(records: ArrayLike, sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64)) -> list[Packing]:
    """Packings of some sizes, each as far apart as choosing the farthest record next makes them.

    Args:
      records: (n, …), two or more.
      sizes: How many records a packing has; sizes above n are left out.

    Example:
      >>> [round(one.radius, 2) for one in packings([[0.0], [1.0], [4.0], [9.0]], (2, 3))]
      [4.5, 2.0]
    """
    points = np.asarray(records, dtype=np.float64)
    points = points.reshape(len(points), -1)
    if len(points) < 2:
        raise ValueError(f"records must be two or more, got {len(points)}")
    first = int(np.square(points - points.mean(0)).sum(1).argmax())
    chosen, radii = [first], [np.inf]
    nearest = np.square(points - points[first]).sum(1)
    for _ in range(min(max(sizes), len(points)) - 1):
        added = int(nearest.argmax())
        radii.append(0.5 * float(np.sqrt(nearest[added])))
        chosen.append(added)
        nearest = np.minimum(nearest, np.square(points - points[added]).sum(1))
    return [
        Packing(tuple(chosen[:size]), radii[size - 1])
        for size in sizes
        if 2 <= size <= len(chosen) and radii[size - 1] > 0
    ]


def packing_floor(packing: Packing, success: Callable[[float], float], dimension: int) -> float:
    """Least mean squared error a feature of any attacker, for the packing's uniform prior.

    Guarantee: E‖x̂ − x‖² ≥ ρ²·(1 − γ(1/M)) for x uniform on M records at least 2ρ apart, whatever
    the attacker computes: an answer nearer than ρ names its record, and no attacker names it more
    often than γ(1/M), the reconstruction bound at the blind success 1/M. The neighbouring relation
    is that of γ. Knowledge that tells the records of the packing apart by other means (a label
    that differs) is not covered.

    Args:
      packing: The records.
      success: γ, an upper bound on the success where a guess unaided has the given one.
      dimension: Features of a record.

    Example:
      >>> packing_floor(Packing((0, 1), 2.0), lambda prior: prior, 4)
      0.5
    """
    _validate.at_least("dimension", dimension, 1)
    named = min(1.0, max(0.0, success(1.0 / len(packing.records))))
    return packing.radius**2 * (1.0 - named) / dimension


def van_trees(information: ArrayLike, prior: ArrayLike, power: ArrayLike | None = None) -> float:
    """Van Trees' floor tr((E I + J)⁻¹ diag(power)) under the mean squared error.

    A bound where the release's law is regular and the prior's density smooth, vanishing at the edge
    of its support; an estimate otherwise. Average over the prior, not worst case.

    Args:
      information: Fisher information of the releases, averaged over the prior, (d, d).
      prior: The prior's own information: for a Gaussian the inverse covariance, (d, d).
      power: What a squared coordinate counts; 1 for each by default.

    Example:
      >>> van_trees([[3.0]], [[1.0]])
      0.25
    """
    released, believed = (np.asarray(one, dtype=np.float64) for one in (information, prior))
    if released.ndim != 2 or released.shape != believed.shape or len(released) != released.shape[1]:
        raise ValueError(
            f"information and prior must be square and alike, got {released.shape} and "
            f"{believed.shape}"
        )
    inverse = np.linalg.inv(released + believed)
    weights = np.ones(len(inverse)) if power is None else np.asarray(power, dtype=np.float64)
    return float(inverse.diagonal() @ weights)
