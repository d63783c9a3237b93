"""What is said of an intruder and of a defence, in plain sentences. Every bound is rounded up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from recondite.report.evidence import Chance
from recondite.report.ladder import Standing, View
from recondite.report.points import Point, unweighed
from recondite.report.words import at_most, chance, chance_at_most, chance_ends, percent

__all__ = ["cost", "nothing", "proof", "risk", "seen", "title", "who"]

_SEES = {
    "training": "sees the whole training",
    "update": "sees one update that your record is in",
    "model": "has the trained model",
}
_TITLES = {
    "training": "the whole training",
    "update": "one update",
    "model": "the trained model",
}
_ASIDE = " All of this leaves labels aside, which are open: whoever uses them may do better."
_NAMES = 6  # of defences in one sentence


def who(view: View) -> str:
    """What the intruder sees and knows."""
    threat, side = view
    sees = _SEES.get(threat, f"sees the {threat}")
    if threat == "update":  # which is one that the record is in: nothing is left to be told
        return sees
    told = "and knows" if side == "known" else "without being told"
    return f"{sees} {told} in which steps your record took part"


def title(view: View) -> str:
    """The intruder as a choice in a list."""
    threat, side = view
    return f"{_TITLES.get(threat, threat)}, participation {side}"


def risk(view: View, picked: Chance, bound: float | None, *, open_labels: bool = False) -> str:
    """The chance of being picked out, with its proof beside it."""
    limit = "no bound is proven"
    if bound is not None and not _certain(bound):
        limit = f"no such intruder can exceed {chance_at_most(bound)}"
    ends = "–".join(end[:-1] for end in chance_ends(picked.low, picked.high))
    drawn = "" if picked.among == "alike" else f", {picked.among},"
    return (
        f"An intruder who knows everyone else and {who(view)} picks your record out of "
        f"{picked.candidates:,}{drawn} in {chance(picked.rate)} of cases "
        f"({100 * picked.confidence:g}%: {ends}); {limit}; blind: {chance(picked.blind)}."
        f"{_ASIDE if open_labels else ''}"
    )


def cost(point: Point, undefended: Point | None) -> str:
    """The accuracy it keeps, and what that costs."""
    mine = point.mean("accuracy")
    text = f"it keeps {percent(mine)} test accuracy"
    base = None if undefended is None else undefended.mean("accuracy")
    if base is None or mine is None:
        return f"{text}."
    lost = 100 * (base - mine)
    return f"{text}, {lost:.1f} points below the undefended model ({percent(base)})."


def proof(point: Point, standing: Standing) -> str:
    """What nobody can do, whoever they are."""
    parts = []
    if standing.rero is not None and not _certain(standing.rero):
        parts.append(
            f"{'Labels aside, no' if point.open_labels else 'No'} intruder who "
            f"{who(standing.view)} rebuilds your record, or picks it out of 10, "
            f"in more than {chance_at_most(standing.rero)} of cases (a guess: 10%)"
        )
    epsilon = standing.epsilon
    if epsilon is not None and math.isfinite(epsilon):
        delta = "" if point.delta is None else f" at δ = {at_most(point.delta, 2)}"
        relation = f", {point.neighbouring}" if point.neighbouring else ""
        parts.append(f"ε ≤ {at_most(epsilon)}{delta} for {point.protects}{relation}")
    return f"{'; '.join(parts)}." if parts else "Nothing is proven for this intruder."


def seen(standing: Standing) -> str:
    """How far attacks came, the strongest named."""
    best = standing.strongest
    if best is None:
        return "No attack was tried against it."
    if best.beats is None:
        return f"{best.attack} {best.sentence}: whether that beats guessing is not known."
    if not best.beats:
        tried = {finding.attack for finding in standing.findings if finding.beats is False}
        names = ", ".join(sorted(tried))
        return f"No attack tried here ({names}) beat a blind guess: others may."
    return f"The strongest attack here, {best.attack}, {best.sentence}."


def nothing(points: Sequence[Point], standing: Sequence[Standing], view: View) -> str:
    """What is said where no proof keeps the budgets: never that something is safe."""
    defended = [one for one in standing if points[one.point].bounded]
    if defended and (measures := unweighed(points)) is not None:
        return (
            "A recommendation goes by accuracy, which these models do not have: compare "
            f"{' or '.join(measures)} among the results, and what is proven on the ladder."
        )
    if not any(points[one.point].mean("accuracy") is not None for one in defended):
        return "No defence with a bound was trained, so there is nothing to choose."
    held = [one for one in defended if one.rung(0.0) == "resisted"]
    loose = [one for one in defended if one.rung(0.0) == "untested"]
    if held:
        names = _names(points, held)
        return (
            f"No attack that was tried beat a blind guess against {names}; that is no proof, and "
            "stronger attacks may exist."
        )
    if loose:
        return f"Whether an attack beats a guess was not measured for {_names(points, loose)}."
    return f"Some attack beat a blind guess against every defence tried, for whoever {who(view)}."


def _names(points: Sequence[Point], standing: Sequence[Standing]) -> str:
    ranked = sorted(standing, key=lambda one: -(points[one.point].mean("accuracy") or 0.0))
    names = [
        f"{points[one.point].label} ({percent(points[one.point].mean('accuracy'))})"
        for one in ranked
    ]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _certain(bound: float) -> bool:
    """Whether a bound on a chance, as it is printed, promises nothing."""
    return chance_at_most(bound) == "100%"
