"""How far a defence moves both attacks: IMP_MIA, IMP_DRA and GDC of Tan et al. (2024).

IMP_MIA = (AUC₀ - AUC) / AUC₀, IMP_DRA = (1/MSE₀ - 1/MSE) / (1/MSE₀) = 1 - MSE₀/MSE, and GDC their
mean, where ₀ is the run without a defence. Here each side is the strongest attack's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from recondite.report.points import Estimate, Point, Values

__all__ = ["with_improvements"]


def with_improvements(points: Sequence[Point]) -> list[Point]:
    """Adds ``imp_mia``, ``imp_dra`` and ``gdc`` where the point's run has an undefended model.

    Intervals come from those of the defended side; the undefended mean is taken as it is.
    """
    baselines: dict[int, Point] = {}
    for point in points:
        if point.undefended:
            baselines.setdefault(point.run, point)
    return [
        replace(point, values={**point.values, **_improvements(point, baselines[point.run])})
        if point.run in baselines
        else point
        for point in points
    ]


def _improvements(point: Point, baseline: Point) -> Values:
    from recondite.metrics import defence  # imports torch

    out: Values = {}
    auc, auc0 = point.values.get("auc"), baseline.values.get("auc")
    if auc and auc0 and auc0.mean > 0:
        out["imp_mia"] = _through(auc, auc0.mean, defence.improvement_membership, (0.0, 1.0))
    mse, mse0 = point.values.get("mse"), baseline.values.get("mse")
    if mse and mse0 and mse.mean > 0:
        out["imp_dra"] = _through(
            mse, mse0.mean, defence.improvement_reconstruction, (0.0, math.inf)
        )
    if "imp_mia" in out and "imp_dra" in out:
        one, other = out["imp_mia"], out["imp_dra"]
        out["gdc"] = Estimate((one.mean + other.mean) / 2, seeds=min(one.seeds, other.seeds))
    return out


def _through(
    found: Estimate,
    base: float,
    improvement: Callable[[float, float], float],
    within: tuple[float, float],
) -> Estimate:
    """Mean and ends through a monotone function; no interval where an end leaves its range."""
    ends = [end for end in (found.low, found.high) if end is not None]
    if len(ends) < 2 or not within[0] < min(ends) <= max(ends) <= within[1]:
        return Estimate(improvement(found.mean, base), seeds=found.seeds)
    low, high = sorted(improvement(end, base) for end in ends)
    return Estimate(improvement(found.mean, base), low, high, found.seeds)
