"""Rows on disk: appended whole, read back whole, whatever happens in between.

``records.jsonl`` holds one JSON object a line. A line is written in one go and flushed to the disk
before anything else happens, so a run that is killed has lost at most the line it was writing,
which is cut off when the file is opened again.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recondite._files import write_atomically
from recondite._locks import InUse, Log
from recondite.studies.shapes import Row

__all__ = ["GALLERY", "RECORDS", "STUDY", "Store", "StoreError", "load", "read_lines", "read_study"]

RECORDS, STUDY, GALLERY = "records.jsonl", "study.json", "gallery"


class StoreError(RuntimeError):
    """Rows cannot be written: in one line, with what to do."""


class Store:
    """An append-only file of JSON objects with a ``key``, for one writer at a time.

    Guarantee: after :meth:`append` returns, the row survives the death of the process and of the
    machine. Rows that were there are never changed. Where a key occurs twice, the last row counts.

    Args:
      folder: Where the file is; made if missing.
      name: The file's name.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str = RECORDS) -> None:
        self.folder = Path(folder)
        self.path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._log = Log(self.path, alone=True, mode=0o644)
        except InUse:
            raise StoreError(
                f"{self.folder} is being written by another process: wait for it, or give another "
                "--out"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot write to {self.folder}: {_reason(error)}") from error
        self.rows = {row["key"]: row for row in read_lines(self.path)}

    def append(self, row: Row) -> None:
        """Adds a row, safely on the disk when this returns."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        try:
            self._log.append(line)
        except OSError as error:
            raise StoreError(
                f"cannot write to {self.path}: {_reason(error)}: what was finished is kept; make "
                "room and run the same command again"
            ) from error
        self.rows[row["key"]] = row

    def put(self, name: str, content: bytes) -> None:
        """Writes another file of the run, whole or not at all."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise StoreError(
                f"cannot write {path}: {_reason(error)}: what was finished is kept; make room and "
                "run the same command again"
            ) from error

    def close(self) -> None:
        """Lets go of the file, and of the lock with it."""
        self._log.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_lines(path: str | os.PathLike[str]) -> list[Row]:
    """The rows of a file in order; a torn or unreadable line is left out."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return []
    parse = _parser()
    rows = []
    with _no_collection():
        for line in content.split(b"\n"):
            try:
                row = parse(line) if line else None
            except ValueError:
                continue
            if isinstance(row, dict) and "key" in row:
                rows.append(row)
    return rows


def _parser() -> Callable[[bytes], Any]:
    """The parser of pydantic, twice as fast as Python's, where it is installed."""
    try:
        from pydantic_core import from_json
    except ImportError:
        return json.loads
    return from_json


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps the garbage collector from looking through all rows again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_study(run: str | os.PathLike[str]) -> Row:
    """``study.json`` of a run; empty where there is none."""
    try:
        found = json.loads((Path(run) / STUDY).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def load(run: str | os.PathLike[str], *, every: bool = False) -> list[Row]:
    """The rows of a run, one for each key, in the order of the study.

    Args:
      run: The run's folder, or a records file.
      every: Also rows that the study, as it is now, no longer asks for.

    Raises:
      ValueError: In one line, where there is no run.
    """
    folder = Path(run)
    path = folder if folder.is_file() else folder / RECORDS
    if not path.exists():
        raise ValueError(f"{folder} holds no {RECORDS}: give the folder of a run")
    rows = {row["key"]: row for row in read_lines(path)}
    wanted: Iterable[str] | None = None if folder.is_file() else read_study(folder).get("keys")
    if every or wanted is None:
        return list(rows.values())
    return [rows[key] for key in wanted if key in rows]


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
