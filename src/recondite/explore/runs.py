"""The runs that are open, by a name that a restart of the server does not change."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recondite.explore.question import Refused
from recondite.explore.worker import PROGRESS, SOURCE, running
from recondite.studies.store import RECORDS, STUDY

__all__ = ["Opened", "Runs", "ledgers_of", "results_of"]

_RESULTS = (RECORDS, "checkpoint.json", "rounds.csv", STUDY)


def results_of(path: Path) -> Path:
    """Where the server of a federation writes: the folder itself, or its ``results``."""
    inner = path / "results"
    return inner if inner.is_dir() else path


def ledgers_of(path: Path) -> Path | None:
    """The folder of the clients' ledgers, if there is one."""
    for place in (path / "ledgers", results_of(path) / "ledgers", path.parent / "ledgers"):
        if place.is_dir():
            return place
    return None


@dataclass(frozen=True)
class Opened:
    """A run that is open.

    Attributes:
      id: Its name in addresses: the same for the same folder.
      path: Its folder, or a records file.
      title: Its name for people, where the folder's is none.
    """

    id: str
    path: Path
    title: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return self.title or self.path.resolve().name

    @property
    def federation(self) -> bool:
        """Whether it has rounds: ledgers, a server's checkpoint, or evidence of a round."""
        if self.path.is_file():
            return False
        inside = results_of(self.path)
        marks = (inside / "checkpoint.json", inside / "rounds.csv")
        own = (self.path / "ledgers").is_dir() or (inside / "ledgers").is_dir()
        return own or any(mark.exists() for mark in marks) or _has_rounds(inside / RECORDS)

    def to_dict(self) -> dict[str, Any]:
        """For the page."""
        return {
            "id": self.id,
            "name": self.name,
            "path": self.title or str(self.path),
            "federation": self.federation,
            "running": self.path.is_dir() and running(self.path),
            "ours": (self.path / SOURCE).exists(),
        }


class Runs:
    """Runs by id, and those that a folder of studies holds.

    Args:
      out: Where studies from the form go; what lies there is listed too.
      given: Paths to open at once.

    Raises:
      ValueError: In one line, where a path is no run.
    """

    def __init__(self, out: Path, given: Iterable[Path] = ()) -> None:
        self.out = out
        self._open: dict[str, Opened] = {}
        self._lock = threading.Lock()
        for path in given:
            self.open(path)

    def open(self, path: Path, title: str = "") -> list[Opened]:
        """Opens a run, a records file, or every federation of a folder of them.

        Raises:
          Refused: In one line.
        """
        found = [path] if _is_run(path) else []
        if not found and path.is_dir():
            found = [child for child in sorted(path.iterdir()) if child.is_dir() and _is_run(child)]
        if not found:
            what = f"holds no {RECORDS}" if path.exists() else "is not there"
            raise Refused("path", f"{path} {what}: give the folder of a run")
        opened = [Opened(_id(each), each, title) for each in found]
        with self._lock:
            self._open.update({each.id: each for each in opened})
        return opened

    def listed(self) -> list[Opened]:
        """Every run that is open, then those in the folder of studies."""
        with self._lock:
            found = dict(self._open)
        if self.out.is_dir():
            for child in sorted(self.out.iterdir()):
                if child.is_dir() and _is_run(child):
                    found.setdefault(_id(child), Opened(_id(child), child))
        return list(found.values())

    def find(self, name: str) -> Opened:
        """A run by its id.

        Raises:
          Refused: It is not open here.
        """
        for each in self.listed():
            if each.id == name:
                return each
        raise Refused("run", "this run is not open: open its folder again")


def _is_run(path: Path) -> bool:
    if path.is_file():
        return path.suffix == ".jsonl"
    marks = (*_RESULTS, SOURCE, PROGRESS)
    inside = any((results_of(path) / name).exists() for name in marks)
    return inside or (path / "ledgers").is_dir()


def _has_rounds(path: Path) -> bool:
    """Whether the first row of a run belongs to a round."""
    try:
        with path.open("rb") as file:
            row = json.loads(file.readline())
    except (OSError, ValueError):
        return False
    return isinstance(row, dict) and isinstance(row.get("round"), int)


def _id(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
