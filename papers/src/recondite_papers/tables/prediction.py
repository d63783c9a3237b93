"""Which notion predicts reconstruction? Stored settings ranked by each, and by error.

Biswas et al. (2025) claim that Bayes' capacity predicts what an attack rebuilds better than ε does,
across mechanisms. Every setting that was attacked at batch 128 is ranked by each notion here. Two
things must be kept apart: within one mechanism every notion is a monotone function of its one
parameter, so all give the same ranks; and where the attack errs more than a guess that sees
nothing, how its errors are ordered says little about what a release tells. So the settings are
ranked by what the intruder's attackers gain over the blind guess, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

import recondite as rc
from recondite.numerics.ball import log_gaussian_ball_capacity
from recondite_papers.tables.accounting import DELTA, DIM, RATE, STEPS
from recondite_papers.tables.cells import Row, Verdict, find, having
from recondite_papers.tables.compare import TITLE
from recondite_papers.tables.intruder import beaten, marked

__all__ = [
    "CLAIM", "NOTIONS", "AttackedDefence", "beats", "floor", "gained", "lead", "ranks", "settings",
    "table", "verdict",
]  # fmt: skip

Rows = Sequence[Row]
BATCH = 128
CLAIM = "Bayes' capacity predicts reconstruction better than ε across mechanisms."


@dataclass(frozen=True)
class AttackedDefence:
    """A defence that was attacked.

    Attributes:
      defence: "gaussian" or "vmf".
      value: σ or κ.
      error: The attack's mean squared error; for the intruder 1 less its share of the way from the
        blind guess to a copy.
      beats: Whether the attack does better than a guess that sees nothing.
      notions: Every notion's value, by its key.
    """

    defence: str
    value: float
    error: float
    beats: bool
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


def floor(blind: Rows, data: str) -> tuple[float, float]:
    """(MSE, SSIM) of the test set's mean image on the attacked images; never beaten without rows.

    Args:
      blind: Of the job "blind".
      data: The data set.
    """
    row = find(blind, study="compare", data=data, guess="mean image")
    return (0.0, 1.0) if row is None else (row["mse_scaled_placed"], row["ssim_placed"])


def beats(mse: float, ssim: float, least: tuple[float, float]) -> bool:
    """Whether an attack does better than the mean image by either measure."""
    return mse < least[0] or ssim > least[1]


def settings(attacks: Rows, signal: Rows, data: str, blind: Rows = ()) -> list[AttackedDefence]:
    """Every setting that was attacked at batch 128 with noise.

    Args:
      attacks: Of the job "compare-iga".
      signal: Of the job "compare-signal": the length of the gradient that was attacked.
      data: The data set.
      blind: Of the job "blind".
    """
    first, least = find(signal, data=data, steps=0), floor(blind, data)
    if first is None:
        return []
    return [
        AttackedDefence(
            row["defence"],
            row["value"],
            row["mse_scaled_placed"],
            beats(row["mse_scaled_placed"], row["ssim_placed"], least),
            _notions(row["defence"], row["value"], first["length"]),
        )
        for row in attacks
        if row["block"] == f"iga-{BATCH}/{data}" and row["defence"] in ("gaussian", "vmf")
    ]


def gained(intruder: Rows, signal: Rows, data: str) -> list[AttackedDefence]:
    """Every setting of batch 128 by what the strongest attack known gains from one release.

    Its attacker knows the other 127 records: Gaussian noise on the sum then is that on one record.

    Args:
      intruder: Of the job "intruder".
      signal: As above.
      data: The data set.
    """
    first = find(signal, data=data, steps=0)
    if first is None:
        return []
    return [
        AttackedDefence(
            row["defence"],
            row["value"],
            1.0 - row["share"],
            beaten(row),
            _notions(row["defence"], row["value"], first["length"]),
        )
        for row in having(intruder, study="compare", data=data, releases=1)
        if row["defence"] == "gaussian" or row["batch"] == BATCH
    ]


def ranks(found: Sequence[AttackedDefence]) -> dict[str, float]:
    """Spearman's ρ of each notion with the attack's error; values that print alike are ties."""
    errors = [float(f"{one.error:.4g}") for one in found]
    return {
        key: float(spearmanr([float(f"{one.notions[key]:.4g}") for one in found], errors).statistic)
        for key in NOTIONS
    }


def lead(
    found: Sequence[AttackedDefence], first: str = "epsilon", other: str = "capacity_length"
) -> tuple[float, float]:
    """A 95% interval of how much better another notion orders errors: ρ of the first less ρ of it.

    The settings are resampled with replacement; draws in which all are alike are left out.
    """
    columns = [
        np.array([float(f"{value:.4g}") for value in values])
        for values in (
            [one.notions[first] for one in found],
            [one.notions[other] for one in found],
            [one.error for one in found],
        )
    ]
    generator = np.random.default_rng(0)
    gaps = []
    for _ in range(_DRAWS):
        chosen = generator.integers(len(found), size=len(found))
        drawn = [rankdata(column[chosen]) for column in columns]
        if min(float(np.ptp(column)) for column in drawn) > 0:
            one, two = (float(np.corrcoef(column, drawn[2])[0, 1]) for column in drawn[:2])
            gaps.append(one - two)
    low, high = np.quantile(gaps, [0.025, 0.975])
    return float(low), float(high)


_DRAWS = 2_000
_LEAST = 0.01  # of a rank correlation: less is no lead
_PARTS: dict[str, Callable[[AttackedDefence], bool]] = {
    "all": lambda one: True,
    "where it beats the mean image": lambda one: one.beats,
    "VMF alone": lambda one: one.defence == "vmf",
    "Gaussian alone": lambda one: one.defence == "gaussian",
}
_UNDER: dict[str, Callable[[AttackedDefence], bool]] = {
    "all": lambda one: True,
    "where it beats the blind guess": lambda one: one.beats,
    "VMF alone": lambda one: one.defence == "vmf",
    "Gaussian alone": lambda one: one.defence == "gaussian",
}
_FEW = 5  # settings: of fewer a rank correlation says nothing


def table(attacks: Rows, signal: Rows, blind: Rows = (), intruder: Rows = ()) -> str:
    """Spearman's ρ with the attack's error, as a Markdown table; -1 is a perfect prediction."""
    heads, columns = [], []
    for part, chosen in _PARTS.items():
        for data, title in TITLE.items():
            found = [one for one in settings(attacks, signal, data, blind) if chosen(one)]
            if len(found) >= _FEW:
                heads.append(f"{title}, {part} ({len(found)})")
                columns.append(ranks(found))
    for part, chosen in _UNDER.items():
        for data, title in TITLE.items():
            found = [one for one in gained(intruder, signal, data) if chosen(one)]
            if len(found) >= _FEW:
                heads.append(f"{title}, intruder, {part} ({len(found)})")
                columns.append(ranks(found))
    if not columns:
        return "Not run yet.\n"
    lines = [f"| notion | {' | '.join(heads)} |", "| :-- |" + " --: |" * len(heads)]
    for key, name in NOTIONS.items():
        values = " | ".join(f"{column[key]:+.2f}" for column in columns)
        lines.append(f"| {name} | {values} |")
    return "\n".join(lines) + "\n"


def verdict(attacks: Rows, signal: Rows, blind: Rows = (), intruder: Rows = ()) -> list[Verdict]:
    """Whether capacity predicts better than ε; nothing where the rows are missing.

    The paper's attack decides alone only where it beats a guess that sees nothing; with rows of the
    intruder these decide.
    """
    by_data = {title: settings(attacks, signal, data, blind) for data, title in TITLE.items()}
    if not all(len(found) > 2 for found in by_data.values()):
        return []
    whole = [ranks(found) for found in by_data.values()]
    above = [sum(one.beats for one in found) for found in by_data.values()]
    under = [found for found in (gained(intruder, signal, data) for data in TITLE) if found]
    known = [ranks(found) for found in under]

    def said(key: str, values: Sequence[dict[str, float]] = whole) -> str:
        return " and ".join(f"{one[key]:+.2f}" for one in values)

    totals = [len(found) for found in by_data.values()]
    text = (
        f"Spearman's ρ with the MSE of the paper's attack ({' and '.join(by_data)}): ε of the run "
        f"{said('epsilon')}, ε of the attacked release {said('epsilon_once')}, capacity as printed "
        f"{said('capacity_1')}, of what leaks (R = L) {said('capacity_L')}, at the gradient's true "
        f"length {said('capacity_length')}; mutual information within "
        f"{_apart(whole):.3f} of capacity. But that attack beats the mean image, which sees "
        f"nothing, in {' and '.join(f'{n} of {m}' for n, m in zip(above, totals, strict=True))} "
        "settings, so that this mostly ranks failures"
    )
    decided, judged, certain = sum(above) >= sum(totals) / 2, whole, True
    if known:
        text += (
            f". Under the intruder's attackers ({' and '.join(str(len(f)) for f in under)} "
            f"settings; -1 would be perfect): ε of the run {said('epsilon', known)}, of the "
            f"release {said('epsilon_once', known)}, capacity as printed "
            f"{said('capacity_1', known)}, of what leaks {said('capacity_L', known)}, at the true "
            f"length {said('capacity_length', known)}, mutual information there "
            f"{said('information_length', known)}"
        )
        seen = [[one for one in found if one.beats] for found in under]
        sure = [ranks(found) for found in seen if len(found) >= _FEW]
        if sure:
            turned = [sum(one.defence == "vmf" for one in found) for found in seen]
            text += (
                f". Where it beats the blind guess ({' and '.join(str(len(f)) for f in seen)} of "
                f"them, {' and '.join(map(str, turned))} under VMF noise): ε "
                f"{said('epsilon', sure)}, capacity as printed {said('capacity_1', sure)}, of what "
                f"leaks {said('capacity_L', sure)}, at the true length "
                f"{said('capacity_length', sure)}"
            )
            leads = [lead(found) for found in seen if len(found) >= _FEW]
            told = " and ".join(f"{low:+.2f} to {high:+.2f}" for low, high in leads)
            text += f"; ε less the last, 95% over resampled settings: {told}"
            certain = all(low >= _LEAST for low, _ in leads)
        text += marked(intruder)
        decided, judged = True, [*known, *sure]
    text += ". Within one mechanism all notions give the same ranks"
    stands, believe = _judged(judged, decided=decided, certain=certain)
    return [Verdict(CLAIM, stands, text, believe)]


def _judged(judged: Sequence[dict[str, float]], *, decided: bool, certain: bool) -> tuple[str, str]:
    """The verdict, and what to believe now."""
    printed, true = (_leads(judged, radius) for radius in ("1", "length"))
    if not decided:
        return "undecided", "Ranking the errors of a failing attack says little."
    if all(true) and not certain:
        believe = "Perhaps with the gradient's true length; too few settings to be sure."
        return "in part", believe
    if all(printed) and all(true):
        return "stands", "Capacity ranks better, against attackers who know the defence too."
    if all(true):
        return "in part", "Only with the gradient's true length does it rank leaks better."
    if any(printed) or any(true):
        believe = "For some settings only: against attackers who know the defence it varies."
        return "in part", believe
    return "falls", "No: against attackers who know the defence, ε ranks better."


def _leads(judged: Sequence[dict[str, float]], radius: str) -> list[bool]:
    """Whether capacity with this radius orders errors better than ε does, by 0.01 or more."""
    return [one["epsilon"] - one[f"capacity_{radius}"] >= _LEAST for one in judged]


def _apart(found: Sequence[dict[str, float]]) -> float:
    """The largest difference between capacity's ρ and information's, over the radii."""
    return max(
        abs(one[f"capacity_{key}"] - one[f"information_{key}"])
        for one in found
        for key in ("1", "L", "length")
    )
