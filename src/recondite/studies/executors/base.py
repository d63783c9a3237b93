"""What an executor does, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from recondite.studies.shapes import Event, Task

__all__ = ["Executor", "OnEvent", "Task"]

# Called in the executor's own thread with the worker's number, the task and the event.
OnEvent = Callable[[int, Task, Event], None]


class Executor(Protocol):
    """Runs tasks and hands their events on.

    Every task ends with one event ``done``, or ``error`` with a ``reason``: also where the process
    that ran it died, after a second try in a fresh one. What an event handler or an interruption
    raises ends the run; whatever was handed on before stays.
    """

    name: str
    workers: int

    def run(self, tasks: Sequence[Task], on_event: OnEvent) -> None:
        """Runs all tasks, several at a time, in their order as far as that goes."""

    def close(self) -> None:
        """Ends workers."""
