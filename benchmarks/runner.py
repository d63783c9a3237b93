"""Interleaved measurements: ours and the peer's take turns, and medians are compared."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

from benchmarks.rows import Row, SkipBenchmark, Target

__all__ = [
    "Benchmark",
    "Outcome",
    "Settings",
    "StepTime",
    "Task",
    "interleave",
    "median_of",
    "median_step",
    "run",
    "timing",
]

T = TypeVar("T")

# Calls are repeated within a measurement until it is long against the clock and the scheduler.
_LEAST_SECONDS = 0.02
# Rows whose rounds are shorter than this are repeated more often: the neighbours' bursts are long.
_CHEAP_SECONDS, _CHEAP_FACTOR = 0.25, 3
_SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6}


@dataclass(frozen=True)
class Settings:
    """How thorough a run is.

    Attributes:
      repetitions: Measurements of each side.
      quick: Whether to take smaller sizes, and to leave out what is only a note.
    """

    repetitions: int = 5
    quick: bool = False


@dataclass(frozen=True)
class Task:
    """Something to time.

    Attributes:
      call: The function, its inputs bound.
      work: How many values one call computes, for rates.
    """

    call: Callable[[], Any]
    work: int = 1


@dataclass(frozen=True)
class Benchmark:
    """Rows that are measured together.

    Attributes:
      name: What ``--only`` looks for, besides the topic.
      rows: Measures them.
      requires: Modules without which there is nothing to compare with.
      in_quick: Whether ``--quick`` runs it too.
    """

    name: str
    rows: Callable[[Settings], Iterable[Row]]
    requires: tuple[str, ...] = ()
    in_quick: bool = True


@dataclass(frozen=True)
class Outcome:
    """What a whole run gave: rows, and reasons for those that are missing."""

    rows: list[Row]
    skipped: list[dict[str, str]]
    failed: list[dict[str, str]]


@dataclass(frozen=True)
class StepTime:
    """What a step takes.

    Attributes:
      ms: By the clock on the wall, the median of several.
      processor_ms: Of the processor, by all threads of this process, the mean of several.
    """

    ms: float
    processor_ms: float


def median_step(step: Callable[[], bool | None], count: int) -> StepTime:
    """Times ``count`` calls; one that returns False was none."""
    times: list[float] = []
    before = time.process_time()
    while len(times) < count:
        start = time.perf_counter()
        if step() is not False:
            times.append(time.perf_counter() - start)
    spent = time.process_time() - before
    return StepTime(1e3 * statistics.median(times), 1e3 * spent / count)


def median_of(rounds: Mapping[str, Iterable[StepTime]]) -> dict[str, StepTime]:
    """The medians over rounds, by side."""
    found = {}
    for side, several in rounds.items():
        taken = list(several)
        found[side] = StepTime(
            statistics.median(each.ms for each in taken),
            statistics.median(each.processor_ms for each in taken),
        )
    return found


def interleave(sides: Mapping[str, Callable[[], T]], repetitions: int) -> dict[str, list[T]]:
    """Calls the sides in turn, each second round in reverse order, and keeps every result."""
    out: dict[str, list[T]] = {name: [] for name in sides}
    for repetition in range(repetitions):
        order = list(sides)[:: -1 if repetition % 2 else 1]
        for name in order:
            out[name].append(sides[name]())
    return out


def timing(
    name: str,
    ours: Callable[[Settings], Task],
    *,
    target: Target,
    unit: str = "s",
    peer: Callable[[Settings], Task] | None = None,
    peer_name: str | None = None,
    requires: tuple[str, ...] = (),
    note: Callable[[Any, Any, Settings], str] | str = "",
    most: int | None = None,
    in_quick: bool = True,
) -> Benchmark:
    """A benchmark of one row: seconds a call, or values a second with unit "1/s".

    Args:
      name: Name of the row.
      ours: Prepares our side (not timed).
      target: What the row is held against.
      unit: "s", "ms", "µs" or "1/s".
      peer: Prepares the peer's side.
      peer_name: Who that is.
      requires: Modules the peer needs.
      note: A remark, or what makes one from our result, the peer's (or None) and the settings.
      most: Upper limit on the repetitions of an expensive row.
      in_quick: Whether ``--quick`` runs it too.
    """

    def measure(settings: Settings) -> Iterator[Row]:
        tasks = {"ours": ours(settings)}
        if peer is not None:
            tasks["peer"] = peer(settings)
        results = {side: task.call() for side, task in tasks.items()}  # warms caches and imports
        once = {side: _timed(task.call, 1)()[0] for side, task in tasks.items()}
        calls = {side: max(1, min(10_000, math.ceil(_LEAST_SECONDS / once[side]))) for side in once}
        sides = {side: _timed(task.call, calls[side]) for side, task in tasks.items()}
        cheap = not settings.quick and sum(calls[s] * once[s] for s in once) < _CHEAP_SECONDS
        repetitions = settings.repetitions * (_CHEAP_FACTOR if cheap else 1)
        timed = interleave(sides, min(repetitions, most or repetitions))
        seconds = {side: [wall for wall, _ in several] for side, several in timed.items()}
        spent = {side: statistics.median(cpu for _, cpu in timed[side]) for side in timed}
        values = {side: [_convert(s, tasks[side], unit) for s in seconds[side]] for side in seconds}
        medians = {side: statistics.median(samples) for side, samples in values.items()}
        said = (
            note if isinstance(note, str) else note(results["ours"], results.get("peer"), settings)
        )
        yield Row(
            name=name,
            ours=medians["ours"],
            unit=unit,
            target=target,
            peer_name=peer_name,
            peer=medians.get("peer"),
            note=said,
            samples=values,
            processor_ratio=spent["ours"] / spent["peer"] if spent.get("peer") else None,
        )

    return Benchmark(name, measure, requires, in_quick)


def _timed(call: Callable[[], Any], calls: int) -> Callable[[], tuple[float, float]]:
    """Seconds of a call by the clock on the wall, and of the processor."""

    def sample() -> tuple[float, float]:
        start, before = time.perf_counter(), time.process_time()
        for _ in range(calls):
            call()
        wall = (time.perf_counter() - start) / calls
        return wall, (time.process_time() - before) / calls

    return sample


def _convert(seconds: float, task: Task, unit: str) -> float:
    return task.work / seconds if unit == "1/s" else seconds * _SCALES[unit] / task.work


def run(benchmarks: Iterable[Benchmark], settings: Settings) -> Outcome:
    """Runs benchmarks one after the other; what one of them lacks or breaks stops no other."""
    outcome = Outcome([], [], [])
    for benchmark in benchmarks:
        print(f"bench: {benchmark.name} …", end="", file=sys.stderr, flush=True)
        start = time.perf_counter()
        ending = "done"
        missing = [module for module in benchmark.requires if find_spec(module) is None]
        try:
            if missing:
                raise SkipBenchmark(f"not installed: {', '.join(missing)}")
            if settings.quick and not benchmark.in_quick:
                raise SkipBenchmark("left out by --quick")
            outcome.rows.extend(benchmark.rows(settings))
        except (SkipBenchmark, ImportError) as reason:
            outcome.skipped.append({"name": benchmark.name, "reason": str(reason)})
            ending = f"skipped: {reason}"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            outcome.failed.append({"name": benchmark.name, "reason": reason})
            ending = f"failed: {reason}"
        print(f" {ending}, {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return outcome
