"""Where a job's rows go: one small JSON file, written anew after every block."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._files import write_atomically
from recondite._version import __version__
from recondite_papers.tables.cells import Row

__all__ = ["Context", "Row", "Sink", "provenance"]

# Raised when blocks change their meaning: what an older version stored is computed again.
_SCHEMA = 2


def provenance(device: str) -> dict[str, Any]:
    """What a reader needs to know of where numbers come from."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    return {
        "recondite": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device} ({name})",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "simulation": "noise and batches follow from seeds: no run here protects anybody",
    }


@dataclass
class Sink:
    """Rows of a job, by block; a block that is there is not computed again.

    Attributes:
      path: The file; None keeps rows in memory only.
      job: The job's name.
      device: Where it runs.
      quick: Whether this is a quick version.
      small: Whether this is the version between quick and full.
      rows: All rows so far.
    """

    path: Path | None
    job: str
    device: str
    quick: bool = False
    rows: list[Row] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    head: Row = field(default_factory=dict)
    small: bool = False

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            stored = json.loads(self.path.read_text())
            size = stored.get("quick", False), stored.get("small", False)
            if stored.get("schema_version") == _SCHEMA and size == (self.quick, self.small):
                self.rows, self.done = stored["rows"], set(stored["blocks"])
        self.head = {"schema_version": _SCHEMA, "job": self.job, "quick": self.quick}
        if self.small:
            self.head["small"] = True
        self.head["provenance"] = provenance(self.device)

    def write(self, block: str, rows: list[Row]) -> None:
        """Adds a block's rows and writes the file."""
        # Rounded at once, so that a resumed job sees what a fresh one did.
        self.rows += [_rounded({"block": block, **row}) for row in rows]
        self.done.add(block)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {**self.head, "blocks": sorted(self.done), "rows": self.rows}
        lines = ",\n  ".join(json.dumps(row) for row in content.pop("rows"))
        text = json.dumps(content, indent=1)[:-2] + f',\n "rows": [\n  {lines}\n ]\n}}\n'
        write_atomically(self.path, text)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


@dataclass
class Context:
    """What every job is given.

    Attributes:
      device: "cpu" or "cuda".
      data_dir: Where data sets are.
      out: Folder for results; None for none.
      quick: A small version: fewer seeds, records, images and iterations.
      minutes: The job stops before a block that would begin after so many minutes.
      say: Called with one line now and then.
      only: Parts of names: blocks that have none of them are left out.
      tag: Part of the names of files, for calls that share a job.
      small: A version between quick and full, for numbers on a page where no GPU is at hand.
    """

    device: str = "cpu"
    data_dir: str | None = None
    out: Path | None = None
    quick: bool = False
    minutes: float = 60.0
    say: Callable[[str], None] = print
    only: tuple[str, ...] = ()
    tag: str = ""
    small: bool = False
    began: float = field(default_factory=time.monotonic)
    sinks: dict[str, Sink] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """What a row says of a run that is not the full one."""
        if self.quick:
            return "quick"
        place = " on a CPU" if self.device == "cpu" else ""
        return f"small run{place}" if self.small else ""

    @property
    def seconds(self) -> float:
        """What an attack may take: all that is left of the job's time, and a minute at least."""
        return max(60.0, 60 * self.minutes - (time.monotonic() - self.began))

    def pick(self, quick: Any, small: Any, full: Any) -> Any:
        """One of three, by the size of the run."""
        return quick if self.quick else small if self.small else full

    def sink(self, job: str) -> Sink:
        """The rows of a job."""
        if job not in self.sinks:
            name = f"{job}{self.tag and '.' + self.tag}{'-quick' if self.quick else ''}.json"
            path = None if self.out is None else self.out / name
            self.sinks[job] = Sink(path, job, self.device, self.quick, small=self.small)
        return self.sinks[job]

    def blocks(self, sink: Sink, blocks: dict[str, Callable[[], list[Row]]]) -> None:
        """Computes the blocks that are missing, until time is up."""
        for name, compute in blocks.items():
            if name in sink.done or (self.only and not any(o in name for o in self.only)):
                continue
            used = (time.monotonic() - self.began) / 60
            if used > self.minutes:
                self.say(f"{sink.job}: stopped before {name} after {used:.1f} minutes")
                return
            began = time.monotonic()
            rows = compute()
            seconds = time.monotonic() - began
            sink.write(name, [{**row, "block_seconds": seconds} for row in rows])
            self.say(f"{sink.job}: {name} in {seconds:.1f} s")
