"""The releases of one client, on disk before they leave: kept over rounds, runs and restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["MemoryLedger", "ReleaseLedger"]

_FORMAT = "recondite-federated-ledger 1"
_CONFIG = "recondite.ledger"


class ReleaseLedger:
    """One JSON line a release, and the bytes of the last one.

    Guarantee: once :meth:`write` returns, the line outlives a crash of the machine. A line is
    written before its release leaves, so what may have left is counted; a line has the key of its
    round, so it is counted once. Files can be read by their owner only: they tell when a client
    trained, and the stored release is what the server got.

    Args:
      folder: Where the ledger lives, for one client; created if missing.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = self.folder / "releases.jsonl"
            if not self._path.exists() or self._path.stat().st_size == 0:
                self._append({"format": _FORMAT})
        except OSError as error:
            raise ValueError(f"ledger {folder} cannot be written: {error.strerror}") from None
        self._read()

    @property
    def durable(self) -> bool:
        """Whether it outlives the process."""
        return True

    def lines(self) -> list[dict[str, Any]]:
        """Every release, oldest first, each key once."""
        return list(self._read().values())

    def write(self, line: dict[str, Any]) -> None:
        """Appends a release, on disk before this returns. A key that is there stays one line."""
        self._append(line)

    def stored(self, key: str) -> bytes | None:
        """The bytes of a release that may have left, if they are the last ones."""
        path = self._outbox(key)
        return path.read_bytes() if path.exists() else None

    def store(self, key: str, content: bytes) -> None:
        """Keeps the bytes of a release, on disk before this returns; forgets older ones."""
        box = self.folder / "outbox"
        box.mkdir(mode=0o700, exist_ok=True)
        draft = box / f".{key}.part"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._outbox(key))
        _sync_folder(box)
        for old in box.iterdir():
            if old != self._outbox(key):
                old.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One release at a time, across processes."""
        descriptor = os.open(self.folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _outbox(self, key: str) -> Path:
        return self.folder / "outbox" / f"{key}.bin"

    def _append(self, line: dict[str, Any]) -> None:
        # The newline in front ends a line that a kill cut short: it must not swallow this one.
        text = f"\n{json.dumps(line, separators=(',', ':'), allow_nan=False)}\n".encode()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self._path, flags, 0o600)
        try:
            if os.write(descriptor, text) != len(text):
                raise ValueError(f"ledger {self._path} cannot be written: the disk may be full")
            os.fsync(descriptor)
        except OSError as error:
            raise ValueError(f"ledger {self._path} cannot be written: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        first = None
        for text in self._path.read_bytes().splitlines():
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut short by a kill: what it announces had not left
            first = line if first is None else first
            if "key" in line:
                found.setdefault(line["key"], line)
        if not isinstance(first, dict) or first.get("format") != _FORMAT:
            raise ValueError(f"ledger {self._path} is not a file written by recondite")
        return found


class MemoryLedger:
    """The same in Flower's own context: kept over rounds, lost when the SuperNode stops.

    Args:
      context: The ``Context`` of the client app.
    """

    durable = False

    def __init__(self, context: Any) -> None:
        self._state = context.state

    def lines(self) -> list[dict[str, Any]]:
        """Every release, oldest first."""
        return [json.loads(text) for text in self._record().get("lines", [])]

    def write(self, line: dict[str, Any]) -> None:
        """Appends a release."""
        record = self._record()
        texts = [*record.get("lines", []), json.dumps(line, allow_nan=False)]
        self._put({**record, "lines": texts})

    def stored(self, key: str) -> bytes | None:
        """The bytes of the last release, if it has this key."""
        record = self._record()
        content: bytes | None = record["bytes"] if record.get("key") == key else None
        return content

    def store(self, key: str, content: bytes) -> None:
        """Keeps the bytes of a release; forgets older ones."""
        self._put({**self._record(), "key": key, "bytes": content})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A context belongs to one call at a time."""
        yield

    def _record(self) -> dict[str, Any]:
        records = self._state.config_records
        return dict(records[_CONFIG]) if _CONFIG in records else {}

    def _put(self, values: dict[str, Any]) -> None:
        from recondite.federated.flower import flower

        self._state.config_records[_CONFIG] = flower().ConfigRecord(values)


def _sync_folder(folder: Path) -> None:
    """A renamed file is on disk only once its folder is."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
