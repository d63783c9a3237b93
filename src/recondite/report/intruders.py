"""The tables of one intruder: the ladder, the chances of being picked out, the sandwich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recondite.notions.bounds import round_bound
from recondite.report.answer import COUNTS, Answers
from recondite.report.evidence import FloorSeen, ReconstructionGain, evidence
from recondite.report.ladder import RUNGS, Standing, View
from recondite.report.plain import fewer, limit_of, plain_label, rebuilt_by, who_plainly
from recondite.report.points import Point
from recondite.report.sentences import title, who
from recondite.report.words import (
    at_least,
    at_most,
    chance,
    chance_at_most,
    chance_ends,
    figure,
    in_ten,
    in_ten_span,
    percent,
    span,
    whole,
)

__all__ = ["intruders", "victims"]

MOST = 120  # lines of a table of one intruder; the CSV has all


def intruders(answers: Answers) -> list[dict[str, Any]]:
    """One entry for each intruder that is known of, the curious server first."""
    shown = [evidence(point) for point in answers.points]
    return [
        {
            "key": " ".join(view),
            "title": title(view),
            "who": who(view),
            "plainly": who_plainly(view),
            "ladder": [_step(answers, one) for one in shown_first],
            "tally": {name: sum(one.rung() == name for one in standing) for name in RUNGS},
            "left_out": [
                [_limit(one), one.rung(0.0)] for one in standing if one not in shown_first
            ],
            "counts": [n for n in COUNTS if any(_has(one, n) for one in standing)],
            "chances": [_chances(answers, one) for one in standing if one.chances][:MOST],
            "sandwich": [
                line
                for one in standing[:MOST]
                if (line := _sandwich(answers, one, shown[one.point].rebuilt,
                                      shown[one.point].floors, view))
            ],
        }
        for view, standing in answers.standings.items()
        for shown_first in (_shown(_ordered(standing, answers.points)),)
    ]  # fmt: skip


def victims(points: Sequence[Point]) -> list[str]:
    """Whose records the attacks were tried on, in words, each once."""
    found = (made.victims for point in points for made in evidence(point).rebuilt)
    return list(dict.fromkeys(found))[:6]


def _ordered(standing: Sequence[Standing], points: Sequence[Point]) -> list[Standing]:
    return sorted(
        standing,
        key=lambda one: (RUNGS.index(one.rung()), -(points[one.point].mean("accuracy") or 0.0)),
    )


def _shown(ordered: Sequence[Standing]) -> list[Standing]:
    """The lines of the ladder: where there are too many, some of every rung."""
    counts = dict.fromkeys(RUNGS, 0)
    first: list[Standing] = []
    more: list[Standing] = []
    for one in ordered:
        counts[one.rung()] += 1
        (first if counts[one.rung()] <= MOST // len(RUNGS) else more).append(one)
    wanted = {one.point for one in [*first, *more][:MOST]}
    return [one for one in ordered if one.point in wanted]


def _limit(one: Standing) -> float | None:
    return None if one.promised is None else round_bound(one.promised, 6)


def _named(answers: Answers, one: Standing) -> dict[str, Any]:
    point = answers.points[one.point]
    return {
        "id": point.index,
        "label": point.label,
        "plain": plain_label(point),
        "run": answers.runs[point.run].name,
    }


def _step(answers: Answers, one: Standing) -> dict[str, Any]:
    point = answers.points[one.point]
    base = answers.undefended(point.run)
    mine, plain = point.mean("accuracy"), None if base is None else base.mean("accuracy")
    lost = None if mine is None or plain is None or base is point else 100 * (plain - mine)
    picked, best = one.identification, one.strongest
    verdict, kept = one.rung(), point.values.get("accuracy")
    return {
        **_named(answers, one),
        "rung": verdict,
        "below": one.rung(0.0),  # where the budget is smaller than its bound
        "most": _limit(one),
        "share": 0.0 if mine is None else mine,
        "accuracy": percent(mine),
        "kept": "" if kept is None else span(kept.low, kept.high, share=True),
        "cost": "" if lost is None else f"{-lost:+.1f} points".replace("-", "−"),
        "less": "" if lost is None else fewer(lost),
        "rero": "–" if one.rero is None else chance_at_most(one.rero),
        "limit": limit_of(one.rero).removeprefix("never more than "),
        "seen": "–" if picked is None else in_ten(picked.rate),
        "ends": "" if picked is None else in_ten_span(picked.low, picked.high),
        "did": rebuilt_by(one),
        "epsilon": at_most(one.epsilon),
        "picked": "–" if picked is None else chance(picked.rate),
        "span": "" if picked is None else "–".join(chance_ends(picked.low, picked.high)),
        "attack": "not attacked" if best is None else f"{best.attack}: {best.sentence}",
    }


def _has(one: Standing, count: int) -> bool:
    return any(seen.candidates == count for seen in one.chances)


def _chances(answers: Answers, one: Standing) -> dict[str, Any]:
    cells = []
    for count in COUNTS:
        seen = next((seen for seen in one.chances if seen.candidates == count), None)
        bound = one.bounds.get(count)
        cells.append(
            {
                "count": count,
                "rate": "–" if seen is None else chance(seen.rate),
                "said": "–" if seen is None else in_ten(seen.rate, count),
                "limit": limit_of(bound, count),
                "ends": "" if seen is None else in_ten_span(seen.low, seen.high, count),
                "span": "" if seen is None else "–".join(chance_ends(seen.low, seen.high)),
                "bound": "no bound" if bound is None else f"≤ {chance_at_most(bound)}",
                "blind": chance(1.0 / count),
                "seen": 0 if seen is None else round(100 * seen.rate, 1),
                "most": 100 if bound is None else round(100 * min(1.0, bound), 1),
            }
        )
    first = one.chances[0]
    reason = next((seen.reason for seen in one.chances if seen.reason), "")
    games = f"{first.attack}, {first.games:,} games on {first.runs} training"
    return {
        **_named(answers, one),
        "cells": cells,
        "how": f"{games}{'s' if first.runs > 1 else ''}"
        + (f"; {first.relation}" if first.relation else "")
        + ("" if first.among == "alike" else f"; out of {first.candidates}: {first.among}")
        + (f"; {reason}" if reason else ""),
    }


def _kind(floor: FloorSeen, best: ReconstructionGain | None) -> str:
    """A bound; or an estimate, and whether what was rebuilt went below it."""
    if floor.proven:
        return "bound"
    return "estimate, undercut here" if best and best.mse < floor.mse else "estimate"


_TOLD = (("training", "known"), ("model", "known"))


def _sandwich(
    answers: Answers,
    one: Standing,
    rebuilt: Sequence[ReconstructionGain],
    floors: Sequence[FloorSeen],
    view: View,
) -> dict[str, Any] | None:
    """What was rebuilt, and the errors that are not excluded."""
    threat, side = view
    mine = [
        made
        for made in rebuilt
        if made.threat == threat and (made.participation == "secret" or side == "known")
    ]
    # A floor against somebody who is not told who took part when is none against one who is; an
    # update is one that the record is in, whoever is told.
    below = [
        floor
        for floor in floors
        if floor.threat == threat and (floor.participation == "known" or view not in _TOLD)
    ]
    if not mine and not below:
        return None
    best = min(mine, key=lambda made: made.mse, default=None)
    gain = None if best is None else best.gain
    unseen = best is None or best.blind is None
    verdict = "a blind guess was not measured" if unseen else "its gain has no interval"
    if gain is not None:
        # More than all of the error cannot go: an interval by Student’s t may say so.
        ends = f"{whole(gain[1])} to {whole(min(1.0, gain[2]))}"
        better = gain[1] > 0
        verdict = (
            f"{chance(gain[0])} of the guess’s error gone (95%: {ends})"
            if better
            else f"no better than guessing (95%: {ends})"
        )
    return {
        **_named(answers, one),
        "mse": "–" if best is None else figure(best.mse),
        "attack": "" if best is None else best.attack,
        "blind": "–" if best is None or best.blind is None else figure(best.blind),
        "guess": "" if best is None else best.guess,
        "verdict": verdict if best is not None else "nothing was rebuilt",
        "victims": "" if best is None else best.victims,
        "floors": [
            {
                "mse": at_least(floor.mse),
                "kind": _kind(floor, best),
                "case": "every record" if floor.worst_case else "the average record",
                "prior": floor.prior,
                "sentence": floor.sentence,
            }
            for floor in sorted(below, key=lambda floor: (not floor.proven, -floor.mse))
        ],
    }
