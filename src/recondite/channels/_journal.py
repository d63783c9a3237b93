"""A file to which a ledger writes every use before it happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recondite._files import checked, sealed
from recondite._locks import Log

__all__ = ["Journal"]

_FORMAT = "recondite-ledger 1"


class Journal:
    """Lines of JSON, appended and read back, by several processes if need be.

    Guarantee: that of :class:`recondite._locks.Log`; a line that was damaged later, or edited
    without its checksum, is refused. Lines of version 0.1.0 have no checksum and are taken as
    they are.

    Args:
      path: The file, created if missing, for its owner only: it tells which records were used.
      records: How many records the set has.
    """

    def __init__(self, path: Any, records: int) -> None:
        self._path = Path(path)
        self._lines = 0
        try:
            self._log = Log(self._path, mode=0o600)
            new = self._path.stat().st_size == 0
        except OSError as error:
            raise ValueError(f"ledger {path} cannot be written: {error.strerror}") from None
        if new:
            self.write({"format": _FORMAT, "records": records}, durable=True)
        try:
            first = self.read(1)[0]
            if first["format"] != _FORMAT:
                raise ValueError
        except (ValueError, LookupError):
            raise ValueError(f"ledger {path} is not a file written by recondite") from None
        if first["records"] != records:
            raise ValueError(
                f"ledger {path} is of {first['records']} records, these are {records}: "
                "give each set its own"
            )

    def write(self, line: dict[str, Any], *, durable: bool = False) -> None:
        """Appends a line, whole or not at all."""
        try:
            text = json.dumps(sealed(line), separators=(",", ":"))
            self._log.append(text.encode(), durable=durable)
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"ledger {self._path} cannot be written: {reason}") from None

    def read(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the complete lines since the last call, ``limit`` at most.

        Raises:
          ValueError: One of them is damaged: uses may be missing.
        """
        found = []
        for line in self._log.read(limit):
            self._lines += 1
            try:
                found.append(checked(json.loads(line)))
            except (ValueError, AttributeError):
                raise ValueError(
                    f"ledger {self._path} is damaged in line {self._lines}, and uses may be "
                    "missing: put back the file as it was written, or start a new one and add "
                    "what both tell"
                ) from None
        return found
