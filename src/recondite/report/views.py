"""The tables of the page as plain rows of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from recondite.report.claims import ClaimedBound
from recondite.report.correlation import Predictions
from recondite.report.plain import plain_label
from recondite.report.points import Point, utilities
from recondite.report.quantities import attack_name, axis, bound, notion_axes, notion_of, promises
from recondite.report.rows import StoredRun, own_metrics
from recondite.report.words import at_least, at_most, figure, percent, score, span

__all__ = [
    "audit_rows",
    "claim_rows",
    "failures",
    "finding",
    "measured_heads",
    "plane_rows",
    "result_rows",
    "violations",
]

STRONG = 0.5  # a test that shows this share of a claim would have shown a wrong one
MOST = 400  # rows of a table in the page; the CSV has all


def result_rows(points: Sequence[Point], runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """One line a point with every quantity, in the order of :func:`measured_heads`."""
    heads = measured_heads(points)
    return [
        {
            "id": point.index,
            "label": point.label,
            "plain": plain_label(point),
            "run": runs[point.run].name,
            "seeds": point.seeds,
            "measured": [_measured(point, key) for key, *_ in heads],
            "notions": [
                {"value": bound(q.key, point.notions[q.key]), "why": _why(point, q.key)}
                for q in notion_axes()
            ],
        }
        for point in points[:MOST]
    ]


_IMAGES = (
    ("mse", "MSE", "pixel²"),
    ("ssim", "SSIM, mean", "1 is a copy"),
    ("ssim_worst", "SSIM, worst", "1 is a copy"),
)


def measured_heads(points: Sequence[Point]) -> list[tuple[str, str, str]]:
    """Key, name and unit of every measured column: records that are no images bring their own."""
    own = own_metrics(row for point in points for row in point.rows)
    images = not own or any("mse" in point.values for point in points)
    return [
        *(
            (key, head[:1].upper() + head[1:], unit)
            for key, (head, unit) in utilities(points).items()
        ),
        *(_IMAGES if images else ()),
        *(
            (one.key, one.label[:1].upper() + one.label[1:], one.unit or "1 is a copy")
            for one in own
        ),
        ("auc", "AUC", "0.5 is guessing"),
        ("identification", "Picked of 10", "share"),
        ("gain", "Gain", "share of MSE" if not own else "share of a guess’s error"),
        *((("gdc", "GDC", "1 is best"),) if images else ()),
    ]


def _measured(point: Point, key: str) -> dict[str, str]:
    found = point.values.get(key)
    if found is None:
        return {"value": "–", "span": ""}
    share = key == "accuracy"
    value = percent(found.mean) if share else figure(found.mean)
    if key.startswith("ssim"):
        value = score(found.mean)
    return {"value": value, "span": span(found.low, found.high, share=share)}


def _why(point: Point, key: str) -> str:
    """Why a notion is not defined: the reason may stand under the notion's own key."""
    if point.notions[key] is not None:
        return ""
    return point.reasons.get(key) or point.reasons.get(notion_of(key)) or "not defined"


def violations(
    claims: Iterable[ClaimedBound], points: Sequence[Point], runs: Sequence[StoredRun]
) -> list[dict[str, str]]:
    """The bounds an attack broke, in words, for the top of the page."""
    return [
        {
            "label": points[claim.point].label,
            "run": runs[points[claim.point].run].name,
            "notion": _notion(claim.notion),
            "claim": bound(claim.notion, claim.claim),
            "lower": at_least(claim.lower),
            "how": claim.how,
            "confidence": ", ".join(filter(None, (claim.about, _confidence(claim.confidence)))),
        }
        for claim in claims
        if claim.violated
    ]


def claim_rows(
    claims: Sequence[ClaimedBound], points: Sequence[Point], runs: Sequence[StoredRun]
) -> list[dict[str, Any]]:
    """One line a point: ε with its evidence, then every other bound with its own."""
    by_point: dict[int, dict[str, ClaimedBound]] = {}
    smaller: dict[int, list[ClaimedBound]] = {}
    for claim in claims:
        if claim.own:
            by_point.setdefault(claim.point, {})[claim.notion] = claim
        else:
            by_point.setdefault(claim.point, {})
            smaller.setdefault(claim.point, []).append(claim)
    rows = []
    for index, found in by_point.items():
        epsilon = found.get("epsilon")
        tested = [*found.values(), *(c for c in smaller.get(index, []) if c.violated)]
        rows.append(
            {
                "label": points[index].label,
                "run": runs[points[index].run].name,
                "verdict": _verdict(tested),
                "power": _power(tested),
                "plain": plain_label(points[index]),
                "claim": at_most(epsilon.claim) if epsilon else "–",
                "lower": at_least(epsilon.lower) if epsilon else "–",
                "how": _by(epsilon) if epsilon else "",
                "others": [_other(found.get(notion.key)) for notion in notion_axes()[1:]],
            }
        )
    return rows[:MOST]


