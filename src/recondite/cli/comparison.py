"""What a comparison prints: the answer in three lines, then one line for each defence."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from recondite.cli.output import figure, print_table
from recondite.notions import figures
from recondite.studies.shapes import Row

if TYPE_CHECKING:
    from recondite.report.answer import Answers
    from recondite.report.ladder import Standing, View
    from recondite.report.points import Point
    from recondite.report.rows import OwnMetric

__all__ = ["show", "show_answer"]


_FEW = ("defence", "rung", "accuracy", "ε", "ReRo", "of 10", "gain")
_OF_A_RUN = ("ReRo", "of 10")  # left out where records bring columns and there is little room
_LONG = 9  # letters
_WIDE = 140  # columns of a terminal that has room for all


def show_answer(answers: Answers, view: View) -> None:
    """Prints the answer, in three lines where they fit."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in answers.lines(view):
        print(textwrap.fill(line, width, subsequent_indent="  ") if width else line)
    print()


def show(answers: Answers, view: View, rows: list[Row], title: str) -> None:
    """Prints the table: what is proven and was measured for one intruder, and for no other.

    Records that are no images bring their own columns: tokens and ROUGE, or cells of a table.

    Means over seeds, of the strongest attack at its strongest settings.
    """
    from recondite.report.points import utilities
    from recondite.report.rows import own_metrics

    narrow = shutil.get_terminal_size().columns < _WIDE
    standings = answers.standings[view]
    own = {_head(metric): metric for metric in own_metrics(rows)}
    useful = utilities(answers.points)
    lines = [_line(answers.points[one.point], one, own, useful) for one in standings]
    few = [head for name in _FEW for head in (_heads(useful) if name == "accuracy" else [name])]
    if own and shutil.get_terminal_size().columns < _WIDE:
        # The first of them is the plainest: cells or tokens that are right.
        ranked = [head for at, (head, one) in enumerate(own.items()) if one.exposure or not at]
        columns = (*(one for one in few if one not in _OF_A_RUN), *ranked)
    else:
        columns = tuple(few) if narrow else tuple(lines[0]) if lines else ("defence",)
    threat, side = view
    what = "one update that the record is in" if threat == "update" else "one training run"
    seconds = "; seconds: of these attacks, with replays" if "seconds" in columns else ""
    notes = [
        f"all for threat {threat}, participation {side}: bounds are of {what}, rounded up; of 10: "
        f"picked out of ten by the strongest attack (a guess: 10%){_trainings(standings)}; gain: "
        f"share of a blind guess's error it removed{seconds}; a dash is not measured, or not "
        "proven",
        *_compared([answers.points[one.point] for one in standings if one.epsilon is not None]),
        *_aside([answers.points[one.point] for one in standings]),
        "Not private: accuracies, and choosing among runs",
    ]
    if any(row.get("simulation") for row in rows):
        notes.append("simulation: noise from a seed protects nobody; a run afresh has these bounds")
    if not any(one.findings or one.chances for one in standings) and rows:
        notes.insert(0, _unanswered(view, rows))
    unproven = dict.fromkeys(one.unproven for one in standings if one.epsilon is None)
    notes += [f"no ε: {reason}" for reason in unproven if reason][:3]
    if answers.contradicted:
        notes.insert(0, "A CLAIM IS CONTRADICTED: an attack showed more than a bound allows")
    failed = [row for row in rows if row["status"] == "failed"]
    notes += [f"failed: {_failed(row)}: {row['reason']}" for row in failed[:5]]
    body = [[line[name] for name in columns] for line in lines]
    texts = ("defence", "rung")
    numbers = tuple(index for index, name in enumerate(columns) if name not in texts)
    print_table(title, columns, body, notes, numbers=numbers, wrap=narrow)


def _trainings(standings: Sequence[Standing]) -> str:
    """On how many trainings the games were played, whose noise those of one share."""
    runs = {one.identification.runs for one in standings if one.identification is not None}
    return ", games of one training each" if runs == {1} else ""


