"""Tasks on a Ray cluster: the one that RAY_ADDRESS names, or a local one that starts by itself."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from recondite.studies.executors.base import OnEvent
from recondite.studies.shapes import Event, Task

__all__ = ["RayExecutor"]

_TRIES = 3  # of a task whose node or process dies


def stream(task: Task) -> Iterator[Event]:
    """Events of a task as they come: it runs in a thread, so that progress gets out meanwhile."""
    from recondite.studies.tasks import run_task

    events: queue.Queue[Event] = queue.Queue()
    threading.Thread(target=run_task, args=(task, events.put), daemon=True).start()
    while True:
        event = events.get()
        yield event
        if event["type"] in ("done", "error"):
            return


class RayExecutor:
    """Runs tasks on Ray, one core each.

    Args:
      workers: Tasks at a time; by default as many as the cluster has cores.
    """

    name = "ray"

    def __init__(self, workers: int | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ValueError(
                "engine ray needs Ray: pip install 'recondite[ray]', or use --engine local"
            ) from None
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        if self._started:
            options: dict[str, Any] = {}
            if not os.environ.get("RAY_ADDRESS"):
                options = {"num_cpus": workers, "include_dashboard": False}
            variables = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            ray.init(
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": variables},
                **options,
            )
        resources: dict[str, float] = self._ray.cluster_resources()
        cores = int(resources.get("CPU", 1))
        self.workers = max(1, min(workers or cores, cores))
        # Ray's own retries go on with a stream where it broke off, by the number of events: those
        # of another try, whose progress comes at other moments, would be taken for others.
        self._remote = ray.remote(num_cpus=1, max_retries=0)(stream)

    def run(self, tasks: Sequence[Task], on_event: OnEvent) -> None:
        """Runs all tasks; see :class:`~recondite.studies.executors.base.Executor`."""
        waiting = deque((task, _TRIES) for task in tasks)
        free = deque(range(self.workers))
        running: dict[Any, tuple[int, Task, int]] = {}
        try:
            while waiting or running:
                while waiting and free:
                    task, tries = waiting.popleft()
                    running[self._remote.options(num_returns="streaming").remote(task)] = (
                        free.popleft(),
                        task,
                        tries - 1,
                    )
                ready, _ = self._ray.wait(list(running), num_returns=1, timeout=1.0)
                for generator in ready:
                    number, task, tries = running[generator]
                    event = self._next(generator)
                    if event["type"] == "lost" and tries:
                        # A node or process died: rows that came are kept, and come again alike.
                        waiting.append((task, tries))
                    else:
                        event = {**event, "type": "error"} if event["type"] == "lost" else event
                        on_event(number, task, event)
                    if event["type"] in ("done", "error", "lost"):
                        del running[generator]
                        free.append(number)
        finally:
            for generator in running:
                self._ray.cancel(generator, force=True)

    def close(self) -> None:
        """Ends the local Ray, where we started one; leaves a cluster alone."""
        if self._started:
            self._ray.shutdown()

    def _next(self, generator: Any) -> Event:
        try:
            event: Event = self._ray.get(next(generator))
        except StopIteration:
            return {"type": "lost", "reason": "the task ended without a result"}
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0]
            return {"type": "lost", "reason": f"{type(error).__name__}: {reason}"}
        return event
