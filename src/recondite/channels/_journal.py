"""A file to which a ledger writes every use before it happens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = ["Journal"]

_FORMAT = "recondite-ledger 1"


class Journal:
    """Lines of JSON, appended and read back, by several processes if need be.

    Guarantee: once :meth:`write` returns, the line outlives the process, however that ends; with
    ``durable`` it outlives the machine too. A line that a kill cut short is skipped: what it
    announces had not happened.

    Args:
      path: The file, created if missing, for its owner only: it tells which records were used.
      records: How many records the set has.
    """

    def __init__(self, path: Any, records: int) -> None:
        self._path = Path(path)
        self._read_to = 0
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            number = os.open(self._path, flags, 0o600)
            self._file = os.fdopen(number, "r+b", buffering=0)  # stays open as long as the journal
        except OSError as error:
            raise ValueError(f"ledger {path} cannot be written: {error.strerror}") from None
        size = self._file.seek(0, os.SEEK_END)
        if size == 0:
            self.write({"format": _FORMAT, "records": records}, durable=True)
        else:
            self._file.seek(size - 1)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")
        first = self.read(1)
        if not first or first[0].get("format") != _FORMAT:
            raise ValueError(f"ledger {path} is not a file written by recondite")
        if first[0]["records"] != records:
            raise ValueError(
                f"ledger {path} is of {first[0]['records']} records, these are {records}: "
                "give each set its own"
            )

    def write(self, line: dict[str, Any], *, durable: bool = False) -> None:
        """Appends a line."""
        text = (json.dumps(line, separators=(",", ":")) + "\n").encode()
        try:
            if self._file.write(text) != len(text):
                raise OSError(0, "it was cut short")
            if durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise ValueError(f"ledger {self._path} cannot be written: {error.strerror}") from None

    def read(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the complete lines since the last call, ``limit`` at most."""
        number = self._file.fileno()
        size = os.fstat(number).st_size
        if size <= self._read_to:
            return []
        # At a place of its own: a forked process shares this file's position.
        content = os.pread(number, size - self._read_to, self._read_to)
        lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)[:limit]
        self._read_to += sum(map(len, lines))
        return [parsed for parsed in map(_parsed, lines) if parsed is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
