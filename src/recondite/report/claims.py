"""Claims against attacks: every upper bound beside the strongest lower bound an attack showed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recondite.report.points import Point
from recondite.report.quantities import attack_name, notion_axes
from recondite.report.rows import Row, number, section

__all__ = ["ClaimedBound", "claims"]


@dataclass(frozen=True)
class ClaimedBound:
    """One bound of one point, with the strongest evidence against it.

    An audit may test a smaller release than the run (one step, few dimensions): such evidence has
    a claim of its own and stands apart, as ``own`` says.

    Attributes:
      point: The number of the point.
      notion: Which bound.
      claim: The upper bound that is promised.
      lower: The largest lower bound any attack showed; None where none tests this notion.
      how: By which attack or audit.
      confidence: With which confidence the lower bound holds.
      about: What was tested.
      violated: Whether an attack showed more than was promised.
      own: Whether the claim is the point's bound, not that of a smaller test.
    """

    point: int
    notion: str
    claim: float
    lower: float | None = None
    how: str = ""
    confidence: float | None = None
    about: str = ""
    violated: bool = False
    own: bool = True


def claims(points: Sequence[Point]) -> list[ClaimedBound]:
    """The claims of all points, violated ones first, each with its strongest evidence."""
    found = [claim for point in points for claim in _of_point(point)]
    return sorted(found, key=lambda claim: (not claim.violated, claim.point))


def _of_point(point: Point) -> list[ClaimedBound]:
    best: dict[tuple[str, bool], ClaimedBound] = {
        (quantity.key, True): ClaimedBound(point.index, quantity.key, bound)
        for quantity in notion_axes()
        if (bound := point.notions[quantity.key]) is not None
    }
    for row in point.rows:
        for claim in _of_row(point, row):
            current = best.get((claim.notion, claim.own))
            if current is None or _strength(claim) > _strength(current):
                best[claim.notion, claim.own] = claim
    return list(best.values())


def _strength(claim: ClaimedBound) -> tuple[bool, float]:
    return claim.violated, -math.inf if claim.lower is None else claim.lower


def _of_row(point: Point, row: Row) -> list[ClaimedBound]:
    out = []
    for item in row.get("claims") or []:
        bound, lower = number(item.get("claim")), number(item.get("lower"))
        if bound is None or lower is None:
            continue
        notion = str(item.get("notion") or "epsilon")
        promised = number(section(row, "notions").get(notion))
        out.append(
            ClaimedBound(
                point.index, notion, bound, lower,
                str(item.get("how") or "attack"), number(item.get("confidence")),
                str(item.get("about") or ""),
                # The report does not take the row's word for it.
                bool(item.get("violated")) or lower > bound,
                promised is None or math.isclose(bound, promised, rel_tol=1e-6),
            )
        )  # fmt: skip
    if not any(claim.notion == "epsilon" for claim in out):
        out += _from_membership(point.index, row)
    return out + _from_games(point.index, row)


def _from_games(point: int, row: Row) -> list[ClaimedBound]:
    """Identification games beside the bound of the same game.

    Intervals of rows have 95%: twice their reach has about 99.99%, so that among many games none
    is called a contradiction by chance.
    """
    out = []
    for item in row.get("identification") or []:
        rate, low, bound = (number(item.get(key)) for key in ("rate", "low", "bound"))
        if rate is None or low is None or bound is None:
            continue
        lower = max(0.0, rate - 2.0 * (rate - low))
        promised = number(section(row, "notions").get("rero_bound"))
        own = (
            (row.get("threat"), item.get("participation"), item.get("candidates"))
            == ("training", "secret", 10)
        ) and promised is not None and math.isclose(bound, promised, rel_tol=1e-6)  # fmt: skip
        told = f"{row.get('threat') or 'training'}, participation {item.get('participation')}"
        out.append(
            ClaimedBound(point, "rero_bound", bound, lower, "identification", 0.9999,
                  f"{told}: picked out of {item.get('candidates')}", lower > bound, own)
        )  # fmt: skip
    return out


def _from_membership(point: int, row: Row) -> list[ClaimedBound]:
    """A membership attack's lower bound on ε where the row does not state the claim itself.

    (ε, δ) implies (ε, δ') for δ' ≥ δ, so a lower bound at a δ' of at least δ speaks about ε.
    """
    attack, notions = section(row, "membership"), section(row, "notions")
    lower, bound = number(attack.get("epsilon_lower")), number(notions.get("epsilon"))
    delta, at = number(notions.get("delta")), number(attack.get("epsilon_lower_delta"))
    if lower is None or bound is None or at is None or attack.get("epsilon_lower_holds") is False:
        return []
    if delta is not None and at < delta:
        return []
    how = attack_name(str(row.get("attack") or "membership attack"))
    confidence = number(attack.get("epsilon_lower_confidence"))
    return [ClaimedBound(point, "epsilon", bound, lower, how, confidence, "the run", lower > bound)]
