"""How long a study will take: from what ran before, or from a short trial."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recondite.studies.grid import Cell

__all__ = ["Estimate", "estimate"]

_TRIAL = 2.0  # seconds that a trial of training or of an attack may take
_START = 4.0  # seconds until a worker has imported what it needs


@dataclass(frozen=True)
class Estimate:
    """An estimate of the time that is left.

    Attributes:
      seconds: With so many workers.
      rows: Rows that are missing.
      how: What it rests on.
    """

    seconds: float
    rows: int
    how: str


class _EnoughError(Exception):
    """The trial has seen enough."""


def estimate(
    grid: Sequence[Cell],
    there: Mapping[str, dict[str, Any]],
    workers: int,
    data_dir: str | None = None,
    searched: Sequence[int] = (),
) -> Estimate:
    """Seconds that the missing rows of a grid take, with the search for strengths before them.

    Args:
      grid: The cells.
      there: Rows that were stored before, by key.
      workers: Tasks at a time.
      data_dir: Where data sets are.
      searched: The most trainings of each strength that is still to be found.
    """
    missing = [
        (cell, {key: attack for key, attack in cell.attacks.items() if key not in there})
        for cell in grid
    ]
    missing = [(cell, attacks) for cell, attacks in missing if attacks]
    count = sum(len(attacks) for _, attacks in missing)
    if not missing:
        return Estimate(0.0, 0, "everything is there")
    stored = _stored(there)
    known = stored.get("training")
    how = "seconds of earlier rows of this run"
    if known is None:
        cell = next((cell for cell, _ in missing if cell.failure is None), missing[0][0])
        how = "a short trial; attacks are a guess"
        known = _trial(cell, data_dir)
    total = 0.0
    for _, attacks in missing:
        total += known
        for attack in attacks.values():
            total += stored.get(attack["name"], _guess(attack, known))
    seconds = _START + total / max(1, min(workers, len(missing)))
    if searched:
        # Trainings of one search follow each other: its last one waits for all before.
        trainings = max(*searched, sum(searched) / max(1, min(workers, len(searched))))
        seconds += known * trainings
    return Estimate(seconds, count, how)


def _stored(there: Mapping[str, dict[str, Any]]) -> dict[str, float]:
    """Median seconds of a training, and of each attack."""
    found: dict[str, list[float]] = {}
    for row in there.values():
        seconds = row.get("seconds") or {}
        if row.get("status") != "done" or "train" not in seconds:
            continue
        whole = seconds["train"] + seconds.get("account", 0.0)
        found.setdefault("training", []).append(whole)
        found.setdefault(row["attack"], []).append(seconds.get("attack", 0.0))
    return {name: statistics.median(values) for name, values in found.items()}


def _trial(cell: Cell, data_dir: str | None) -> float:
    """Seconds of a training, from its first steps."""
    from recondite.studies.defences import plan
    from recondite.training.trainer import train

    started: list[float] = []
    seen: list[tuple[int, int]] = []

    def watch(now: Any) -> None:
        started.append(time.perf_counter())
        seen.append((now.step, now.steps))
        if started[-1] - started[0] > _TRIAL:
            raise _EnoughError

    begun = time.perf_counter()
    defence = cell.defence
    if defence["parameter"] is not None and defence["value"] is None:
        defence = {**defence, "value": 1.0}  # not found yet: noise takes as long at any strength
    try:
        train(
            plan(cell.common, defence, cell.seed),
            data_dir=data_dir,
            progress=watch,
            running_epsilon=False,
        )
    except _EnoughError:
        (first, _), (last, steps) = seen[0], seen[-1]
        pace = (started[-1] - started[0]) / max(last - first, 1)
        return started[0] - begun + pace * steps
    return time.perf_counter() - begun


def _guess(attack: dict[str, Any], training: float) -> float:
    """Before any ran: a millisecond for each iteration and image of a gradient attack."""
    options = attack.get("options", {})
    if "batch_size" in attack:
        steps = options.get("steps", 1000) * options.get("restarts", 1)
        return float(1e-3 * steps * max(1.0, attack["images"] * attack["batch_size"] / 8))
    return float(options.get("references", 0) * training + 1.0)
