"""Federated runs: what the server could have seen, one section a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recondite.report.gallery import BYTES, Strip, strip_of
from recondite.report.quantities import attack_name, defence_name
from recondite.report.rows import Row, StoredRun, alike, number, section
from recondite.report.words import at_most, figure, percent, score

__all__ = ["Round", "audited", "rounds"]

CLIENTS = 40  # rows of one round's table
STRIPS = 3  # reconstructions of one round: the clients most at risk


@dataclass(frozen=True)
class Round:
    """One round of one run."""

    run: str
    number: int
    accuracy: str
    lines: tuple[dict[str, str], ...]
    left_out: int
    strips: tuple[Strip, ...]
    withheld: int
    worst: float | None
    estimates: bool


def audited(runs: Sequence[StoredRun]) -> bool:
    """Whether any row belongs to a round."""
    return any(isinstance(row.get("round"), int) for run in runs for row in run.done)


def rounds(runs: Sequence[StoredRun], *, show_private: bool) -> list[Round]:
    """The rounds in order, each with its clients, those most at risk first."""
    left = BYTES // 2
    out = []
    for run in runs:
        found: dict[int, list[Row]] = {}
        for row in run.done:
            if isinstance(row.get("round"), int):
                found.setdefault(row["round"], []).append(row)
        for index in sorted(found):
            one = _round(run, index, found[index], show_private, left)
            left -= sum(strip.size for strip in one.strips)
            out.append(one)
    return out


def _round(run: StoredRun, index: int, rows: list[Row], show_private: bool, left: int) -> Round:
    rows = sorted(rows, key=lambda row: -alike(row))
    pictured = [row for row in rows if section(row, "reconstruction").get("gallery")]
    public = [r for r in pictured if show_private or section(r, "data").get("public") is True]
    strips: list[Strip] = []
    for row in public[:STRIPS]:
        strip = strip_of(row, run.directory)
        if strip is not None and strip.size <= left:
            strips.append(strip)
            left -= strip.size
    scored = [value for value in map(alike, rows) if value > -1]
    return Round(
        run=run.name,
        number=index,
        accuracy=_accuracies(rows),
        lines=tuple(_line(row) for row in rows[:CLIENTS]),
        left_out=max(0, len(rows) - CLIENTS),
        strips=tuple(strips),
        withheld=len(pictured) - len(public),
        worst=max(scored, default=None),
        estimates=any(row.get("ground_truth") is False for row in rows),
    )


def _accuracies(rows: list[Row]) -> str:
    """The accuracy after the round, of each defence where there are several."""
    found: dict[str, str] = {}
    for row in rows:
        value = number(section(row, "utility").get("test_accuracy"))
        if value is not None:
            found.setdefault(str(row.get("label") or row.get("defence") or ""), percent(value))
    if len(found) < 2:
        return next(iter(found.values()), "–")
    return ", ".join(f"{value} ({label})" for label, value in found.items())


def _line(row: Row) -> dict[str, str]:
    found, bounds = section(row, "reconstruction"), section(row, "notions")
    estimate = row.get("ground_truth") is False
    return {
        "client": str(row.get("client") or "–"),
        "defence": str(row.get("label") or defence_name(str(row.get("defence") or "none"))),
        "attack": attack_name(str(row.get("attack") or "none")),
        "ssim": score(number(found.get("ssim_worst"))),
        "mse": figure(number(found.get("mse_mean"))),
        "loss": figure(_smallest(found.get("matching_loss"))),
        "agreement": figure(number(found.get("agreement"))),
        "epsilon": at_most(number(bounds.get("epsilon"))),
        "information": at_most(number(bounds.get("mutual_information_run"))),
        "basis": "estimate" if estimate else "scored",
    }


def _smallest(values: Any) -> float | None:
    if not isinstance(values, list):
        return number(values)
    return min((v for value in values if (v := number(value)) is not None), default=None)
