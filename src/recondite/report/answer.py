"""The answer as the page shows it: budgets to pick, and what is said of each point of a front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recondite.notions import figures
from recondite.report.points import Point
from recondite.report.quantities import JUDGES, axis, bound
from recondite.report.recommend import Budget, eligible, front, recommend
from recondite.report.rows import Run, section
from recondite.report.sentences import Context, lead, promise, use, why_not
from recondite.report.words import figure, percent, score, span

__all__ = ["answer", "contexts", "said", "setting"]

SLACK = 0.05  # accuracy a reader is assumed to give up until they say otherwise


def answer(
    points: Sequence[Point], data: list[dict[str, Any]], runs: Sequence[Run]
) -> dict[str, Any]:
    """Everything the first section needs; ``chosen`` is None where nothing can be recommended."""
    judges = [key for key in JUDGES if any(key in point["v"] for point in data)]
    same = len({setting(run) for run in runs}) == 1
    scopes: list[int | None] = [run.index for run in runs]
    if same or not scopes:
        scopes = [None, *scopes] if len(runs) > 1 else [None]
    budget = Budget("accuracy", 0.0, judges[0] if judges else JUDGES[0], scopes[0])
    limit = _default_limit(data, budget)
    budget = Budget("accuracy", limit, budget.judge, budget.run)
    chosen = recommend(data, budget)
    members = _members(data, judges, scopes)
    return {
        "budget": budget,
        "chosen": chosen["id"] if chosen else None,
        "said": {index: said(points[index], contexts(points, runs)) for index in members},
        "front": [p["id"] for p in front(eligible(data, budget), budget.judge)] if judges else [],
        "none": why_not(points),
        "judges": [{"key": key, "label": axis(key).short} for key in judges],
        "scopes": scopes,
        "accuracy_range": _range(data, "accuracy"),
        "quality_range": {key: _range(data, key) for key in judges},
        "quality_limit": {key: _quality_limit(data, key) for key in judges},
    }  # fmt: skip


def said(point: Point, by_run: dict[int, Context]) -> dict[str, Any]:
    """What the page says of one point: two sentences and its figures."""
    context = by_run[point.run]
    accuracy = point.values.get("accuracy")
    tiles = [
        ("test accuracy", percent(point.mean("accuracy")),
         span(accuracy.low, accuracy.high, share=True) if accuracy else ""),
        ("best copy, SSIM", score(point.mean("ssim_worst")), "1 is a perfect copy"),
        ("membership AUC", figure(point.mean("auc")), "0.5 is guessing"),
        *_bounds(point),
    ]  # fmt: skip
    return {
        "label": point.label,
        "lead": lead(point),
        "use": use(point, context),
        "promise": promise(point, context),
        "tiles": [
            {"name": name, "value": value, "note": note}
            for name, value, note in tiles
            if value != "–"
        ],
    }


def contexts(points: Sequence[Point], runs: Sequence[Run]) -> dict[int, Context]:
    """What each run's sentences refer to."""
    out = {}
    for run in runs:
        of_run = [point for point in points if point.run == run.index]
        out[run.index] = Context(
            undefended=next((point for point in of_run if point.defence == "none"), None),
            attacks=len({attack for point in of_run for attack in point.attacks}),
            models=sum(point.seeds for point in of_run),
        )
    return out


def setting(run: Run) -> tuple[str, str]:
    """Data and model of a run: accuracies compare only where both agree."""
    row = run.rows[0]
    return (
        str(section(row, "data").get("name") or "data"),
        str(section(row, "model").get("name") or "model"),
    )


def _bounds(point: Point) -> list[tuple[str, str, str]]:
    """A tile for each notion that has room in a short table."""
    stated = {"delta": point.delta, "rero": {"prior": point.rero_prior}}
    tiles = []
    for key, (notion, one) in figures().items():
        value = point.notions.get(key)
        if not one.column or value is None:
            continue
        sign = "≤" if notion.direction == "upper" else "≥"
        text = "no bound" if math.isinf(value) else f"{sign} {bound(key, value)}"
        name = one.label.partition(",")[0].partition(" (")[0]
        tiles.append((name, text, notion.remark(stated)))
    return tiles


def _members(
    data: list[dict[str, Any]], judges: Sequence[str], scopes: Sequence[int | None]
) -> list[int]:
    """Every point that any choice of the reader can lead to."""
    found = {
        point["id"]
        for judge in judges
        for scope in scopes
        for allow in (False, True)
        for point in front(eligible(data, Budget("accuracy", 0.0, judge, scope, allow)), judge)
    }
    return sorted(found)


def _default_limit(data: list[dict[str, Any]], budget: Budget) -> float:
    """Within 5 points of the undefended model, or what the best bounded defence reaches."""
    scoped = [p for p in data if budget.run is None or p["run"] == budget.run]
    plain = [p["v"]["accuracy"][0] for p in scoped if p["undefended"] and "accuracy" in p["v"]]
    bounded = [p["v"]["accuracy"][0] for p in eligible(data, budget)]
    limits = [max(bounded)] if bounded else []
    limits += [max(plain) - SLACK] if plain else []
    return max(0.0, math.floor(200 * min(limits)) / 200) if limits else 0.0


def _range(data: list[dict[str, Any]], key: str) -> tuple[float, float]:
    """The slider's ends: all values, on a grid of half a hundredth."""
    values = [p["v"][key][0] for p in data if key in p["v"]]
    if not values:
        return 0.0, 1.0
    return math.floor(200 * min(values)) / 200, math.ceil(200 * max(values)) / 200


def _quality_limit(data: list[dict[str, Any]], key: str) -> float:
    low, high = _range(data, key)
    return round(low + 0.25 * (high - low), 2)
