"""What a comparison would run, and how long it would take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from recondite.cli.output import print_json, print_table, progress

__all__ = ["dry_run_of", "searched"]


def dry_run_of(
    study: Any, folder: Path, workers: int | None, data_dir: Path | None, as_json: bool
) -> None:
    """Prints the grid, and how long it takes; runs nothing."""
    from recondite.cli.monitor import duration
    from recondite.report.words import several
    from recondite.studies.checks import facts_of
    from recondite.studies.estimate import estimate, likely
    from recondite.studies.rows import loose_delta
    from recondite.studies.runner import pending, searches, shared

    place = None if data_dir is None else str(data_dir)
    count = workers or os.cpu_count() or 1
    with progress("estimating"):
        grid, there = pending(study, folder, place)
        wanted = [runs for _, runs in searches(study, folder, place)]
        facts = facts_of(study, place)
        cells_run, drawn = likely(study, grid, place)
        found = estimate(cells_run, there, count, place, wanted, shared(study, facts, place))
        notes = [*loose_delta(study.delta, facts.records), *drawn]
    if as_json:
        cells = [
            {"label": cell.defence["label"], "seed": cell.seed,
             "attacks": [attack["name"] for attack in cell.attacks.values()],
             "missing": sum(key not in there for key in cell.attacks)}
            for cell in grid
        ]  # fmt: skip
        print_json({"schema_version": 1, "cells": cells, "seconds": found.seconds,
                    "rows_missing": found.rows, "how": found.how,
                    "search_trainings": sum(wanted), "notes": notes})  # fmt: skip
        return
    rows: dict[str, list[int]] = {}
    for cell in grid:
        line = rows.setdefault(cell.defence["label"], [0, 0, 0])
        line[0] += 1
        line[1] += len(cell.attacks)
        line[2] += sum(key in there for key in cell.attacks)
    names = ", ".join(attack.name for attack in study.attacks) or "none"
    print_table(
        f"{study.name}: {study.model} on {study.data}; attacks: {names}",
        ["defence", "trainings", "rows", "there"],
        [[label, *map(str, line)] for label, line in rows.items()],
        [
            f"{several(found.rows, 'row')} in about {duration(found.seconds)} on "
            f"{several(count, 'worker')}: {found.how}",
            *searched(wanted),
            *notes,
        ],
        numbers=(1, 2, 3),
    )


def searched(wanted: list[int]) -> list[str]:
    """What is said of strengths that are still to be found, if there are any."""
    if not wanted:
        return []
    many = len(wanted) > 1
    verb = "strengths that meet targets are" if many else "strength that meets a target is"
    trainings = sum(wanted)
    if not trainings:
        return [f"{len(wanted)} {verb} found first, by calibration: seconds"]
    how = f"by at most {trainings} training{'s' if trainings > 1 else ''}, in the estimate"
    return [f"{len(wanted)} {verb} found first, {how}"]
