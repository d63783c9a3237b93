"""A worker process: tasks on standard input, events on standard output, one JSON object a line."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading

from recondite.studies.shapes import Event, Task

__all__ = ["main"]


def main() -> None:
    """Runs tasks until the input ends; then, or when the parent is gone, ends at once."""
    # Whatever a person's own code prints must not end up between the events.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    tasks: queue.Queue[Task] = queue.Queue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()

    def emit(event: Event) -> None:
        try:
            out.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n")
            out.flush()
        except OSError:
            os._exit(1)

    from recondite.studies.tasks import run_task

    while True:
        run_task(tasks.get(), emit)


def _read(tasks: queue.Queue[Task]) -> None:
    for line in sys.stdin:
        tasks.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
