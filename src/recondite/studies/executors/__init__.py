"""Where tasks run: on processes of this machine, or on a Ray cluster. The results are the same."""

from __future__ import annotations

from recondite.studies.executors.base import Executor, OnEvent, Task

__all__ = ["Executor", "OnEvent", "Task", "make_executor"]

ENGINES = ("local", "ray")


def make_executor(name: str, workers: int | None = None) -> Executor:
    """An executor by its name.

    Args:
      name: "local" or "ray".
      workers: Tasks at a time; by default as many as there are cores.
    """
    from recondite import _validate

    _validate.choice("engine", name, ENGINES)
    if workers is not None:
        _validate.at_least("workers", workers, 1)
    if name == "ray":
        from recondite.studies.executors.ray import RayExecutor

        return RayExecutor(workers)
    from recondite.studies.executors.local import LocalExecutor

    return LocalExecutor(workers)
