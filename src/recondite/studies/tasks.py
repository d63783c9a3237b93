"""What a worker runs: a task of plain data in, events of plain data out."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Callable

from recondite.studies.shapes import Event, Task

__all__ = ["plain_event", "run_task"]


def run_task(task: Task, emit: Callable[[Event], None]) -> None:
    """Runs a task; the last event is ``done``, or ``error`` where our own code broke.

    One thread: results then do not depend on the machine's cores, and workers do not get in each
    other's way.
    """
    import torch

    torch.set_num_threads(1)
    try:
        if task["kind"] == "cell":
            from recondite.studies.cell import run_cell

            run_cell(task, lambda event: emit(plain_event(event)))
        else:
            from recondite.studies.search import run_target

            run_target(task, lambda event: emit(plain_event(event)))
    except Exception as error:  # the worker lives on, and its parent is told
        reason = f"{type(error).__name__}: {error}"
        emit({"type": "error", "reason": reason, "trace": traceback.format_exc()})
        return
    emit({"type": "done"})


def plain_event(event: Event) -> Event:
    """The event with files as text."""
    gallery = event.get("gallery")
    if not isinstance(gallery, bytes):
        return event
    return {**event, "gallery": base64.b64encode(gallery).decode("ascii")}
