"""A study while it grows: rows, ladder and images, as they are on the disk now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recondite.explore.runs import Opened
from recondite.explore.stored import images
from recondite.explore.worker import PROGRESS, progress_of
from recondite.report.claims import claims
from recondite.report.points import Point
from recondite.report.quantities import attack_name, bound, promises
from recondite.report.rows import Row, StoredRun, alike, number, read_runs, section
from recondite.report.words import (
    at_least,
    at_most,
    chance,
    chance_at_most,
    chance_ends,
    percent,
    score,
)
from recondite.studies.store import RECORDS, STUDY, read_study

__all__ = ["alarms", "snapshot", "stamp"]

ROWS = 300  # of the table, newest first
STRIPS = 12

_VIEW = ("training", "secret")


def stamp(opened: Opened) -> tuple[Any, ...]:
    """Changes whenever :func:`snapshot` would."""
    path = opened.path
    if path.is_file():
        return (_written(path),)
    state = progress_of(path).get("state")
    return (state, *(_written(path / name) for name in (RECORDS, STUDY, PROGRESS, "report.html")))


def _written(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def snapshot(
    opened: Opened, view: tuple[str, str] = _VIEW, *, show_private: bool = False
) -> dict[str, Any]:
    """Everything the page shows of a study; empty tables where no row is finished yet."""
    folder = opened.path
    shown: dict[str, Any] = {
        **opened.to_dict(),
        "progress": progress_of(folder) if folder.is_dir() else {},
        "expected": len(read_study(folder).get("keys") or []) if folder.is_dir() else 0,
        "report": (folder / "report.html").exists(),
        "count": 0, "rows": [], "ladder": [], "lines": [], "alarms": [], "strips": [],
        "withheld": 0, "simulation": False,
    }  # fmt: skip
    try:
        runs = read_runs([folder])
    except ValueError as error:
        return {**shown, "empty": str(error).removeprefix("run_dirs: ")}
    from recondite.report.answer import Answers  # imports torch

    answers = Answers.of(runs)
    rows = list(runs[0].rows)
    strips = _strips(answers.points, runs, show_private=show_private)
    return {
        **shown,
        "count": len(rows),
        "rows": [_row(row) for row in reversed(rows[-ROWS:])],
        "ladder": _ladder(answers, view),
        "lines": answers.lines(view) if runs[0].done else [],
        "alarms": alarms(answers.points),
        "strips": [strip for strip in strips if strip["pictures"]][:STRIPS],
        "withheld": sum(strip["withheld"] for strip in strips),
        "simulation": any(row.get("simulation") for row in rows),
    }


def alarms(points: Sequence[Point]) -> list[str]:
    """Every bound that an attack went beyond, in one line each."""
    return [
        f"{points[claim.point].label}: {claim.notion.replace('_', ' ')} is claimed to be at most "
        f"{bound(claim.notion, claim.claim)}, yet {claim.how} shows at least "
        f"{at_least(claim.lower)}"
        for claim in claims(points)
        if claim.violated
    ]


def _row(row: Row) -> dict[str, str]:
    rebuilt, membership = section(row, "reconstruction"), section(row, "membership")
    games = [game for game in row.get("identification") or [] if game.get("candidates") == 10]
    picked = max((v for game in games if (v := number(game.get("rate"))) is not None), default=None)
    seen = ""
    if picked is not None:
        seen = f"picked out of 10: {chance(picked)}"
    elif number(rebuilt.get("ssim_worst")) is not None:
        seen = f"best SSIM {score(number(rebuilt.get('ssim_worst')))}"
    elif number(membership.get("auc")) is not None:
        seen = f"AUC {score(number(membership.get('auc')))}"
    return {
        "label": str(row.get("label") or row.get("defence") or ""),
        "attack": attack_name(str(row.get("attack") or "none")),
        "status": str(row.get("status") or "done"),
        "accuracy": percent(number(section(row, "utility").get("test_accuracy"))),
        "epsilon": at_most(number(section(row, "notions").get("epsilon"))),
        "seen": seen or str(row.get("reason") or ""),
    }


def _ladder(answers: Any, view: tuple[str, str]) -> list[dict[str, Any]]:
    out = []
    for stand in answers.standings[view]:
        point = answers.points[stand.point]
        picked, best = stand.identification, stand.strongest
        seen = "not attacked" if best is None else best.attack
        if picked is not None:
            ends = f"95%: {' to '.join(chance_ends(picked.low, picked.high))}"
            seen = f"picked out of 10 in {chance(picked.rate)} ({ends})"
        out.append(
            {
                "label": point.label,
                "rung": stand.rung(),
                "bound": "none" if _vacuous(stand.rero) else f"≤ {chance_at_most(stand.rero)}",
                "epsilon": at_most(stand.epsilon),
                "seen": seen,
                "accuracy": percent(point.mean("accuracy")),
            }
        )
    order = {"proven": 0, "resisted": 1, "untested": 2, "broken": 3}
    return sorted(out, key=lambda one: order[one["rung"]])


def _vacuous(rero: float | None) -> bool:
    """Whether a bound on being picked out of ten promises nothing."""
    return rero is None or not promises("rero_bound", rero)


def _strips(
    points: Sequence[Point], runs: Sequence[StoredRun], *, show_private: bool
) -> list[dict[str, Any]]:
    """One strip a setting, by the attack that rebuilt most, most alike first."""
    best: list[tuple[float, dict[str, Any]]] = []
    for point in points:
        rows = [row for row in point.rows if section(row, "reconstruction").get("gallery")]
        if not rows:
            continue
        row = max(rows, key=alike)
        shown = images(row, runs[point.run].directory, show_private=show_private)
        if shown is not None:
            best.append((alike(row), {**shown, "label": point.label}))
    return [shown for _, shown in sorted(best, key=lambda pair: -pair[0])]