def _compared(points: Sequence[Point]) -> list[str]:
    """What ε is at, and which data sets it compares, by defence where these differ."""
    from recondite.report.words import at_most

    deltas = {point.delta for point in points if point.delta}
    at = f" at δ = {at_most(max(deltas), 2)}" if len(deltas) == 1 else ""
    names: dict[str, dict[str, None]] = {}
    for point in points:
        if point.bounded and point.neighbouring:
            names.setdefault(point.neighbouring, {})[point.defence] = None
    usual = max(names, key=lambda one: len(names[one]), default="")
    others = [f"{one}: {', '.join(kinds)}" for one, kinds in names.items() if one != usual]
    return [f"ε{at}: {'; '.join([usual, *others])}"] if usual else []


def _aside(points: Sequence[Point]) -> list[str]:
    """Which defences leave labels as they are."""
    from recondite.report.quantities import defence_name

    kinds = dict.fromkeys(defence_name(point.defence) for point in points if point.open_labels)
    text = f"labels are open, and bounds and games leave them aside: {', '.join(kinds)}"
    return [text] if kinds else []


def _head(metric: OwnMetric) -> str:
    """Its label, or its name in rows where that is too long for the head of a column."""
    return metric.label if len(metric.label) < _LONG else metric.key


def _unanswered(view: View, rows: list[Row]) -> str:
    """That nothing measured speaks of this intruder, and what would."""
    from recondite.report.released import participation_of, threat_of

    ran = [row for row in rows if row["attack"] != "none"]
    told = any((threat_of(row), participation_of(row)) == (view[0], "known") for row in ran)
    seen = [threat for threat in dict.fromkeys(map(threat_of, ran)) if threat != view[0]]
    remedy = f": try --threat {seen[0]}" if seen else ", and none ran"
    if told and view[1] == "secret":
        remedy = ": try --participation known"
    return f"no attack of this study answers threat {view[0]}, participation {view[1]}{remedy}"


def _failed(row: Row) -> str:
    return row["label"] if row["attack"] == "none" else f"{row['label']}, {row['attack']}"


def _heads(useful: Mapping[str, tuple[str, str]]) -> list[str]:
    return [head for head, _ in useful.values()]


def _line(
    point: Point,
    standing: Standing,
    own: Mapping[str, OwnMetric],
    useful: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    from recondite.report.ladder import measured_by, spent
    from recondite.report.words import chance, chance_at_most, percent

    values = measured_by(point, standing.view)
    gain = values.get("gain")
    picked = standing.identification
    # Sums over a run say nothing of one update.
    bounds = {
        one.column: notion.format(point.notions.get(key))
        for key, (notion, one) in figures().items()
        if one.column and not (one.run and standing.view[0] == "update")
    }
    epsilon, _ = figures()["epsilon"]
    rero = "–" if standing.rero is None else chance_at_most(standing.rero)
    attacked = {
        "of 10": "–" if picked is None else chance(picked.rate),
        "gain": "–" if gain is None else f"{round(100 * gain.mean)}%".replace("-", "−"),
    }
    images = {"MSE": "mse", "SSIM": "ssim", "worst SSIM": "ssim_worst"}
    measures = {
        **(images if not own or "mse" in values else {}),
        **{label: metric.key for label, metric in own.items()},
        "AUC": "auc",
    }
    return {
        "defence": point.label,
        "rung": standing.rung(),
        **{
            head: percent(point.mean(key)) if key == "accuracy" else figure(point.mean(key), 3)
            for key, (head, _) in useful.items()
        },
        "ε": epsilon.format(standing.epsilon),
        **{name: value for name, value in bounds.items() if name not in ("ε", "ReRo")},
        "ReRo": rero,
        **attacked,
        **{name: figure(values[key].mean if key in values else None, 3)
           for name, key in measures.items()},
        "seconds": figure(spent(point, standing.view), 3),
    }  # fmt: skip
