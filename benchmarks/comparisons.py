"""Studies: what scheduling and storing add to the work, and how workers scale."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, at_least, at_most
from benchmarks.runner import Benchmark, Settings, interleave

__all__ = ["BENCHMARKS"]

_STUDY = {
    "name": "bench",
    "data": "digits",
    "model": "mlp",
    "prepare": "none",
    "defences": [{"name": "gaussian", "noise_multiplier": [1.0, 2.0]}],
    "training": {"epochs": 4, "batch_size": 64},
    "attacks": [{"name": "inverting-gradients", "images": 2, "steps": 10}],
}


def _tasks(runs: int) -> list[dict[str, Any]]:
    from recondite.studies.checks import facts_of
    from recondite.studies.grid import cells
    from recondite.studies.study import Study

    study = Study.model_validate({**_STUDY, "seeds": list(range(runs // 2))})
    facts = facts_of(study, None)
    shared = {
        "study": "bench",
        "data_facts": {"shape": list(facts.shape), "classes": facts.classes, "public": True},
        "model_facts": {"name": "mlp", "parameters": facts.parameters},
    }
    return [cell.task(cell.attacks, shared) for cell in cells(study, facts, {})]


class _Engine:
    """An executor whose workers have started and imported everything."""

    def __init__(self, workers: int, tasks: list[dict[str, Any]]) -> None:
        from recondite.studies.executors.local import LocalExecutor

        self.executor, self.tasks = LocalExecutor(workers), tasks
        self.executor.run(tasks[: 2 * workers], lambda *event: None)

    def seconds(self) -> float:
        """Wall-clock time of all tasks, rows stored as they come."""
        from recondite.studies.store import Store

        with tempfile.TemporaryDirectory() as folder, Store(folder) as store:

            def keep(worker: int, task: dict[str, Any], event: dict[str, Any]) -> None:
                if event["type"] == "row":
                    store.append(event["row"])

            start = time.perf_counter()
            self.executor.run([{**task, "work": f"{folder}/work"} for task in self.tasks], keep)
            spent = time.perf_counter() - start
            assert len(store.rows) == len(self.tasks)
        return spent


def _alone(tasks: list[dict[str, Any]]) -> float:
    """The same work in this process, one after the other, nothing stored."""
    from recondite.studies.tasks import run_task

    start = time.perf_counter()
    for task in tasks:
        run_task(task, lambda event: None)
    return time.perf_counter() - start


def _overhead(settings: Settings) -> Iterator[Row]:
    tasks = _tasks(20 if settings.quick else 100)
    one, two = _Engine(1, tasks), _Engine(2, tasks)
    _alone(tasks[:2])
    try:
        sides = {"one": one.seconds, "alone": lambda: _alone(tasks), "two": two.seconds}
        seconds = interleave(sides, min(3, settings.repetitions))
    finally:
        one.executor.close()
        two.executor.close()
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    yield Row(
        name=f"comparison: {len(tasks)} tiny runs, one worker",
        ours=medians["one"],
        unit="s",
        target=at_most(1.05, "at most 5% over the work alone", of="ratio"),
        peer_name="the same work in one process, nothing stored",
        peer=medians["alone"],
        note="training kept until its attacks are done, rows flushed to the disk",
        samples={"ours": seconds["one"], "peer": seconds["alone"]},
    )
    yield Row(
        name=f"comparison: {len(tasks)} tiny runs, speed-up of two workers",
        ours=medians["one"] / medians["two"],
        unit="×",
        target=at_least(1.7, "at least 1.7× one worker"),
        note=f"{medians['two']:.1f} s; needs two idle cores",
        samples={"one": seconds["one"], "two": seconds["two"]},
    )


def _loading(settings: Settings) -> Iterator[Row]:
    from recondite.studies.store import RECORDS, load
    from recondite.studies.tasks import run_task

    events: list[dict[str, Any]] = []
    run_task(_tasks(2)[0], events.append)
    row = next(event["row"] for event in events if event["type"] == "row")
    curve = [[round(i / 100, 5), round((i / 100) ** 0.5, 5)] for i in range(100)]
    row["membership"] = {"auc": 0.5, "roc": curve}
    with tempfile.TemporaryDirectory() as folder:
        with open(Path(folder) / RECORDS, "w", encoding="utf-8") as file:
            for number in range(10_000):
                file.write(json.dumps({**row, "key": f"{number:024x}"}) + "\n")
        size = (Path(folder) / RECORDS).stat().st_size
        samples = []
        for _ in range(settings.repetitions):
            start = time.perf_counter()
            assert len(load(folder)) == 10_000
            samples.append(time.perf_counter() - start)
    yield Row(
        name="comparison: load 10,000 rows",
        ours=statistics.median(samples),
        unit="s",
        target=at_most(1.0, "at most 1 s"),
        note=f"{size / 1e6:.0f} MB, each with a ROC curve of 100 points",
        samples={"ours": samples},
    )


BENCHMARKS = [
    Benchmark("comparison: overhead and workers", _overhead, ("torch", "pydantic")),
    Benchmark("comparison: loading rows", _loading, ("torch", "pydantic")),
]
