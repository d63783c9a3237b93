"""The releases of one client, on disk before they leave: kept over rounds, runs and restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from recondite._files import SEAL, checked, create, sealed
from recondite._locks import Lock, Log

__all__ = ["Drawn", "Line", "ReleaseLedger"]

_FORMAT = "recondite-federated-ledger 2"
_OLDER = "recondite-federated-ledger 1"  # without checksums
_LOST = "restore it from a backup, or begin a new folder with a budget less what was spent"


class Drawn(TypedDict, total=False):
    """How the batches of a release were drawn; of a channel only ``steps``, its uses."""

    sampling: str
    steps: int
    passes: int
    batch_size: int
    records: int


class Line(TypedDict, total=False):
    """One release, as it is stored: what is noised by a mechanism, or the channel's own account."""

    key: str
    run: str
    round: int | None
    node: str
    level: str
    simulation: bool
    at: str
    mechanism: str
    parameters: Mapping[str, Any]
    schedule: Drawn
    channel: Mapping[str, Any]
    noise_at: str
    share: Mapping[str, Any]


class ReleaseLedger:
    """One JSON line a release, and the bytes of the last one.

    Guarantee: once :meth:`write` returns, the line outlives a crash of the machine. A line is
    written before its release leaves, so what may have left is counted; a line has the key of its
    round, so it is counted once. Files can be read by their owner only: they tell when a client
    trained, and the stored release is what the server got.

    A damaged ledger is refused, not read as a smaller one: every line has a checksum, a line that
    a kill cut short is passed over only at the end of the file, and a folder that holds releases
    without a ledger has lost it. Assumes that its owner does not change it on purpose: removing
    whole lines, or the whole folder, is not noticed.

    Args:
      folder: Where the ledger lives, for one client; created if missing.

    Raises:
      ValueError: The ledger cannot be written, is damaged, or was deleted.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = self.folder / "releases.jsonl"
            if not self._path.exists() or b"\n" not in self._path.read_bytes():
                if any((self.folder / name).exists() for name in ("outbox", ".lock")):
                    raise ValueError(f"ledger {self._path} was deleted, not its releases: {_LOST}")
                self._append({"format": _FORMAT})
        except OSError as error:
            raise ValueError(f"ledger {folder} cannot be written: {error.strerror}") from None
        self._read()

    def lines(self) -> list[Line]:
        """Every release, oldest first, each key once."""
        return list(self._read().values())

    def write(self, line: Line) -> None:
        """Appends a release, on disk before this returns. A key that is there stays one line."""
        self._append(sealed({**line}))

    def stored(self, key: str) -> bytes | None:
        """The bytes of a release that may have left, if they are the last ones."""
        path = self._outbox(key)
        return path.read_bytes() if path.exists() else None

    def store(self, key: str, content: bytes) -> None:
        """Keeps the bytes of a release, on disk before this returns; forgets older ones."""
        box = self.folder / "outbox"
        box.mkdir(mode=0o700, exist_ok=True)
        for old in box.iterdir():  # of this round too: what was stored and not counted never left
            old.unlink(missing_ok=True)
        create(self._outbox(key), content)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One release at a time, across processes."""
        lock = Lock(self.folder / ".lock", wait=True)
        try:
            yield
        finally:
            lock.release()

    def _outbox(self, key: str) -> Path:
        return self.folder / "outbox" / f"{key}.bin"

    def _append(self, line: Mapping[str, Any]) -> None:
        try:
            log = Log(self._path, mode=0o600)
            try:
                log.append(_json(line).encode())
            finally:
                log.close()
        except OSError as error:
            raise ValueError(f"ledger {self._path} cannot be written: {error.strerror}") from None

    def _read(self) -> dict[str, Line]:
        found: dict[str, Line] = {}
        *whole, rest = self._path.read_bytes().split(b"\n")
        if _is_whole(rest):  # nothing was cut off but the end of the line, or more was put behind
            whole.append(rest)
        numbered = [(n, t) for n, t in enumerate(whole, 1) if t.strip()]
        first = _parsed(numbered[0][1]) if numbered else None
        if first is None or first.get("format") not in (_FORMAT, _OLDER):
            raise ValueError(f"ledger {self._path} is not a file written by recondite")
        for number, text in numbered[1:]:
            line = _sound(_parsed(text), first["format"])
            if line is None:
                raise ValueError(f"ledger {self._path} is damaged at line {number}: {_LOST}")
            found.setdefault(line["key"], line)
        return found


def _is_whole(text: bytes) -> bool:
    """Whether a text begins with a whole line: then it is no line that a kill cut short."""
    try:
        json.JSONDecoder().raw_decode(text.decode())
    except ValueError:
        return False
    return True


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _sound(line: dict[str, Any] | None, form: str) -> Line | None:
    """A line as it was written, without its checksum; None where it is not that."""
    if line is None or (SEAL not in line and form != _OLDER):
        return None
    try:
        plain = checked(line)
    except ValueError:
        return None
    found: Any = plain
    whole: Line = found
    return whole if isinstance(plain.get("key"), str) else None
