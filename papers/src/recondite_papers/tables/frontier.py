"""The frontier from its rows: accuracy at equal proven and at equal measured risk.

Accuracy at a level of risk is found in each seed by itself, by interpolation between neighbouring
strengths and never beyond the outermost; intervals are Student's, 95%, over seeds. Differences are
paired: runs of one seed share their batches and victims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from recondite_papers.frontier.defences import DEFENCES, NAMES
from recondite_papers.tables.cells import Cell, Row, mean, spread

__all__ = ["LEVELS", "MODELS", "Curve", "Held", "cells", "curves", "held", "versus"]

Rows = Sequence[Row]
MODELS = {"head": "linear head", "net": "convolutional net"}
REFERENCE = "gaussian"
# Name of the measure: the level, and how a table says it.
LEVELS: dict[str, tuple[float, str]] = {
    "epsilon": (8.0, "ε = 8"),
    "proven": (0.5, "bound 0.5"),
    "secret": (0.3, "picked 0.3, secret"),
    "known": (0.5, "picked 0.5, known"),
    "gain": (0.05, "gain 0.05"),
}


@dataclass(frozen=True)
class Strength:
    """One strength of a defence.

    Attributes:
      value: σ, κ or nats.
      proven: "epsilon" and "proven", the bound on being picked out of ten; None where none is.
      seeds: By seed, "accuracy", "secret", "known" and "gain"; accuracies in per cent.
      rate: Learning rate.
      edge: Whether a rate beyond those tried might be better.
    """

    value: float
    proven: dict[str, float | None]
    seeds: dict[int, dict[str, float]]
    rate: float
    edge: bool

    def mean(self, key: str) -> float | None:
        """Over seeds, of a measured number or a proven one."""
        if key in self.proven:
            return self.proven[key]
        found = [one[key] for one in self.seeds.values() if key in one]
        return mean(found) if found else None


@dataclass(frozen=True)
class Curve:
    """A defence's strengths on one data set and model, from strong noise to weak."""

    data: str
    model: str
    defence: str
    points: tuple[Strength, ...]

    @property
    def name(self) -> str:
        """As a reader knows it."""
        return NAMES[self.defence]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds that all strengths were run with."""
        return tuple(sorted(set.intersection(*(set(p.seeds) for p in self.points))))

    def between(self) -> tuple[Strength, ...]:
        """Points that may be interpolated: per-record noise's lone small κ is far from all."""
        return self.points[1:] if self.defence == "directional" else self.points


@dataclass(frozen=True)
class Held:
    """Accuracies of the seeds at a level of risk, or differences of them."""

    defence: str
    each: tuple[float, ...]

    @property
    def value(self) -> float:
        """Mean over seeds."""
        return mean(self.each)

    @property
    def reach(self) -> float:
        """Half of the 95% interval; infinite with one seed."""
        if len(self.each) < 2:
            return math.inf
        wide = float(student.ppf(0.975, len(self.each) - 1))
        return wide * (spread(self.each) or 0.0) / math.sqrt(len(self.each))

    @property
    def sure(self) -> int:
        """1 or -1 where the interval leaves out 0, else 0."""
        if abs(self.value) <= self.reach:
            return 0
        return 1 if self.value > 0 else -1

    def text(self, sign: str = "") -> str:
        """With its interval, as tables have it."""
        said = f"{self.value:{sign}.1f}"
        return said if math.isinf(self.reach) else f"{said} ± {self.reach:.1f}"


def curves(rows: Rows, accounts: Rows) -> list[Curve]:
    """Of every data set, model and defence, in the order of the rows."""
    proven = {_key(row): row for row in accounts}
    rates = {_key(row): row for row in rows if row["kind"] == "rate"}
    runs: dict[tuple[str, str, str], dict[float, list[Row]]] = {}
    for row in rows:
        if row["kind"] == "run":
            place = row["data"], row["model"], row["defence"]
            runs.setdefault(place, {}).setdefault(row["value"], []).append(row)
    known = list(NAMES)
    out = []
    for (data, model, defence), by_value in runs.items():
        points = []
        for value, found in by_value.items():
            key = data, model, defence, value
            account = proven.get(key, {})
            bound = account.get("secret", {}).get("10")
            points.append(
                Strength(
                    value,
                    {"epsilon": account.get("epsilon"), "proven": bound},
                    {row["seed"]: _measured(row) for row in found},
                    rates[key]["rate"],
                    rates[key]["edge"],
                )
            )
        falls = next((d.noise == "gaussian" for d in DEFENCES if d.name == defence), False)
        points.sort(key=lambda p: -p.value if falls else p.value)
        out.append(Curve(data, model, defence, tuple(points)))
    return sorted(out, key=lambda c: (-len(c.data), c.model, known.index(c.defence)))


def _key(row: Row) -> tuple[str, str, str, float]:
    return row["data"], row["model"], row["defence"], row["value"]


def _measured(row: Row) -> dict[str, float]:
    out = {"accuracy": 100.0 * row["accuracy"]}
    for side in ("secret", "known"):
        if "10" in row.get(side, {}).get("identified", {}):
            out[side] = row[side]["identified"]["10"]
    if "gain" in row.get("known", {}):
        out["gain"] = row["known"]["gain"]
    return out


def held(curve: Curve, measure: str, level: float) -> Held | None:
    """Accuracy at a level of risk, seed by seed; None where one of them does not span it."""
    each = []
    for seed in curve.seeds:
        found = _crossing(curve, measure, level, seed)
        if found is None:
            return None
        each.append(found)
    return Held(curve.defence, tuple(each)) if each else None


def _crossing(curve: Curve, measure: str, level: float, seed: int) -> float | None:
    scale: Callable[[float], float] = math.log if measure == "epsilon" else float
    before: tuple[float, float] | None = None
    for point in curve.between():
        risk = point.proven.get(measure, point.seeds[seed].get(measure))
        if risk is None:
            continue
        # Less noise is no less risk: what a few games make of it is held to that.
        x = scale(risk) if before is None else max(before[0], scale(risk))
        y = point.seeds[seed]["accuracy"]
        if x >= scale(level):
            if before is None:
                return None
            share = 1.0 if x == before[0] else (scale(level) - before[0]) / (x - before[0])
            return before[1] + share * (y - before[1])
        before = x, y
    return None


def versus(curve: Curve, other: Curve, measure: str, level: float) -> Held | None:
    """The curve's accuracy less the other's at equal risk, over the seeds that both have."""
    both = sorted(set(curve.seeds) & set(other.seeds))
    each = []
    for seed in both:
        one, two = (_crossing(c, measure, level, seed) for c in (curve, other))
        if one is None or two is None:
            return None
        each.append(one - two)
    return Held(curve.defence, tuple(each)) if each else None


def cells(rows: Rows, accounts: Rows) -> list[Cell]:
    """Every strength's accuracy, with what was proven and measured of it."""
    out = []
    for curve in curves(rows, accounts):
        for point in curve.points:
            each = [100.0 * 0.01 * one["accuracy"] for one in point.seeds.values()]
            said = []
            for key, word in (
                ("epsilon", "ε"), ("proven", "bound"), ("secret", "picked, secret"),
                ("known", "picked, known"), ("gain", "gain"),
            ):  # fmt: skip
                found = point.mean(key)
                if found is not None:
                    said.append(f"{word} {found:.3g}")
            name = f"{curve.data}, {MODELS[curve.model]}, {curve.name}"
            if curve.defence != "none":
                name += f", {point.value:g}"
            out.append(Cell(name, None, mean(each), spread(each), "accuracy", "; ".join(said)))
    return out
