"""How long a study will take: from what ran before, or from a trial of its first cell.

The trial trains for a moment and lets every attack begin: what is unfinished after some seconds is
extrapolated from its own progress. Only attacks with a budget of seconds are taken at their word.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recondite.studies.grid import GridCell
from recondite.studies.shapes import AttackConfig, CellTask, Event, Row, Shared
from recondite.studies.study import Study

__all__ = ["TimeEstimate", "estimate", "likely"]

_TRIAL = 2.0  # seconds that a trial of training may take
_BEGUN = 4.0  # seconds after which an attack that tells its progress is extrapolated
_LEAST = 0.5  # seconds of computing from which on a trial tells how busy the machine is
_VICTIM = 5.0  # seconds that the victim of a trial is trained for, about
_START = 4.0  # seconds until a process has imported what it needs, on an idle core
_PROCESSES = 2  # that start one after the other: the command, then its workers


@dataclass(frozen=True)
class TimeEstimate:
    """An estimate of the time that is left.

    Attributes:
      seconds: With so many workers.
      rows: Rows that are missing.
      how: What it rests on.
    """

    seconds: float
    rows: int
    how: str


class _EnoughError(BaseException):
    """The trial has seen enough; whatever catches an attack's exceptions lets it pass."""


def estimate(
    grid: Sequence[GridCell],
    there: Mapping[str, Row],
    workers: int,
    data_dir: str | None = None,
    searched: Sequence[int] = (),
    shared: Shared | None = None,
) -> TimeEstimate:
    """Seconds that the missing rows of a grid take, with the search for strengths before them.

    Args:
      grid: The cells.
      there: Rows that were stored before, by key.
      workers: Tasks at a time.
      data_dir: Where data sets are.
      searched: The most trainings of each strength that is still to be found.
      shared: What tasks are told besides their cell (``runner.shared``), to try attacks; None
        guesses how long attacks take.
    """
    began = time.perf_counter(), time.process_time()
    missing = [
        (cell, {key: attack for key, attack in cell.attacks.items() if key not in there})
        for cell in grid
    ]
    missing = [(cell, attacks) for cell, attacks in missing if attacks]
    count = sum(len(attacks) for _, attacks in missing)
    if not missing:
        return TimeEstimate(0.0, 0, "everything is there")
    stored = _stored(there)
    known = stored.get("training")
    how = "seconds of earlier rows of this run"
    cell = next((cell for cell, _ in missing if cell.failure is None), missing[0][0])
    if known is None:
        how = "a short trial"
        known = _trial(cell, data_dir)
    untried = {
        _kind(attack): (cell, attack)
        for cell, attacks in missing
        for attack in attacks.values()
        if cell.failure is None and attack["name"] not in (*stored, "none")
    }
    if untried and shared is None:
        how += "; attacks are a guess"
    tried: dict[str, float] = {}
    if shared is not None and untried:
        how = "a trial of each attack" if stored else "a trial of the first training and attacks"
        tried = {
            kind: _attack_trial(cell, attack, known, shared)
            for kind, (cell, attack) in untried.items()
        }
    total = 0.0
    for _, attacks in missing:
        total += known
        for attack in attacks.values():
            guess = tried.get(_kind(attack), _guess(attack, known))
            total += stored.get(attack["name"], guess)
    start = _PROCESSES * _START * _slowed(began)
    seconds = start + total / max(1, min(workers, len(missing)))
    if searched:
        # Trainings of one search follow each other: its last one waits for all before.
        trainings = max(*searched, sum(searched) / max(1, min(workers, len(searched))))
        seconds += known * trainings
    return TimeEstimate(seconds, count, how)


def _slowed(began: tuple[float, float]) -> float:
    """How many times longer than on an idle core the trials took: others may use the cores too."""
    passed, computed = time.perf_counter() - began[0], time.process_time() - began[1]
    # Too short a trial says nothing of the machine.
    return max(1.0, passed / computed) if computed > _LEAST else 1.0


def likely(
    study: Study, grid: Sequence[GridCell], data_dir: str | None
) -> tuple[Sequence[GridCell], list[str]]:
    """The cells that will run, or on average would, and what is said of their number."""
    from recondite.notions import format_bound, round_bound
    from recondite.studies.checks import facts_of
    from recondite.studies.trials import price_of

    if study.search is None:
        return grid, []
    mean = study.search.mean
    alone: dict[str, AttackConfig] = {"none": {"name": "none"}}
    runs = [replace(grid[i % len(grid)], attacks=alone) for i in range(round(mean))]
    price = "its price is known when strengths are found"
    if all(cell.failure is None for cell in grid):
        found = price_of(study, grid, facts_of(study, data_dir), data_dir)
        delta = round_bound(found.delta, 3)
        price = f"telling the best costs ε ≤ {format_bound(found.epsilon)} at δ = {delta:.3g}"
    said = f"{mean:g} runs of settings drawn from these on average, and perhaps many more: {price}"
    return [*runs, grid[0]], [said]


def _stored(there: Mapping[str, Row]) -> dict[str, float]:
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


def _trial(cell: GridCell, data_dir: str | None) -> float:
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


def _kind(attack: AttackConfig) -> str:
    return json.dumps(attack, sort_keys=True, default=str)


def _attack_trial(cell: GridCell, attack: AttackConfig, training: float, shared: Shared) -> float:
    """Seconds of one attack, from its beginning on a victim that is trained for a moment."""
    from recondite.studies.cell import run_cell

    options = attack.get("options", {})
    if "budget" in options:
        return float(options["budget"])
    epochs = int(cell.common["training"].get("epochs") or 1)
    few = max(1, min(epochs, int(epochs * _VICTIM / max(training, 1e-9))))
    task: CellTask = cell.task({"trial": attack}, shared)
    training_of = {**cell.common["training"], "epochs": few}
    task["common"] = {**cell.common, "training": training_of}
    if task["defence"].get("parameter") is not None and task["defence"]["value"] is None:
        task["defence"] = {**task["defence"], "value": 1.0}
    # Reference models and replays take as long as the victim's own training lets them.
    scale = epochs / few if "references" in options or attack.get("threat") == "training" else 1.0
    first: list[tuple[float, float]] = []
    spent = [_guess(attack, training)]

    def emit(event: Event) -> None:
        if event["type"] == "row":
            spent[0] = float((event["row"].get("seconds") or {}).get("attack", spent[0]))
        elif event.get("stage") != "training":
            now, done = time.perf_counter(), float(event["done"])
            first.append((now, done))
            begun, before = first[0]
            passed = now - begun
            if passed > _BEGUN and done > before:
                spent[0] = passed / (done - before)
                raise _EnoughError

    with contextlib.suppress(_EnoughError):
        run_cell(task, emit)
    return scale * spent[0]


def _guess(attack: AttackConfig, training: float) -> float:
    """Before any ran: a millisecond for each iteration and image of a gradient attack."""
    options = attack.get("options", {})
    if "budget" in options:
        return float(options["budget"])
    if "batch_size" in attack:
        steps = options.get("steps", 1000) * options.get("restarts", 1)
        return float(1e-3 * steps * max(1.0, attack["images"] * attack["batch_size"] / 8))
    return float(options.get("references", 0) * training + 1.0)
