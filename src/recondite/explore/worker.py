"""A study in a process of its own: it outlives the server that started it, and stops when asked.

    python -m recondite.explore.worker FOLDER

The folder holds ``study.yaml``. Rows go to ``records.jsonl`` as with ``recondite compare``, which
can go on with the same folder. ``explore.json`` says where the study is; a file ``explore.stop``
ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recondite._files import write_atomically
from recondite._locks import InUse, Lock

if TYPE_CHECKING:
    from recondite.studies.executors import Task
    from recondite.studies.shapes import Event

__all__ = ["LOCK", "PROGRESS", "SOURCE", "STOP", "main", "progress_of", "running"]

SOURCE, PROGRESS, STOP, LOCK = "study.yaml", "explore.json", "explore.stop", "explore.lock"
_EVERY = 0.3  # seconds between two writes of the progress
_TRIES = 20  # a look at the lock takes it for a moment


def running(folder: Path) -> bool:
    """Whether a study is at work in a folder: its process holds the lock."""
    path = folder / LOCK
    if not path.exists():
        return False
    try:
        Lock(path).release()
    except InUse:
        return True
    except OSError:
        return False
    return False


def progress_of(folder: Path) -> dict[str, Any]:
    """Where the study of a folder is, in words: a process that was killed left "running" behind."""
    try:
        found = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = {}
    state = found.get("state", "") if isinstance(found, dict) else ""
    if running(folder):
        return {**found, "state": "stopping" if (folder / STOP).exists() else state or "starting"}
    if state in ("starting", "running"):
        return {**found, "state": "killed"}
    return found if isinstance(found, dict) else {}


class _Progress:
    """A monitor that writes a small file."""

    def __init__(self, folder: Path) -> None:
        self._path, self._last = folder / PROGRESS, 0.0
        self._now: dict[str, Any] = {"state": "starting", "done": 0, "tasks": 0, "failed": 0}

    def begin(self, stage: str, tasks: int, workers: int) -> None:
        """A stage begins."""
        self.say(state="running", stage=stage, tasks=tasks, workers=workers, done=0)

    def event(self, worker: int, task: Task, event: Event) -> None:
        """Something happened in a worker."""
        del worker
        kind = event["type"]
        self._now["now"] = str(task["title"])
        self._now["done"] += kind in ("done", "error")
        if kind == "row":
            self._now["failed"] += event["row"].get("status") == "failed"
        if kind != "progress" or time.monotonic() - self._last > _EVERY:
            self.say()

    def end(self) -> None:
        """A stage is over."""
        self.say()

    def say(self, **more: Any) -> None:
        self._now.update(more)
        self._last = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk: the rows' own writer says so
            write_atomically(self._path, json.dumps(self._now))


def _heed(path: Path) -> None:
    """Interrupts the study, as Ctrl-C does, once somebody asks for it."""
    while not path.exists():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def _locked(folder: Path) -> Lock | None:
    for _ in range(_TRIES):
        with contextlib.suppress(InUse):
            return Lock(folder / LOCK)
        time.sleep(0.05)
    return None


def main(folder: Path, workers: int | None = None) -> int:
    """Runs the study of a folder until it is finished or stopped."""
    # Whoever is started in the background of a shell inherits that interruptions are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lock = _locked(folder)
    if lock is None:
        print(f"{folder} is being written by another process", file=sys.stderr)
        return 2
    progress = _Progress(folder)
    try:
        (folder / STOP).unlink(missing_ok=True)
        progress.say()
        threading.Thread(target=_heed, args=(folder / STOP,), daemon=True).start()
        return _run(folder, progress, workers)
    except KeyboardInterrupt:
        progress.say(state="stopped", line="stopped; what was finished is kept")
        return 130
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        progress.say(state="failed", line=" ".join(str(error).split()))
        return 1
    finally:
        (folder / STOP).unlink(missing_ok=True)
        lock.release()


def _run(folder: Path, progress: _Progress, workers: int | None) -> int:
    from recondite.report import build
    from recondite.studies.runner import compare
    from recondite.studies.study import read_study

    study, _ = read_study(folder / SOURCE)
    outcome = compare(study, folder, workers=workers, monitor=progress)
    progress.say(line="building the report")
    build([folder], folder / "report.html")
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    line = f"{len(outcome.rows)} rows{failed}"
    progress.say(state="finished", line=line, seconds=round(outcome.seconds, 1))
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *(int(text) for text in sys.argv[2:3])))
