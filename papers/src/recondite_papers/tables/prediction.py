"""Which notion predicts reconstruction? Stored settings ranked by each, and by error.

Biswas et al. (2025) claim that Bayes' capacity predicts what an attack rebuilds better than ε does,
across mechanisms. Every setting that was attacked at batch 128 is ranked by each notion here. Two
things must be kept apart: within one mechanism every notion is a monotone function of its one
parameter, so all give the same ranks; and a setting under which the attack rebuilds nothing has an
error that only chance ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scipy.stats import spearmanr

import recondite as rc
from recondite.numerics.ball import log_gaussian_ball_capacity
from recondite_papers.tables.accounting import DELTA, DIM, RATE, STEPS
from recondite_papers.tables.cells import Verdict, find
from recondite_papers.tables.compare import TITLE

__all__ = ["CLAIM", "NOTIONS", "SEEN", "AttackedDefence", "ranks", "settings", "table", "verdict"]

Rows = Sequence[dict[str, Any]]
BATCH = 128
SEEN = 0.05  # SSIM in the right place: below, nothing of the images is there
CLAIM = "Bayes' capacity predicts reconstruction better than ε across mechanisms."


@dataclass(frozen=True)
class AttackedDefence:
    """A defence that was attacked.

    Attributes:
      defence: "gaussian" or "vmf".
      value: σ or κ.
      mse: The attack's error.
      ssim: Its similarity.
      notions: Every notion's value, by its key.
    """

    defence: str
    value: float
    mse: float
    ssim: float
    notions: dict[str, float]


NOTIONS = {
    "epsilon": "ε of the run, tight",
    "epsilon_once": "ε of the release that is attacked",
    "capacity_1": "Bayes' capacity as printed (R = 1)",
    "capacity_L": "Bayes' capacity of what leaks (R = L)",
    "capacity_length": "Bayes' capacity at the gradient's true length",
    "information_1": "mutual information, R = 1",
    "information_L": "mutual information, R = L",
    "information_length": "mutual information at the true length",
    "fisher": "Fisher information of the direction, at the true length",
}


@lru_cache(maxsize=256)
def _notions(defence: str, value: float, length: float) -> dict[str, float]:
    mechanism: Any
    mechanism = rc.VonMisesFisher(value, DIM) if defence == "vmf" else rc.Gaussian(value)
    out = {
        "epsilon": rc.epsilon(mechanism, rc.Poisson(RATE, STEPS), DELTA),
        "epsilon_once": rc.epsilon(mechanism, rc.Poisson(1.0, 1), DELTA),
    }
    radii = {"1": 1.0, "L": float(BATCH), "length": BATCH * length}
    if defence == "vmf":
        # A direction has no length: one value whatever the radius.
        capacity = mechanism.log_bayes_capacity()
        information = mechanism.mutual_information()
        out |= {f"capacity_{key}": capacity for key in radii}
        out |= {f"information_{key}": information for key in radii}
        out["fisher"] = mechanism.fisher_information()
    else:
        for key, radius in radii.items():
            out[f"capacity_{key}"] = log_gaussian_ball_capacity(DIM, radius / value)
            out[f"information_{key}"] = 0.5 * DIM * math.log1p((radius / value) ** 2 / DIM)
        out["fisher"] = (BATCH * length / value) ** 2
    return out


def settings(attacks: Rows, signal: Rows, data: str) -> list[AttackedDefence]:
    """Every setting that was attacked at batch 128 with noise.

    Args:
      attacks: Of the job "compare-iga".
      signal: Of the job "compare-signal": the length of the gradient that was attacked.
      data: The data set.
    """
    first = find(signal, data=data, steps=0)
    if first is None:
        return []
    return [
        AttackedDefence(
            row["defence"],
            row["value"],
            row["mse_scaled_placed"],
            row["ssim_placed"],
            _notions(row["defence"], row["value"], first["length"]),
        )
        for row in attacks
        if row["block"] == f"iga-{BATCH}/{data}" and row["defence"] in ("gaussian", "vmf")
    ]


def ranks(found: Sequence[AttackedDefence]) -> dict[str, float]:
    """Spearman's ρ of each notion with the attack's error; values that print alike are ties."""
    errors = [float(f"{one.mse:.4g}") for one in found]
    return {
        key: float(spearmanr([float(f"{one.notions[key]:.4g}") for one in found], errors).statistic)
        for key in NOTIONS
    }


_PARTS: dict[str, Callable[[AttackedDefence], bool]] = {
    "all": lambda one: True,
    "where the attack sees anything": lambda one: one.ssim > SEEN,
    "VMF alone": lambda one: one.defence == "vmf",
    "Gaussian alone": lambda one: one.defence == "gaussian",
}


def table(attacks: Rows, signal: Rows) -> str:
    """Spearman's ρ with the attack's MSE, as a Markdown table; -1 is a perfect prediction."""
    heads, columns = [], []
    for part, chosen in _PARTS.items():
        for data, title in TITLE.items():
            found = [one for one in settings(attacks, signal, data) if chosen(one)]
            if len(found) > 2:
                heads.append(f"{title}, {part} ({len(found)})")
                columns.append(ranks(found))
    if not columns:
        return "Not run yet.\n"
    lines = [f"| notion | {' | '.join(heads)} |", "| :-- |" + " --: |" * len(heads)]
    for key, name in NOTIONS.items():
        values = " | ".join(f"{column[key]:+.2f}" for column in columns)
        lines.append(f"| {name} | {values} |")
    return "\n".join(lines) + "\n"


def verdict(attacks: Rows, signal: Rows) -> list[Verdict]:
    """Whether capacity predicts better than ε; nothing where the rows are missing."""
    by_data = {title: settings(attacks, signal, data) for data, title in TITLE.items()}
    if not all(len(found) > 2 for found in by_data.values()):
        return []
    whole = [ranks(found) for found in by_data.values()]
    seen = [ranks([one for one in found if one.ssim > SEEN]) for found in by_data.values()]

    def said(key: str, values: Sequence[dict[str, float]] = whole) -> str:
        return " and ".join(f"{one[key]:+.2f}" for one in values)

    better = all(
        abs(one["capacity_1"]) > abs(one["epsilon"])
        and abs(one["capacity_length"]) > abs(one["epsilon"])
        for one in whole
    )
    text = (
        f"Spearman's ρ with the attack's MSE ({' and '.join(by_data)}): ε of the run "
        f"{said('epsilon')}, ε of the attacked release {said('epsilon_once')}, capacity as printed "
        f"{said('capacity_1')}, of what leaks (R = L) {said('capacity_L')}, at the gradient's true "
        f"length {said('capacity_length')}; mutual information within "
        f"{_apart(whole):.3f} of capacity. So the radius matters, not "
        f"capacity against information. Where the attack sees anything: ε "
        f"{said('epsilon', seen)}, capacity at the true length "
        f"{said('capacity_length', seen)}. Within one mechanism all notions give the same ranks"
    )
    return [
        Verdict(
            CLAIM,
            "stands" if better else "falls",
            text,
            "True, if its radius is the length of what leaks."
            if better
            else "Not shown by these rows.",
        )
    ]


def _apart(found: Sequence[dict[str, float]]) -> float:
    """The largest difference between capacity's ρ and information's, over the radii."""
    return max(
        abs(one[f"capacity_{key}"] - one[f"information_{key}"])
        for one in found
        for key in ("1", "L", "length")
    )
