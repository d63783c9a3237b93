"""Runs a study: finds strengths, runs what is missing, stores every row as it comes."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from recondite._version import __version__
from recondite.studies import rows
from recondite.studies.checks import facts_of
from recondite.studies.executors import Executor, make_executor
from recondite.studies.facts import Facts
from recondite.studies.grid import GridCell, MissingStrength, cells, missing_strengths
from recondite.studies.shapes import CellTask, Event, Row, Shared, Task
from recondite.studies.store import GALLERY, STUDY, Store, load, read_study
from recondite.studies.study import Study
from recondite.studies.trials import SECRET, TRIALS, Price, Trials, price_of, priced

__all__ = ["Monitor", "RunResult", "compare", "pending", "searches", "shared"]

TARGETS = "targets.jsonl"
WORK = "work"


class Monitor(Protocol):
    """Watches a run; every method may be called often."""

    def begin(self, stage: str, tasks: int, workers: int) -> None:
        """A stage begins, with so many tasks to do."""

    def event(self, worker: int, task: Task, event: Event) -> None:
        """Something happened in a worker."""

    def end(self) -> None:
        """The stage is over."""


class _Silent:
    def begin(self, stage: str, tasks: int, workers: int) -> None: ...
    def event(self, worker: int, task: Task, event: Event) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True)
class RunResult:
    """What a run gave.

    Attributes:
      run: Its folder.
      rows: One for each (defence, value, seed, attack).
      ran: How many of them were made now; the others were there.
      failed: How many went wrong.
      seconds: Wall-clock time.
    """

    run: Path
    rows: list[Row]
    ran: int
    failed: int
    seconds: float


def compare(
    study: Study,
    run: str | os.PathLike[str],
    *,
    engine: str = "local",
    workers: int | None = None,
    data_dir: str | None = None,
    retry_failed: bool = False,
    monitor: Monitor | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> RunResult:
    """Runs what a study asks for and the folder does not hold yet.

    Guarantee: a row is on the disk as soon as it is finished; a run that is killed at any moment
    and started again ends with the same rows (times aside) as one that was not. Rows depend on
    the study and the data alone, not on the executor or the number of workers; with ``search`` also
    on what was drawn before the first run, and there are rows of the best run only.

    Args:
      study: The study.
      run: The folder of its results.
      engine: "local" or "ray".
      workers: Tasks at a time; one for each core by default.
      data_dir: Where data sets are.
      retry_failed: Run again what failed before.
      monitor: Watches.
      on_row: Called with every new row, after it is stored.
    """
    if not isinstance(study, Study):
        raise TypeError(
            f"study must be a Study, as recondite.studies.read_study gives, got "
            f"{type(study).__name__}; channels have recondite.leakage.refinement.compare_channels"
        )
    started = time.perf_counter()
    found = facts_of(study, data_dir)
    with Store(run) as store:
        job = _Job(study, found, store, data_dir, monitor or _Silent(), retry_failed, on_row)
        job.write_study(None)
        executors: list[Executor] = []

        def on_executor(tasks: Sequence[Task], stage: str, handle: Any) -> None:
            # Workers start when there is something to do: a finished run costs nothing.
            if tasks and not executors:
                executors.append(make_executor(engine, workers))
            if tasks:
                job.monitor.begin(stage, len(tasks), executors[0].workers)
                try:
                    executors[0].run(tasks, handle)
                finally:
                    job.monitor.end()

        try:
            strengths = job.targets(on_executor)
            if study.search is None:
                job.grid = cells(study, found, strengths)
            else:
                job.grid = job.searched(on_executor, strengths)
            job.write_study(None)
            job.cells(on_executor)
        finally:
            for each in executors:
                each.close()
        job.write_study(time.perf_counter() - started)
        shutil.rmtree(store.folder / WORK, ignore_errors=True)
    result = load(run)
    failed = sum(row["status"] == "failed" for row in result)
    return RunResult(Path(run), result, len(job.new), failed, time.perf_counter() - started)


def pending(
    study: Study, run: str | os.PathLike[str], data_dir: str | None = None
) -> tuple[list[GridCell], dict[str, Row]]:
    """The grid as far as it is known, and the rows that are there; nothing runs or is written."""
    from recondite.studies.store import read_lines

    folder = Path(run)
    strengths = {row["key"]: row for row in read_lines(folder / TARGETS)}
    grid = cells(study, facts_of(study, data_dir), strengths)
    there = {row["key"]: row for row in read_lines(folder / "records.jsonl")}
    return grid, there


def searches(
    study: Study, run: str | os.PathLike[str], data_dir: str | None = None
) -> list[tuple[MissingStrength, int]]:
    """Strengths that are still to be found, each with the most trainings that it may take."""
    from recondite.studies.store import read_lines

    there = {row["key"] for row in read_lines(Path(run) / TARGETS)}
    return [
        (
            each,
            sum(f"{each.key}-{n}" not in there for n in range(each.options.get("runs", 0))),
        )
        for each in missing_strengths(study, facts_of(study, data_dir))
        if each.key not in there
    ]


def shared(study: Study, facts: Facts, data_dir: str | None, work: str | None = None) -> Shared:
    """What every task of a study is told besides its cell."""
    told: Shared = {
        "study": study.name,
        "data_dir": data_dir,
        "data_facts": facts.described(_name(study.data), public=study.public),
        "model_facts": {"name": study.model, "parameters": facts.parameters},
    }
    return told if work is None else {**told, "work": work}


class _Job:
    """One call of :func:`compare`."""

    def __init__(
        self,
        study: Study,
        facts: Facts,
        store: Store,
        data_dir: str | None,
        monitor: Monitor,
        retry_failed: bool,
        on_row: Callable[[Row], None] | None,
    ) -> None:
        self.study, self.facts, self.store, self.data_dir = study, facts, store, data_dir
        self.monitor, self.retry_failed, self.on_row = monitor, retry_failed, on_row
        self.grid: list[GridCell] = []
        self.price: Price | None = None
        self.new: set[str] = set()
        self.shared = shared(study, facts, data_dir, str((store.folder / WORK).resolve()))

    def targets(self, on_executor: Any) -> dict[str, Row]:
        """The strength of every target, found now or before."""
        sought = missing_strengths(self.study, self.facts)
        if not sought:
            return {}
        with Store(self.store.folder, TARGETS) as found:
            missing = [
                missing.task(self.shared, found.rows)
                for missing in sought
                if missing.key not in found.rows
                or (self.retry_failed and "failure" in found.rows[missing.key])
            ]

            def handle(worker: int, task: Task, event: Event) -> None:
                if event["type"] == "row":
                    found.append(event["row"])
                elif event["type"] == "error":
                    found.append({"key": task["key"], "kind": "target", "failure": event["reason"]})
                self.monitor.event(worker, task, event)

            on_executor(missing, "strengths", handle)
            return dict(found.rows)

    def searched(self, on_executor: Any, strengths: Mapping[str, Row]) -> list[GridCell]:
        """The best of a secret number of runs, made now or before; nothing where there were none.

        Raises:
          ValueError: In one line: the best would have no finite price.
        """
        trials = Trials(self.study, self.facts, strengths, self.store.folder)
        self.price = price_of(self.study, trials.settings, self.facts, self.data_dir)
        if self.shared["data_facts"]["public"] is not True and math.isinf(self.price.epsilon):
            raise ValueError(
                "search has no finite price, for one of its settings has no finite ε: leave out "
                "defences that promise none, or compare them without search"
            )
        trials.begin()
        if not trials.finished:
            with Store(trials.folder, TRIALS) as found:
                there = found.rows
                tasks: dict[str, CellTask] = {}
                for cell in trials.cells():
                    missing = {
                        key: attack
                        for key, attack in cell.attacks.items()
                        if key not in there
                        or (self.retry_failed and there[key]["status"] == "failed")
                    }
                    if missing:
                        tasks[cell.key] = cell.task(missing, self.shared)

                def handle(worker: int, task: Task, event: Event) -> None:
                    if event["type"] == "row":
                        found.append(event["row"])
                    elif event["type"] == "error":
                        given = tasks[task["key"]]
                        for key, attack in given["attacks"].items():
                            found.append(rows.failed(given, key, attack, event["reason"]))
                    self.monitor.event(worker, task, event)

                on_executor(list(tasks.values()), "runs of the search", handle)
            trials.finish(there)
        return trials.winner()

    def cells(self, on_executor: Any) -> None:
        """Every row that is not there yet."""
        tasks = []
        for cell in self.grid:
            self._relabel(cell)
            missing = {key: attack for key, attack in cell.attacks.items() if self._missing(key)}
            if not missing:
                continue
            task = cell.task(missing, self.shared)
            if cell.failure is None:
                tasks.append(task)
                continue
            for key, attack in missing.items():
                self._add(rows.failed(task, key, attack, cell.failure))

        def handle(worker: int, task: Task, event: Event) -> None:
            if event["type"] == "row":
                gallery = event.get("gallery")
                if gallery:
                    content = base64.b64decode(gallery)
                    self.store.put(f"{GALLERY}/{event['row']['key']}.npz", content)
                self._add(event["row"])
            elif event["type"] == "error":
                given = known[task["key"]]
                for key, attack in given["attacks"].items():
                    if self._missing(key):
                        self._add(rows.failed(given, key, attack, event["reason"]))
            if event["type"] in ("done", "error"):
                shutil.rmtree(self.store.folder / WORK / task["key"], ignore_errors=True)
            self.monitor.event(worker, task, event)

        known = {task["key"]: task for task in tasks}
        on_executor(tasks, "runs", handle)

    def _relabel(self, cell: GridCell) -> None:
        """A label is no reason to run anything again."""
        for key in cell.attacks:
            row = self.store.rows.get(key)
            now = {name: cell.defence[name] for name in ("label", "target")}
            if row is not None and any(row.get(name) != value for name, value in now.items()):
                self.store.append({**row, **now})

    def write_study(self, seconds: float | None) -> None:
        """``study.json``: what was asked, with what, when; and the keys of the rows that count."""
        from recondite.training.record import machine

        before = read_study(self.store.folder)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        secret = self.study.search is not None
        keys = [key for cell in self.grid for key in cell.attacks]
        body = {
            "schema_version": rows.SCHEMA_VERSION,
            "kind": "comparison",
            "name": self.study.name,
            "study": {
                **self.study.model_dump(exclude_none=True),
                "data": self.shared["data_facts"]["name"],
            },
            "facts": self.facts.to_dict(),
            "versions": {"recondite": __version__},
            "machine": machine(),
            # How long a search took tells how many runs it made.
            "created": now if secret else before.get("created", now),
            "finished": now if seconds is not None else None,
            "seconds": None if seconds is None or secret else round(seconds, 1),
            "keys": keys or before.get("keys"),
        }
        text = json.dumps(body, indent=1, ensure_ascii=False)
        self.store.put(STUDY, (text + "\n").encode())

    def _missing(self, key: str) -> bool:
        row = self.store.rows.get(key)
        again = self.retry_failed and key not in self.new
        return row is None or (again and row["status"] == "failed")

    def _add(self, row: Row) -> None:
        if self.price is not None:
            row = {**row, "seed": SECRET, "search": self.price.to_dict()}
            # Measured on the training records themselves: no price covers that.
            told = {
                k: None if k.startswith("train_") else v for k, v in (row["utility"] or {}).items()
            }
            row["utility"] = told or None
            if self.shared["data_facts"]["public"] is not True:
                row = priced(row, self.price)
        self.store.append(row)
        self.new.add(row["key"])
        if self.on_row is not None:
            self.on_row(row)


def _name(data: str) -> str:
    """A folder by its own name: the path to it is nobody's business."""
    return Path(data).expanduser().resolve().name if Path(data).expanduser().is_dir() else data
