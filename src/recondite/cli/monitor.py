"""Progress of a comparison on standard error: overall and worker by worker, with time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from recondite.cli.output import settings
from recondite.studies.shapes import Event, Row, Task

__all__ = ["Lines", "Screen", "make_monitor"]

_EVERY = 15.0  # seconds between two lines where there is no terminal
_EARLY = 60.0  # seconds in which only a task that ended says how long one takes


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class _Count:
    """How much is done, parts of running tasks included, and how long the rest will take.

    What is left is told from the seconds that trainings and attacks of finished rows took, each by
    its own name: a quick training before a slow attack does not promise an early end. The end that
    is foreseen moves by a quarter towards each new estimate, so that what is shown does not swing.
    """

    def __init__(
        self, tasks: int, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tasks, self.done, self.failed = tasks, 0, 0
        self.workers, self.clock = max(1, workers), clock
        self.started = clock()
        self.parts: dict[int, float] = {}
        self._begun: dict[int, tuple[float, Task]] = {}
        self._seconds: dict[str, list[float]] = {}
        self._whole: list[float] = []
        self._end: float | None = None

    def take(self, worker: int, task: Task, event: Event) -> None:
        kind = event["type"]
        attacks = task["attacks"] if task["kind"] == "cell" else {}
        steps = 1 + len(attacks)
        began, _ = self._begun.setdefault(worker, (self.clock(), task))
        if kind == "progress":
            whole = self.parts.get(worker, 0.0)
            self.parts[worker] = (int(whole * steps + 1e-9) + min(event["done"], 0.99)) / steps
            return
        if kind == "row":
            finished = int(self.parts.get(worker, 0.0) * steps + 1e-9)
            self.parts[worker] = min(max(finished, 0) + 1, steps) / steps
            self.failed += event["row"].get("status") == "failed"
            self._measure(event["row"])
        else:
            self.done += 1
            self.parts[worker] = 0.0
            self._whole.append(self.clock() - began)
            del self._begun[worker]
        self._foresee()

    def _measure(self, row: Row) -> None:
        seconds = row.get("seconds") or {}
        if row.get("status") == "done" and "train" in seconds:
            trained = seconds["train"] + seconds.get("account", 0.0)
            self._seconds.setdefault("", []).append(trained)
            self._seconds.setdefault(row["attack"], []).append(seconds.get("attack", 0.0))

    def _expected(self, task: Task) -> float | None:
        """Seconds of a task, by the means of its parts; None before any was measured."""
        if not self._seconds:
            return None
        means = {name: sum(each) / len(each) for name, each in self._seconds.items()}
        given = task["attacks"].values() if task["kind"] == "cell" else ()
        attacks = [attack["name"] for attack in given]
        usual = sum(means.values()) / len(means)  # of an attack that none has finished yet
        return means[""] + sum(means.get(name, usual) for name in attacks)

    def _foresee(self) -> None:
        now = self.clock()
        running = [(now - began, self._expected(task)) for began, task in self._begun.values()]
        known = [*self._whole, *(each for _, each in running if each is not None)]
        if not known:
            return
        usual = sum(known) / len(known)
        rest = sum(max((each or usual) - spent, 0.05 * usual) for spent, each in running)
        rest += max(0, self.tasks - self.done - len(running)) * usual
        left = rest / min(self.workers, max(1, self.tasks - self.done))
        end = now + left
        self._end = end if self._end is None else self._end + (end - self._end) / 4

    @property
    def share(self) -> float:
        return (self.done + sum(self.parts.values())) / max(self.tasks, 1)

    def left(self) -> float | None:
        """Seconds that are left; None while nothing ended and it is early.

        The first parts of the first tasks are slow: they load what later ones have.
        """
        early = not self._whole and self.clock() - self.started < _EARLY
        if self._end is None or early:
            return None
        return max(0.0, self._end - self.clock())


class Lines:
    """One line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._last = 0.0

    def begin(self, stage: str, tasks: int, workers: int) -> None:
        """Says what begins."""
        self._count, self._stage = _Count(tasks, workers), stage
        self._last = time.monotonic()
        self._say(f"{stage}: {tasks} to do on {workers} worker{'s' if workers != 1 else ''}")

    def event(self, worker: int, task: Task, event: Event) -> None:
        """Says where it stands, at intervals."""
        self._count.take(worker, task, event)
        if time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            left = self._count.left()
            rest = "" if left is None else f", about {duration(left)} left"
            done = f"{self._count.done} of {self._count.tasks} done"
            self._say(f"{self._stage}: {done}{rest}; now {task['title']}")

    def end(self) -> None:
        """Says how it ended."""
        failed = f", {self._count.failed} failed" if self._count.failed else ""
        self._say(f"{self._stage}: {self._count.done} of {self._count.tasks} done{failed}")

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Screen:
    """Bars on a terminal: one for all, one for each worker."""

    def begin(self, stage: str, tasks: int, workers: int) -> None:
        """Draws the bars."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._count = _Count(tasks, workers)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._all = self._bars.add_task(stage, total=tasks, state="")
        self._each = {
            number: self._bars.add_task(f"worker {number + 1}", total=1.0, state="starting")
            for number in range(min(workers, tasks))
        }
        self._bars.start()

    def event(self, worker: int, task: Task, event: Event) -> None:
        """Moves the bars."""
        self._count.take(worker, task, event)
        left = self._count.left()
        state = f"{self._count.done} of {self._count.tasks} done"
        if left is not None:
            state += f", about {duration(left)} left"
        self._bars.update(self._all, completed=self._count.share * self._count.tasks, state=state)
        stage = event.get("stage", "")
        if worker in self._each:
            self._bars.update(
                self._each[worker],
                completed=self._count.parts.get(worker, 0.0),
                state=f"{task['title']}{': ' + stage if stage else ''}",
            )

    def end(self) -> None:
        """Takes the bars away."""
        self._bars.stop()


def make_monitor() -> Any:
    """What fits where we are; None with --quiet."""
    if settings.quiet:
        return None
    return Screen() if sys.stderr.isatty() else Lines()
