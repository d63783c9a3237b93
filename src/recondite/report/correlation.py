"""Which notion predicts what an attacker rebuilds: rank correlations with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recondite.report.points import Point
from recondite.report.quantities import attack_name, axis, notion_axes

__all__ = ["MEASURED", "Correlation", "Predictions", "predictions", "spearman"]

MEASURED = ("mse", "ssim", "auc")
FEWEST = 4  # below this, any order is likely by chance


@dataclass(frozen=True)
class Correlation:
    """Spearman's ρ of a notion with an attack's success, and a 95% bootstrap interval.

    Oriented so that +1 means: the less a bound promises, the more the attacker got, without
    exception.
    """

    notion: str
    rho: float | None
    low: float | None
    high: float | None
    points: int


@dataclass(frozen=True)
class Predictions:
    """The correlations of every notion with one measure of one attack.

    Attributes:
      attack: The attack.
      measure: What it was measured by.
      cells: One for each notion.
      settings: How many points have the measure; a notion may be undefined for some of them.
    """

    attack: str
    measure: str
    cells: tuple[Correlation, ...]
    settings: int

    @property
    def name(self) -> str:
        """The attack and its measure in words."""
        return f"{attack_name(self.attack)}, {axis(self.measure).short}"


def predictions(points: Sequence[Point]) -> list[Predictions]:
    """One row for each attack and measure that at least one point has.

    Points whose notion is not defined are left out of its cell; infinite bounds rank last, and
    values that agree in the three digits that are printed are ties.
    """
    pairs = {
        (attack, measure): None
        for measure in MEASURED
        for point in points
        for attack, values in point.attacks.items()
        if measure in values
    }
    return [
        Predictions(
            attack, measure,
            tuple(_cell(points, attack, measure, notion.key) for notion in notion_axes()),
            sum(measure in point.attacks.get(attack, ()) for point in points),
        )
        for attack, measure in pairs
    ]  # fmt: skip


def _cell(points: Sequence[Point], attack: str, measure: str, notion: str) -> Correlation:
    # Values that print alike are ties: an order in the tenth digit is none.
    pairs = [
        (
            axis(notion).success * _printed(bound),
            axis(measure).success * _printed(point.attacks[attack][measure].mean),
        )
        for point in points
        if attack in point.attacks
        and measure in point.attacks[attack]
        and (bound := point.notions[notion]) is not None
    ]
    if len(pairs) < FEWEST:
        return Correlation(notion, None, None, None, len(pairs))
    x, y = np.array(pairs).T
    rho = spearman(x[None], y[None])[0]
    if np.isnan(rho):
        return Correlation(notion, None, None, None, len(pairs))
    low, high = _bootstrap(x, y)
    return Correlation(notion, float(rho), low, high, len(pairs))


def _printed(value: float) -> float:
    return float(f"{value:.3g}")


def spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's ρ along the last axis, ties by their mean rank; NaN where one side is constant."""
    from scipy.stats import rankdata  # slow to import

    a, b = (rankdata(side, axis=-1) for side in (x, y))
    a = a - a.mean(-1, keepdims=True)
    b = b - b.mean(-1, keepdims=True)
    norm = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        rho: NDArray[np.float64] = np.where(norm > 0, (a * b).sum(-1) / norm, np.nan)
    return rho


def _bootstrap(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Percentiles over resampled points; fewer resamples where there are very many points."""
    count = len(x)
    resamples = int(np.clip(1_000_000 // count, 100, 1000))
    picks = np.random.default_rng(0).integers(count, size=(resamples, count))
    rhos = spearman(x[picks], y[picks])
    rhos = rhos[~np.isnan(rhos)]
    low, high = np.quantile(rhos, [0.025, 0.975]) if len(rhos) else (np.nan, np.nan)
    return float(low), float(high)
