"""What a comparison prints: the answer in three lines, then one line for each defence."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from recondite.cli.output import figure, print_table
from recondite.notions import figures
from recondite.studies.shapes import Row

if TYPE_CHECKING:
    from recondite.report.answer import Answers
    from recondite.report.ladder import Standing, View
    from recondite.report.points import Point

__all__ = ["show", "show_answer"]


_FEW = ("defence", "rung", "accuracy", "ε", "ReRo", "of 10", "gain")
_WIDE = 140  # columns of a terminal that has room for all


def show_answer(answers: Answers, view: View) -> None:
    """Prints the answer, in three lines."""
    for line in answers.lines(view):
        print(line)
    print()


def show(answers: Answers, view: View, rows: list[Row], title: str) -> None:
    """Prints the table: means over seeds, of the strongest attack at its strongest settings."""
    narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE
    lines = [_line(answers.points[one.point], one) for one in answers.standings[view]]
    columns = _FEW if narrow else tuple(lines[0]) if lines else ("defence",)
    notes = [
        "ε, capacity, information and ReRo are upper bounds for one training run, rounded up; of "
        "10: picked out of ten by the strongest attack; gain: share of a blind guess's error it "
        "removed; a dash is not measured",
        f"rungs and ReRo are for threat {view[0]}, participation {view[1]}. Not private: "
        "accuracies, and choosing among runs",
    ]
    if answers.contradicted:
        notes.insert(0, "A CLAIM IS CONTRADICTED: an attack showed more than a bound allows")
    failed = [row for row in rows if row["status"] == "failed"]
    notes += [f"failed: {_failed(row)}: {row['reason']}" for row in failed[:5]]
    body = [[line[name] for name in columns] for line in lines]
    texts = ("defence", "rung")
    numbers = tuple(index for index, name in enumerate(columns) if name not in texts)
    print_table(title, columns, body, notes, numbers=numbers, wrap=narrow)


def _failed(row: Row) -> str:
    return row["label"] if row["attack"] == "none" else f"{row['label']}, {row['attack']}"


def _line(point: Point, standing: Standing) -> dict[str, str]:
    accuracy, gain = point.mean("accuracy"), point.mean("gain")
    picked = standing.identification
    bounds = {
        one.column: notion.format(point.notions.get(key))
        for key, (notion, one) in figures().items()
        if one.column
    }
    measured = {"MSE": "mse", "SSIM": "ssim", "worst SSIM": "ssim_worst", "AUC": "auc"}
    line = {
        "defence": point.label,
        "rung": standing.rung(),
        "accuracy": "–" if accuracy is None else f"{100 * accuracy:.1f} %",
        **bounds,
        "of 10": "–" if picked is None else f"{100 * picked.rate:.0f} %",
        "gain": "–" if gain is None else f"{100 * gain:.0f} %".replace("-", "−"),
        **{name: figure(point.mean(key), 3) for name, key in measured.items()},
    }
    rero, _ = figures()["rero_bound"]
    return line | {"ReRo": rero.format(standing.rero)}