def audit_rows(
    claims: Sequence[ClaimedBound], points: Sequence[Point], runs: Sequence[StoredRun]
) -> list[dict[str, str]]:
    """Tests of less than a run, each beside the claim that it tests."""
    return [
        {
            "label": points[claim.point].label,
            "run": runs[points[claim.point].run].name,
            "verdict": _verdict([claim]),
            "power": _power([claim]),
            "plain": plain_label(points[claim.point]),
            "notion": _notion(claim.notion, "short"),
            "claim": bound(claim.notion, claim.claim),
            "lower": at_least(claim.lower),
            "how": _by(claim),
            "about": claim.about or "part of the run",
        }
        for claim in claims
        if not claim.own
    ][:MOST]


def _by(claim: ClaimedBound) -> str:
    return f"{claim.how}, {_confidence(claim.confidence)}".rstrip(", ")


def _other(claim: ClaimedBound | None) -> dict[str, str]:
    if claim is None:
        return {"claim": "–", "lower": "", "how": ""}
    return {
        "claim": bound(claim.notion, claim.claim),
        "lower": "" if claim.lower is None else at_least(claim.lower),
        "how": "" if claim.lower is None else f"{_by(claim)}: {claim.about}",
    }


def _verdict(found: Iterable[ClaimedBound]) -> str:
    """A test that could not have contradicted a claim is no pass: it says nothing."""
    found = list(found)
    if any(claim.violated for claim in found):
        return "contradicted"
    promised = [claim for claim in found if promises(claim.notion, claim.claim)]
    if not promised:
        return "no bound"
    tested = [claim for claim in promised if claim.lower is not None]
    if any((claim.lower or 0.0) >= STRONG * claim.claim for claim in tested):
        return "tested, strong"
    return "tested, too weak to tell" if tested else "not tested"


def _power(found: Iterable[ClaimedBound]) -> str:
    """How much of a claim its strongest test showed: what it could have caught, in words."""
    shares = [
        (claim.lower or 0.0) / claim.claim
        for claim in found
        if claim.lower is not None
        and not claim.violated
        and 0 < claim.claim < math.inf
        and promises(claim.notion, claim.claim)
    ]
    if not shares:
        return ""
    share = math.floor(100 * min(1.0, max(shares)))
    return f"the tests reached {share}% of the promise"


def _notion(key: str, form: str = "label") -> str:
    """A notion in words; one the report does not know by its key."""
    try:
        return str(getattr(axis(key), form))
    except StopIteration:
        return key.replace("_", " ")


def _confidence(value: float | None) -> str:
    return "" if value is None else f"{100 * value:g}% confidence"


def finding(predictions: Sequence[Predictions]) -> str:
    """Which notion orders reconstruction best, in a few sentences, with its uncertainty.

    Only notions that every setting has are ranked: correlations over different settings do not
    compare.
    """
    rebuilt = [row for row in predictions if row.measure in ("mse", "ssim")]
    scored = [row for row in rebuilt if any(cell.rho is not None for cell in row.cells)]
    if not scored:
        return (
            "Too few points to say which notion predicts reconstruction: at least four are needed."
        )
    row = scored[0]
    known = [cell for cell in row.cells if cell.rho is not None]
    whole = [cell for cell in known if cell.points == row.settings]
    subject = f"For {attack_name(row.attack)} (by {axis(row.measure).short}), "
    if not whole:
        return (
            f"{subject}no notion is defined for all {row.settings} settings, so this study does "
            "not rank them: the table has each over the settings that have it."
        )
    cells = sorted(whole, key=lambda c: -(c.rho or 0))
    best = cells[0]
    if len(cells) == 1:
        first = f"only {axis(best.notion).label} is defined for all {row.settings} settings: "
    else:
        first = (
            f"{axis(best.notion).label} orders the defences best of the {len(cells)} notions that "
            f"are defined for all {row.settings} settings: "
        )
    text = f"{subject}{first}ρ = {score(best.rho)} [{score(best.low)}, {score(best.high)}]."
    if len(known) > len(whole):
        text += " Notions that some settings lack are in the table, over fewer settings."
    close = [
        c for c in cells[1:] if c.high is not None and best.low is not None and c.high >= best.low
    ]
    if close:
        others = "the others" if len(close) == len(cells) - 1 else f"{len(close)} of the others"
        text += f" Its interval overlaps with {others}: this study alone does not tell them apart."
    return text


def plane_rows(points: Sequence[Point], runs: Sequence[StoredRun]) -> list[dict[str, str]]:
    """The numbers of the defence-against-defence plane."""
    return [
        {
            "label": point.label,
            "run": runs[point.run].name,
            "imp_dra": figure(point.mean("imp_dra")),
            "imp_mia": figure(point.mean("imp_mia")),
            "gdc": figure(point.mean("gdc")),
            "accuracy": percent(point.mean("accuracy")),
        }
        for point in points
        if point.mean("imp_dra") is not None or point.mean("imp_mia") is not None
    ][:MOST]


def failures(runs: Sequence[StoredRun]) -> list[dict[str, str]]:
    """Cells that failed, with their reasons."""
    return [
        {
            "run": run.name,
            "label": str(row.get("label") or row.get("defence") or "–"),
            "seed": str(row.get("seed", "–")),
            "attack": attack_name(str(row.get("attack") or "none")),
            "reason": str(row.get("reason") or "no reason was recorded"),
        }
        for run in runs
        for row in run.failed
    ]
