"""Time and peak memory of a task in a process of its own.

The child prepares its inputs, sets the kernel's high-water mark of resident memory back to what
is resident now (``/proc/self/clear_refs``), runs the task and reads the mark again. What lies
between is the peak above the input. Tensors and arrays of this size come straight from the
system (mmap), so memory that was freed before does not hide new use.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.rows import SkipBenchmark

__all__ = ["Sample", "in_child"]

_ROOT = Path(__file__).resolve().parent.parent
_SHORT = 0.5  # seconds below which a task is repeated
_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass(frozen=True)
class Sample:
    """One run of a task.

    Attributes:
      seconds: How long it took, preparation and start-up not counted (the median if it is short).
      peak_bytes: How far resident memory rose above what it was before, at its highest.
      result: What the task returned; it must fit into JSON.
    """

    seconds: float
    peak_bytes: int
    result: Any


def in_child(prepare: Callable[..., Callable[[], Any]], *arguments: Any) -> Sample:
    """Calls ``prepare(*arguments)()`` in a fresh Python process and measures the second call."""
    if not _CLEAR.exists():
        raise SkipBenchmark("peak memory is read from /proc/self/clear_refs, which is Linux only")
    target = f"{prepare.__module__}:{prepare.__qualname__}"
    command = [sys.executable, "-m", "benchmarks.processes", target, json.dumps(arguments)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{target}: {last[0]}")
    return Sample(**json.loads(done.stdout.splitlines()[-1]))


def _resident(field: str) -> int:
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def _main(target: str, arguments: str) -> None:
    module, function = target.split(":")
    task = getattr(import_module(module), function)(*json.loads(arguments))
    _CLEAR.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    seconds: list[float] = []
    peak, result = 0, None
    while not seconds or (sum(seconds) < _SHORT and len(seconds) < 5):
        start = time.perf_counter()
        result = task()
        seconds.append(time.perf_counter() - start)
        peak = peak or _resident("VmHWM") - before
    sample = Sample(statistics.median(seconds), peak, result)
    print(json.dumps(asdict(sample)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
