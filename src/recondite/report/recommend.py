"""The answer: the Pareto front of accuracy against what attacks rebuilt, and a choice on it.

The page computes the same in the browser (``assets/answer.js``); a test holds the two together.
Both read the rounded numbers of the payload, so they cannot differ by a digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Budget", "front", "recommend"]

Candidate = dict[str, Any]


@dataclass(frozen=True)
class Budget:
    """What the reader asks for.

    Attributes:
      kind: ``accuracy`` (at least ``limit``) or ``quality`` (a reconstruction of at most it).
      limit: The number.
      judge: The quantity that stands for what the attacker got; smaller is safer.
      run: Only points of this run; None for all.
      allow_unbounded: Whether defences without a finite bound may be recommended.
    """

    kind: str
    limit: float
    judge: str = "ssim_worst"
    run: int | None = None
    allow_unbounded: bool = False


def eligible(points: Iterable[Candidate], budget: Budget) -> list[Candidate]:
    """Points with both numbers, a finite bound (unless waived) and no violated one (always)."""
    return [
        point
        for point in points
        if (budget.run is None or point["run"] == budget.run)
        and (point["bounded"] or budget.allow_unbounded)
        and not point["violated"]
        and point["v"].get("accuracy") is not None
        and point["v"].get(budget.judge) is not None
    ]


def front(points: Iterable[Candidate], judge: str) -> list[Candidate]:
    """Points that no other beats in both accuracy and what the attacker got, best accuracy first.

    Of points equal in both, the one with the smaller ε stays.
    """
    kept: list[Candidate] = []
    lowest = math.inf
    for point in sorted(points, key=lambda p: _order(p, judge)):
        quality = point["v"][judge][0]
        if quality < lowest:
            kept.append(point)
            lowest = quality
    return kept


def recommend(points: Sequence[Candidate], budget: Budget) -> Candidate | None:
    """The point to use, or None where none meets the budget.

    For a minimum accuracy: the safest point of the front that has it. For a maximum quality of
    reconstruction: the most accurate point of the front that stays within it.
    """
    candidates = front(eligible(points, budget), budget.judge)
    if budget.kind == "accuracy":
        enough = [p for p in candidates if p["v"]["accuracy"][0] >= budget.limit]
        return enough[-1] if enough else None
    safe = [p for p in candidates if p["v"][budget.judge][0] <= budget.limit]
    return safe[0] if safe else None


def _order(point: Candidate, judge: str) -> tuple[float, float, float, int]:
    epsilon = point["v"].get("epsilon")
    size = math.inf if epsilon is None or epsilon[0] == "inf" else epsilon[0]
    return -point["v"]["accuracy"][0], point["v"][judge][0], size, point["id"]
