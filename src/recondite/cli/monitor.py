"""Progress of a comparison on standard error: overall and worker by worker, with time left."""

from __future__ import annotations

import sys
import time
from typing import Any

from recondite.cli.output import settings

__all__ = ["Lines", "Screen", "make_monitor"]

_EVERY = 15.0  # seconds between two lines where there is no terminal


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class _Count:
    """How much is done, parts of running tasks included, and how long the rest will take."""

    def __init__(self, tasks: int) -> None:
        self.tasks, self.done, self.failed = tasks, 0, 0
        self.started = time.monotonic()
        self.parts: dict[int, float] = {}

    def take(self, worker: int, task: dict[str, Any], event: dict[str, Any]) -> None:
        kind = event["type"]
        steps = 1 + len(task.get("attacks", ()))
        if kind == "progress":
            whole = self.parts.get(worker, 0.0)
            self.parts[worker] = (int(whole * steps + 1e-9) + min(event["done"], 0.99)) / steps
        elif kind == "row":
            finished = int(self.parts.get(worker, 0.0) * steps + 1e-9)
            self.parts[worker] = min(max(finished, 0) + 1, steps) / steps
            self.failed += event["row"].get("status") == "failed"
        else:
            self.done += 1
            self.parts[worker] = 0.0

    @property
    def share(self) -> float:
        return (self.done + sum(self.parts.values())) / max(self.tasks, 1)

    def left(self) -> float | None:
        spent, share = time.monotonic() - self.started, self.share
        return None if share < 0.01 or spent < 2.0 else spent * (1.0 - share) / share


class Lines:
    """One line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._last = 0.0

    def begin(self, stage: str, tasks: int, workers: int) -> None:
        """Says what begins."""
        self._count, self._stage = _Count(tasks), stage
        self._last = time.monotonic()
        self._say(f"{stage}: {tasks} to do on {workers} worker{'s' if workers != 1 else ''}")

    def event(self, worker: int, task: dict[str, Any], event: dict[str, Any]) -> None:
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

        self._count = _Count(tasks)
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

    def event(self, worker: int, task: dict[str, Any], event: dict[str, Any]) -> None:
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
