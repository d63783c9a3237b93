"""What is said to whoever does not know the field: no symbol, no unit, every bound rounded up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recondite.defences import Defence, defences
from recondite.report.ladder import VACUOUS, Standing, View
from recondite.report.points import Point
from recondite.report.words import in_ten, in_ten_at_most, in_ten_span

__all__ = [
    "TERMS",
    "VACUOUS",
    "Plain",
    "explained",
    "fewer",
    "limit_of",
    "means_of",
    "plain_label",
    "plain_name",
    "plain_of",
    "rebuilt_by",
    "scope_plainly",
    "who_plainly",
]


# One line each, for hover and focus. The page shows no word of the field without one.
TERMS = {
    "defence": "A change to how the model is trained that hides single people’s records.",
    "intruder": "Somebody who wants your record back and has what is named here to work with.",
    "took part": "Whether the intruder knows when in the training your record was used.",
    "cost": "How much less often the model is right than one trained without a defence.",
    "proven": "A mathematical limit: nobody does better, whatever method they use.",
    "resisted": "The attacks tried here did no better than guessing; others may.",
    "untested": "No limit that means anything, and no attack with a guess to compare it with.",
    "broken": "Some attack did better than guessing, or showed more than the limit allows.",
    "tests": "What the attacks did that were tried for this page; others may do more.",
    "guess": "The best guess of somebody who knows such records, but saw nothing of this one.",
    "not covered": "What these numbers do not protect against.",
    "model": "The kind of model that was trained on the records.",
    "records": "The collection of people’s records that the model learnt from.",
    "simulation": "Whoever knows the seed’s number can repeat this noise and take it away again.",
    "epsilon": "The most that one record can change what is seen; above 10 it says little.",
    "contradicted": "A test showed more than was promised: the promise is wrong.",
    "tested, strong": "A test came within half of the promise, so it would have shown a wrong one.",
    "tested, too weak to tell": "The tests were far too weak to show a wrong promise: no evidence.",
}  # fmt: skip

_SEES = {
    "training": "watches the whole training",
    "update": "sees one message that your record went into",
    "model": "has the finished model",
}


@dataclass(frozen=True)
class Plain:
    """What is said of one defence to one intruder's victim.

    Attributes:
      sentence: What it comes to, in one sentence.
      cost: What it costs.
      chance: How often a record is picked out of ten: seen, guessed, and never exceeded.
      tests: How sure that is.
      proven: What nobody can do.
      uncovered: What is not covered, first of all.
    """

    sentence: str
    cost: str
    chance: str
    tests: str
    proven: str
    uncovered: str


def plain_name(defence: str, label: str = "") -> str:
    """A kind of defence; one that is not installed here by its label, without its setting."""
    known = defences(unproven=True).get(defence)
    if known is None:
        return label.split("=", maxsplit=1)[0].strip() or "Another defence"
    name = known.title[:1].upper() + known.title[1:]
    return f"{name} noise" if known.private and "noise" not in name else name


def plain_label(point: Point) -> str:
    """A defence at its strength, without a symbol."""
    name = plain_name(point.defence, point.label)
    return name if point.value is None else f"{name} set to {point.value:,g}"


def explained(point: Point) -> str:
    """What a defence does and what its number means: its own words, or those of where it acts."""
    known = defences(unproven=True).get(point.defence)
    if known is None:
        return "A defence of another package."
    does = known.explanation or _acts(known)
    if known.parameter is None:
        return does
    return f"{does} A larger number is {'less' if known.weaker == 'larger' else 'more'} noise."


def _acts(known: Defence) -> str:
    if not known.private:
        return "It promises nothing: it is here to be compared with."
    if known.stage == "data":
        return "Random noise is put on every record before the training sees it."
    return "Random noise is put on every step of the training, so single records drown in it."


def means_of(points: Sequence[Point]) -> dict[str, str]:
    """Where the page explains each kind of defence: the id of the element that does."""
    kinds = dict.fromkeys(point.defence for point in points)
    return {defence: f"means-{place}" for place, defence in enumerate(kinds)}


def rebuilt_by(standing: Standing | None) -> str:
    """How far the attacks here came at rebuilding, in a few words."""
    if standing is None or not standing.findings:
        return "nobody attacked it here"
    if any(finding.legible for finding in standing.findings):
        return "the attacks here rebuilt records that anybody recognises"
    beats = [finding.beats for finding in standing.findings]
    if any(beats):
        return "no attack here rebuilt a record that anybody recognises, yet some beat guessing"
    if any(beat is False for beat in beats):
        return "no attack tried here did better than guessing"
    return "whether the attacks here beat a guess was not measured"


def plain_of(
    point: Point, standing: Standing, base: Point | None, bare: Standing | None,
    known: Standing | None,
) -> Plain:  # fmt: skip
    """What is said of a defence.

    Args:
      point: The defence.
      standing: Where it stands against this intruder.
      base: The undefended model of the same run.
      bare: Where that stands.
      known: Where the defence stands if the intruder knows who took part when; None where this
        intruder does.
    """
    without = "" if bare is None else f"Without a defence, {rebuilt_by(bare)}; with "
    start = without or "With "
    return Plain(
        sentence=f"{start}{plain_label(point)}, {rebuilt_by(standing)}.",
        cost=_cost(point, base),
        chance=_chance(standing),
        tests=_tests(standing),
        proven=_proven(standing, known, open_labels=point.open_labels),
        uncovered=_uncovered(standing, known),
    )


def _cost(point: Point, base: Point | None) -> str:
    mine, plain = point.mean("accuracy"), None if base is None else base.mean("accuracy")
    if mine is None:
        return "How often the model is right was not measured."
    seen = point.values["accuracy"]
    text = f"The model is right {_in_hundred(mine)} times in 100"
    if seen.low is not None and seen.high is not None:
        text += f" ({math.floor(100 * seen.low)} to {math.ceil(100 * seen.high)})"
    if plain is None:
        return f"{text}."
    return f"{text}, instead of {_in_hundred(plain)} without a defence."


def _in_hundred(value: float) -> str:
    return f"{100 * value:.0f}"


def _chance(standing: Standing) -> str:
    """The issue of it all: 3 in 10, by guessing 1 in 10, never more than 3.2 in 10."""
    seen, bound = standing.identification, standing.rero
    limit = limit_of(bound) + (standing.aside if bound is not None else "")
    if seen is None:
        return f"By guessing 1 in 10, {limit}"
    return f"{in_ten(seen.rate)}, by guessing 1 in 10, {limit}"


def fewer(points: float) -> str:
    """What a defence costs, of a hundred answers."""
    return f"{abs(points):.1f} in 100 {'fewer' if points >= 0 else 'more'}"


def limit_of(bound: float | None, count: int = 10) -> str:
    """What nobody can exceed; a limit that promises next to nothing is none."""
    if bound is None or bound >= VACUOUS:
        return "no limit is proven"
    return f"never more than {in_ten_at_most(bound, count)}"


_ASIDE = " That leaves the label aside: this defence does not hide it."


def _proven(standing: Standing, known: Standing | None, *, open_labels: bool) -> str:
    """What nobody can do, with what they are not told where the limit rests on that."""
    if standing.rero is None:
        return "Nothing, for this intruder."
    if standing.rero >= VACUOUS:
        return "Nothing that means anything: the limit is that anybody may always succeed."
    rests = known is not None and known.rero != standing.rero
    untold = ", without being told when your record was used," if rests else ""
    return (
        f"Nobody who {_SEES.get(standing.view[0], 'sees this')}{untold} rebuilds your record, or "
        f"picks it out of 10, more than {in_ten_at_most(standing.rero)} times."
        f"{_ASIDE if open_labels else ''}"
    )


def _tests(standing: Standing) -> str:
    seen = standing.identification
    if seen is None:
        return "Picking a record out of 10 was not tried."
    return f"Tested {seen.games:,} times: {in_ten_span(seen.low, seen.high)}."


def _uncovered(standing: Standing, known: Standing | None) -> str:
    if known is None or known.rero == standing.rero:
        return "Training several models and keeping the best; publishing this page."
    if known.rero is None or known.rero >= 1.0:
        limit = "nothing is proven then"
    elif known.rero >= VACUOUS:
        limit = "next to nothing is proven then"
    else:
        limit = f"the limit is {in_ten_at_most(known.rero)} then"
    if known.identification is not None:
        seen = known.identification
        limit += f"; here it was picked out {in_ten(seen.rate)} times"
        if known.rero is not None and seen.rate > known.rero:  # by chance, in few games
            limit += f" of {seen.games:,}, which may be {in_ten_span(seen.low, seen.high)}"
    return (
        f"An intruder who knows when your record was used ({limit}); training several models and "
        "keeping the best."
    )


def scope_plainly(*, simulated: bool, unbounded: int) -> list[str]:
    """What the numbers cover, and what they do not.

    Args:
      simulated: Whether the noise came from a seed.
      unbounded: Models that were trained without any limit.
    """
    lines = [
        "Every limit is for training one model once. Trying several and keeping the best, or "
        "publishing this page, uses up more, which is not counted in it.",
        "Tests say what these attacks did, not what is possible. Only what is proven holds against "
        "attacks that nobody has tried.",
    ]
    if unbounded:
        lines.append(
            "Models without a limit were trained on the same records on the way: whoever gets one "
            "of them is held back by nothing on this page."
        )
    if simulated:
        lines.append(
            "This is a simulation: its noise can be repeated by whoever knows its starting number, "
            "so these very models protect nobody. The limits hold for one trained afresh, with "
            "noise that nobody can repeat."
        )
    return lines


def who_plainly(view: View) -> str:
    """What the intruder sees and knows."""
    sees = _SEES.get(view[0], f"sees the {view[0]}")
    return f"{sees} and knows when your record was used" if view[1] == "known" else sees
