"""The price of choosing: what the recommendation itself, and a table of all runs, cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from recondite.report.points import Point
from recondite.report.rows import Row, section
from recondite.report.words import at_most, several

__all__ = ["price"]


def price(points: Sequence[Point], compared: Sequence[Point]) -> list[str]:
    """What choosing costs on private records, in sentences.

    Guarantee: each number is an upper bound on ε, under the relation that the accounts state: of
    the best of a secret number of runs by :mod:`recondite.accounting.selection`, of settings that
    are all shown by basic composition (the ε of independent runs add up, and so do their δ). It
    covers the choice by accuracy among ``compared``; the bounds themselves look at no record, so
    choosing by them costs nothing.

    Args:
      points: Every setting that was trained.
      compared: Those whose accuracy was compared: they keep the budgets of the proof.
    """
    public = bool(points) and all(
        section(row, "data").get("public") is True for point in points for row in point.rows
    )
    lines = []
    if public:
        lines.append(
            "The price of this choice is zero here, because the records are public. On private "
            "records it would be what follows."
        )
    searched = [point for point in points if _search(point)]
    for search in {str(found): found for found in map(_search, searched) if found}.values():
        lines.append(_secret(search))
    points = [point for point in points if not _search(point)]
    compared = [point for point in compared if not _search(point)]
    if not points:
        return lines
    models = sum(point.seeds for point in points)
    if compared:
        trained = sum(point.seeds for point in compared)
        total = math.fsum(_epsilon(point) * point.seeds for point in compared)
        delta = math.fsum((point.delta or 0.0) * point.seeds for point in compared)
        paid = (
            f"ε ≤ {at_most(total)} at δ = {at_most(delta, 2)}"
            if math.isfinite(total)
            else "no finite ε"
        )
        settings = several(len(compared), "setting")
        lines.append(
            f"Choosing looked at the accuracy of {settings} within the proof’s budget "
            f"({several(trained, 'trained model')}): {paid}, by adding up, beside the ε of the "
            "model that is trained afresh and released. Bounds look at no record: choosing by "
            "them alone is free. recondite account --selected-from prices a secret number of runs."
        )
    unbounded = sum(point.seeds for point in points if not math.isfinite(_epsilon(point)))
    if unbounded:
        lines.append(
            f"This page shows {several(models, 'trained model')}, {unbounded} of them without a "
            "finite ε: publishing a table of all runs then has no finite ε, whatever is used."
        )
    else:
        total = math.fsum(_epsilon(point) * point.seeds for point in points)
        delta = math.fsum((point.delta or 0.0) * point.seeds for point in points)
        lines.append(
            f"Publishing this table of {several(models, 'trained model')} costs their "
            f"composition: ε ≤ {at_most(total)} at δ = {at_most(delta, 2)}, by adding up."
        )
    return lines


def _search(point: Point) -> Row:
    """What the point's rows say of the search that found it; empty where there was none."""
    return next((found for row in point.rows if (found := section(row, "search"))), {})


def _secret(search: Row) -> str:
    best, one = (float(search.get(key) or math.inf) for key in ("epsilon", "one"))
    mean = float(search.get("mean") or 0)
    drawn = (
        "This is the best of a secret number of runs, drawn before the first by the "
        f"{search.get('rule')} rule with mean {mean:g}, each of a setting "
        f"drawn from {several(int(search.get('settings') or 0), 'setting')}"
    )
    if not math.isfinite(best):
        return f"{drawn}: there is no finite ε, for one of the settings has none."
    delta = at_most(float(search.get("delta") or 1.0), 2)
    return (
        f"{drawn}: its setting, its model and its accuracy together cost ε ≤ {at_most(best)} at "
        f"δ = {delta} (Papernot and Steinke, 2022), however many runs there "
        f"were, where one run of the dearest setting costs {at_most(one)}. That "
        "holds while their number, the other runs and the seed stay secret. It does not cover the "
        "held-out records, by which the best was chosen, nor what attacks measured. A model that "
        "is trained afresh adds its own ε."
    )


def _epsilon(point: Point) -> float:
    value = point.notions.get("epsilon")
    return math.inf if value is None else value
