"""The table that a comparison prints: one line for each defence and value."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from typing import Any

from recondite.cli.output import print_table
from recondite.notions import figures

__all__ = ["show"]

Row = dict[str, Any]

_FEW = ("defence", "accuracy", "ε", "MSE", "worst SSIM", "AUC")
_WIDE = 110  # columns of a terminal that has room for all


def show(rows: list[Row], title: str) -> None:
    """Prints the table: means over seeds, of the strongest attack."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["label"], []).append(row)
    narrow = sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE
    lines = [_line(label, members) for label, members in groups.items()]
    columns = _FEW if narrow else tuple(lines[0]) if lines else ("defence",)
    notes = [
        "ε, capacity, information and ReRo are upper bounds for one training run, rounded up, in "
        "nats where they have a unit; MSE, SSIM and AUC are what the strongest attack got",
        "worst: the person most at risk. Not private: accuracies, and choosing among runs",
    ]
    if any(claim["violated"] for row in rows for claim in row["claims"]):
        notes.insert(0, "A CLAIM IS VIOLATED: an attack showed more than a bound allows")
    failed = [row for row in rows if row["status"] == "failed"]
    notes += [f"failed: {_failed(row)}: {row['reason']}" for row in failed[:5]]
    body = [[line[name] for name in columns] for line in lines]
    print_table(title, columns, body, notes, numbers=tuple(range(1, len(columns))))


def _failed(row: Row) -> str:
    return row["label"] if row["attack"] == "none" else f"{row['label']}, {row['attack']}"


def _line(label: str, rows: list[Row]) -> dict[str, str]:
    trained = {row["seed"]: row["utility"]["test_accuracy"] for row in rows if row["utility"]}
    accuracy = _mean(value for value in trained.values() if value is not None)
    notions: Row = next((row["notions"] for row in rows if row["notions"]), {})
    return {
        "defence": label,
        "accuracy": "–" if accuracy is None else f"{100 * accuracy:.1f} %",
        **{
            figure.column: notion.format(notions.get(key))
            for key, (notion, figure) in figures().items()
            if figure.column
        },
        "MSE": _strongest(rows, "reconstruction", "mse_mean", min),
        "SSIM": _strongest(rows, "reconstruction", "ssim_mean", max),
        "worst SSIM": _strongest(rows, "reconstruction", "ssim_worst", max),
        "AUC": _strongest(rows, "membership", "auc", max),
    }


def _strongest(
    rows: list[Row], section: str, name: str, best: Callable[[Iterable[float]], float]
) -> str:
    """Of each attack the mean over seeds; of these the attacker's best."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row[section]:
            found.setdefault(row["attack"], []).append(row[section][name])
    return f"{best(sum(v) / len(v) for v in found.values()):.3f}" if found else "–"


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
