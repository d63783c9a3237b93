"""Tasks on processes of this machine.

Workers are plain child processes that read tasks and write events as lines of JSON: nothing is
pickled, a script that calls us needs no ``if __name__ == "__main__"``, and a worker whose parent
is gone sees the end of its input and goes too.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from recondite.studies.executors.base import OnEvent
from recondite.studies.shapes import Event, Task

__all__ = ["LocalExecutor"]

_TRIES = 2  # a task whose worker died gets one more


@dataclass(eq=False)
class _Worker:
    """A child process and the task it has."""

    number: int
    process: subprocess.Popen[bytes]
    task: Task | None = None
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=5))

    def give(self, task: Task) -> None:
        self.task = task
        assert self.process.stdin is not None
        try:
            self.process.stdin.write((json.dumps(task) + "\n").encode())
            self.process.stdin.flush()
        except OSError:
            pass  # it is dead: the end of its output says so


class LocalExecutor:
    """Runs tasks on ``workers`` processes, one thread each.

    Args:
      workers: How many; by default one for each core.
    """

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._events: queue.Queue[tuple[_Worker, Event | None]] = queue.Queue()
        self._running: dict[int, _Worker] = {}

    def run(self, tasks: Sequence[Task], on_event: OnEvent) -> None:
        """Runs all tasks; see :class:`~recondite.studies.executors.base.Executor`."""
        waiting = deque(tasks)
        tries: dict[int, int] = {}
        left = len(waiting)
        for number in range(min(self.workers, left)):
            worker = self._running.get(number) or self._start(number)
            worker.give(waiting.popleft())
        while left:
            try:
                worker, event = self._events.get(timeout=1.0)
            except queue.Empty:
                continue
            task = worker.task
            if event is None:
                self._running.pop(worker.number, None)
                if task is None:
                    continue
                event = self._died(worker, task, tries)
                fresh = self._start(worker.number)
                if event is None:
                    fresh.give(task)
                    continue
                worker = fresh
            if task is None:
                continue
            on_event(worker.number, task, event)
            if event["type"] in ("done", "error"):
                left -= 1
                worker.task = None
                if waiting:
                    worker.give(waiting.popleft())

    def close(self) -> None:
        """Ends all workers at once: what they had finished is with the parent already."""
        for worker in self._running.values():
            worker.process.kill()
        for worker in self._running.values():
            worker.process.wait()
        self._running.clear()

    def _died(self, worker: _Worker, task: Task, tries: dict[int, int]) -> Event | None:
        """None for another try, or the error to report."""
        tries[id(task)] = tries.get(id(task), 1) + 1
        if tries[id(task)] <= _TRIES:
            return None
        code = worker.process.wait()
        how = f"with exit code {code}"
        if code < 0:
            how = f"by signal {signal.Signals(-code).name}"
        last = f" ({worker.errors[-1]})" if worker.errors else ""
        hint = ": out of memory?" if code == -9 else ""
        return {"type": "error", "reason": f"the worker process was ended {how}{hint}{last}"}

    def _start(self, number: int) -> _Worker:
        paths = [path or os.getcwd() for path in sys.path]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "recondite.studies.executors.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers itself
        )
        worker = _Worker(number, process)
        self._running[number] = worker
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        threading.Thread(target=_complaints, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        for line in worker.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                break
            self._events.put((worker, event))
        worker.process.wait()
        self._events.put((worker, None))


def _complaints(worker: _Worker) -> None:
    """Keeps the last lines a worker wrote to standard error."""
    assert worker.process.stderr is not None
    for line in worker.process.stderr:
        text = line.decode(errors="replace").strip()
        if text:
            worker.errors.append(text)
