"""The releases of one client, on disk before they leave: kept over rounds, runs and restarts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["MemoryLedger", "ReleaseLedger"]

_FORMAT = "recondite-federated-ledger 2"
_OLDER = "recondite-federated-ledger 1"  # without checksums
_CUT = {"cut": True}
_LOST = "restore it from a backup, or begin a new folder with a budget less what was spent"
_CONFIG = "recondite.ledger"


class ReleaseLedger:
    """One JSON line a release, and the bytes of the last one.

    Guarantee: once :meth:`write` returns, the line outlives a crash of the machine. A line is
    written before its release leaves, so what may have left is counted; a line has the key of its
    round, so it is counted once. Files can be read by their owner only: they tell when a client
    trained, and the stored release is what the server got.

    A damaged ledger is refused, not read as a smaller one: every line has a checksum, a line that
    a kill cut short is passed over only where the next one says so, and a folder that holds
    releases without a ledger has lost it. Assumes that its owner does not change it on purpose:
    removing whole lines, or the whole folder, is not noticed.

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
            if not self._path.exists() or self._path.stat().st_size == 0:
                if any((self.folder / name).exists() for name in ("outbox", ".lock")):
                    raise ValueError(f"ledger {self._path} was deleted, not its releases: {_LOST}")
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
        self._append({**line, "check": _checksum(line)})

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
        text = f"{_json(line)}\n".encode()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self._path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # A line that a kill cut short must not swallow this one, nor pass for a damaged
                # one later: what it announces had not left.
                text = f"\n{_json(_CUT)}\n".encode() + text
            if os.write(descriptor, text) != len(text):
                raise ValueError(f"ledger {self._path} cannot be written: the disk may be full")
            os.fsync(descriptor)
        except OSError as error:
            raise ValueError(f"ledger {self._path} cannot be written: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        content = self._path.read_bytes()
        numbered = [(n, t) for n, t in enumerate(content.split(b"\n"), 1) if t.strip()]
        first = _parsed(numbered[0][1]) if numbered else None
        if first is None or first.get("format") not in (_FORMAT, _OLDER):
            raise ValueError(f"ledger {self._path} is not a file written by recondite")
        cut: int | None = None
        for number, text in numbered[1:]:
            line = _parsed(text)
            if line == _CUT:
                cut = None
            elif line is None and _is_cut(text, again=cut is not None):
                cut = cut or number  # in order only at the end, or where the next line says so
            elif line is None or cut is not None or not _sound(line, first["format"]):
                raise ValueError(f"ledger {self._path} is damaged at line {cut or number}: {_LOST}")
            else:
                found.setdefault(line["key"], line)
        if cut is not None and content.endswith(b"\n"):
            raise ValueError(f"ledger {self._path} is damaged at line {cut}: {_LOST}")
        return found


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _is_cut(text: bytes, *, again: bool) -> bool:
    """Whether a text is the beginning of a line; after another such one, of the line saying so."""
    if again:
        return _json(_CUT).encode().startswith(text)
    try:
        json.JSONDecoder().raw_decode(text.decode())
    except ValueError:
        return True
    return False  # a whole line, and something else behind it


def _checksum(line: dict[str, Any]) -> str:
    plain = {key: line[key] for key in sorted(line) if key != "check"}
    return hashlib.blake2b(_json(plain).encode(), digest_size=16).hexdigest()


def _sound(line: dict[str, Any], form: str) -> bool:
    """Whether a line is as it was written."""
    if not isinstance(line.get("key"), str):
        return False
    if "check" not in line:
        return form == _OLDER
    try:
        return bool(line["check"] == _checksum(line))
    except ValueError:  # NaN, which was never written
        return False


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
