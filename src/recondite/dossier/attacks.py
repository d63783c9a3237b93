"""The intruder's log: every attack that was tried, what it got, and what it could have seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from recondite.accounting.auditing import clopper_pearson_low
from recondite.report.claims import ClaimedBound, claims
from recondite.report.evidence import AttackFinding, Chance, evidence
from recondite.report.points import Point
from recondite.report.quantities import attack_name, axis, bound
from recondite.report.released import participation_of, threat_of
from recondite.report.rows import Row, StoredRun, number, section
from recondite.report.words import at_least, chance, figure

__all__ = ["AttackTrial", "log"]


@dataclass(frozen=True)
class AttackTrial:
    """One attack on one trained model.

    Attributes:
      defence: The setting it was tried against.
      seed: The repetition; None where there is none.
      attack: Its name in words.
      threat: What was released to it.
      participation: Whether it was told in which steps the record took part.
      result: What it got, with its interval.
      beats: Whether it did better than guessing; None where that is not known.
      contradicts: Whether it showed more than a bound of the defence allows.
      power: What a test of this size could have told from nothing.
      victims: Whose records were attacked.
      seconds: How long it took.
      when: When its result was written.
    """

    defence: str
    seed: int | None
    attack: str
    threat: str
    participation: str
    result: str
    beats: bool | None
    contradicts: bool
    power: str
    victims: str
    seconds: float | None
    when: str


def log(run: StoredRun, points: Sequence[Point]) -> list[AttackTrial]:
    """Every attack of a run in the order of its rows, those that failed at the end."""
    made = [trial for point in points for row in point.rows for trial in _tried(point, row)]
    return [*made, *(_failed(row) for row in run.failed if row.get("attack") not in (None, "none"))]


def _tried(point: Point, row: Row) -> Iterator[AttackTrial]:
    alone = replace(point, rows=(row,))
    shown = evidence(alone)
    chances = list(shown.chances)
    victims = shown.rebuilt[0].victims if shown.rebuilt else ""
    broken = any(claim.violated for claim in claims([alone]))
    for index, finding in enumerate(shown.findings):
        # Evidence lists what was picked out first, one finding each.
        picked = chances[index] if index < len(chances) else None
        power = _games(picked) if picked is not None else _power(row)
        yield _trial(point, row, finding, power, victims, contradicts=broken)
    for claim in claims([alone]):
        # Games stand beside their bounds already, and where nothing is claimed nothing is tested.
        games = claim.how == "identification"
        if claim.lower is not None and math.isfinite(claim.claim) and not games:
            yield _audited(point, row, claim)


def _trial(
    point: Point, row: Row, found: AttackFinding, power: str, victims: str, *, contradicts: bool
) -> AttackTrial:
    return AttackTrial(
        defence=point.label,
        seed=_seed(row),
        attack=found.attack,
        threat=found.threat,
        participation=found.participation,
        result=found.sentence,
        beats=found.beats,
        contradicts=contradicts,
        power=power,
        victims=victims,
        seconds=number(section(row, "seconds").get("attack")),
        when=str(row.get("created") or ""),
    )


def _audited(point: Point, row: Row, claim: ClaimedBound) -> AttackTrial:
    lower = claim.lower or 0.0
    said = "contradicted" if claim.violated else "not contradicted"
    share = lower / claim.claim if claim.claim > 0 else 0.0
    sure = "" if claim.confidence is None else f", with {100 * claim.confidence:g}% confidence"
    if claim.violated:
        power = "enough to contradict the claim"
    elif share >= 0.5:
        power = f"strong: it reached {chance(share)} of the claim"
    else:
        power = f"too weak to tell: it reached {chance(share)} of the claim"
    return AttackTrial(
        defence=point.label,
        seed=_seed(row),
        attack=f"Audit of {axis(claim.notion).short}: {claim.how}",
        threat=threat_of(row),
        participation=participation_of(row),
        result=(
            f"showed at least {at_least(lower)} where {bound(claim.notion, claim.claim)} is "
            f"claimed for {claim.about or 'the run'}{sure}: {said}"
        ),
        beats=None,
        contradicts=claim.violated,
        power=power,
        victims="",
        seconds=number(section(row, "seconds").get("attack")),
        when=str(row.get("created") or ""),
    )


def _failed(row: Row) -> AttackTrial:
    return AttackTrial(
        defence=str(row.get("label") or "unnamed"),
        seed=_seed(row),
        attack=attack_name(str(row.get("attack"))),
        threat=threat_of(row),
        participation=participation_of(row),
        result=f"failed, so it shows nothing: {row.get('reason') or 'no reason is stored'}",
        beats=None,
        contradicts=False,
        power="none",
        victims="",
        seconds=None,
        when=str(row.get("created") or ""),
    )


def _games(picked: Chance) -> str:
    """The smallest rate that so many games tell from guessing."""
    if picked.games < 1:
        return "the number of games is not stored"
    miss = (1.0 - picked.confidence) / 2
    hits = np.arange(picked.games + 1)
    enough = hits[clopper_pearson_low(hits, picked.games, miss) > picked.blind]
    games = f"{picked.games} games in {picked.runs} training{'s' if picked.runs != 1 else ''}"
    if not enough.size:
        return f"{games}: too few to tell anything from guessing"
    told = float(enough[0]) / picked.games
    return f"{games}: about {chance(told)} or more is told from a guess’s {chance(picked.blind)}"


def _power(row: Row) -> str:
    """The smallest effect that is told from none: by the reach of the interval; an estimate."""
    made, told = section(row, "reconstruction"), section(row, "membership")
    gain = section(section(made, "gain"), "mse")
    value, low = number(gain.get("value")), number(gain.get("low"))
    if made:
        count = number(made.get("images"))
        victims = f"{int(count)} victims" if count else "victims"
        if value is None or low is None:
            return f"{victims}: without an interval, what it could have told is not known"
        return f"{victims}: about {chance(max(0.0, value - low))} of gain is told from none"
    members, others = number(told.get("members")), number(told.get("nonmembers"))
    if not members or not others:
        return "the numbers of members and others are not stored"
    reach = 1.96 * math.sqrt((members + others + 1) / (12 * members * others))
    return (
        f"{int(members)} members, {int(others)} others: an AUC of about {figure(0.5 + reach)} or "
        "more is told from 0.5"
    )


def _seed(row: Row) -> int | None:
    seed = row.get("seed")
    return seed if isinstance(seed, int) else None
