"""The numbers the page works with: small, rounded once, the same in Python and in the browser."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any

from recondite.notions.bounds import Direction, round_bound
from recondite.report.plain import means_of, plain_label, plain_name
from recondite.report.points import Estimate, Point
from recondite.report.quantities import axes, defence_name, notion_axes
from recondite.report.rows import StoredRun

__all__ = ["available", "embed", "payload_points", "series_of"]

DIGITS = 6


def payload_points(
    points: Sequence[Point], violated: Collection[int], series: dict[tuple[int, str], int]
) -> list[dict[str, Any]]:
    """Points as plain data: ``v`` maps a quantity to [mean, low, high], [bound] or ["inf"]."""
    return [
        {
            "id": point.index,
            "run": point.run,
            "series": series[point.run, point.defence],
            "label": point.label,
            "plain": plain_label(point),
            "violated": point.index in violated,
            "seeds": point.seeds,
            "v": _values(point),
        }
        for point in points
    ]


def series_of(
    points: Sequence[Point], runs: Sequence[StoredRun]
) -> tuple[dict[tuple[int, str], int], list[dict[str, Any]]]:
    """One series for each defence of each run: colour and shape by defence, fill by run."""
    defences = list(dict.fromkeys(point.defence for point in points))
    index: dict[tuple[int, str], int] = {}
    series: list[dict[str, Any]] = []
    means = means_of(points)
    for point in points:
        key = (point.run, point.defence)
        if key in index:
            continue
        index[key] = len(series)
        name, plain = defence_name(point.defence), plain_name(point.defence, point.label)
        place = defences.index(point.defence)
        series.append(
            {
                "name": name if len(runs) == 1 else f"{name} · {runs[point.run].name}",
                "plain": plain if len(runs) == 1 else f"{plain} · {runs[point.run].name}",
                "hue": place % 8,
                "shape": place % 10,
                "run": point.run,
                "means": means[point.defence],
            }
        )
    return index, series


def available(points: Sequence[dict[str, Any]]) -> list[str]:
    """The quantities that at least one point has, in the order of the axes."""
    found = {key for point in points for key in point["v"]}
    return [quantity.key for quantity in axes() if quantity.key in found]


def embed(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _values(point: Point) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for notion in notion_axes():
        bound = point.notions[notion.key]
        if bound is not None:
            side: Direction = "upper" if notion.success > 0 else "lower"
            out[notion.key] = [round_bound(bound, DIGITS, side) if math.isfinite(bound) else "inf"]
    for quantity in axes():
        found = point.values.get(quantity.key)
        if found is not None and math.isfinite(found.mean):
            out[quantity.key] = _interval(found)
    return out


def _interval(found: Estimate) -> list[float]:
    ends = [] if found.low is None or found.high is None else [found.low, found.high]
    return [_nearest(value) for value in (found.mean, *ends)]


def _nearest(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
