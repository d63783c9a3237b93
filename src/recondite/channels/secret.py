"""The secret that `once` noise is drawn with: never shown, never stored but in its own file."""

from __future__ import annotations

import hashlib
import multiprocessing.context
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recondite._files import create
from recondite._locks import Log

__all__ = ["NoiseDraw", "Secret"]

_BYTES = 32
_HEADER = "recondite-secret 1"
_REFUSED = "a secret is not pickled or copied into files: give secret= a path to keep it"


@dataclass(frozen=True)
class NoiseDraw:
    """One draw of noise for a set of records: what a ledger remembers of it.

    Attributes:
      name: Tells draws apart: a keyed hash of the exact noise, from which no secret follows.
      law: The channel, as :meth:`Ledger.law` names it.
      capacity_nats: What one such draw can tell of a record.
    """

    name: str
    law: str
    capacity_nats: float


class Secret:
    """32 secret bytes, and the keys that are derived from them by keyed BLAKE2b.

    Whoever has the secret and a noisy record has the record. So it shows in no ``repr``, is not
    pickled (but for workers that are being started), and a file that holds it can be read by its
    owner only.

    A file that this class creates holds one line for every draw made with the secret: a run that
    comes back with a channel that differs, be it in the last bit, draws other noise, and must
    know that it is the second draw. A file of 32 raw bytes, as a key store might hand out, is
    read as it is and remembers nothing.

    Args:
      given: 32 bytes, a path, or None for fresh bytes from the operating system.
    """

    __slots__ = ("_draws", "_key", "_path")

    def __init__(self, given: Any = None) -> None:
        self._path: Path | None = None
        self._draws: list[NoiseDraw] = []
        if given is None:
            self._key = secrets.token_bytes(_BYTES)
        elif isinstance(given, (bytes, bytearray)):
            self._key = _of_length(bytes(given), "secret")
        elif isinstance(given, (str, os.PathLike)):
            self._open(Path(given))
        else:
            raise ValueError(
                f"secret must be {_BYTES} bytes or a path to a file, got {type(given).__name__}"
            )

    @property
    def draws(self) -> tuple[NoiseDraw, ...]:
        """The draws that the secret's file remembers."""
        return tuple(self._draws)

    def derive(self, purpose: str, *parts: bytes, size: int = 32) -> bytes:
        """Returns the key for a purpose (16 characters at most) and a list of parts."""
        keyed = hashlib.blake2b(key=self._key, person=purpose.encode(), digest_size=size)
        for part in parts:
            keyed.update(len(part).to_bytes(8, "little"))
            keyed.update(part)
        return keyed.digest()

    def remember(self, draw: NoiseDraw) -> None:
        """Writes a draw to the secret's file, whole and on disk before it returns.

        Raises:
          ValueError: It could not be written: the draw must not be used.
        """
        if self._path is None or any(known.name == draw.name for known in self._draws):
            return
        if not self._path.exists():
            raise ValueError(f"secret file {self._path} is gone: put it back, with its draws")
        try:
            log = Log(self._path)
            log.append(f"draw {draw.name} {draw.law} {draw.capacity_nats!r}".encode())
            log.close()
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"secret file {self._path} cannot be written: {reason}") from None
        self._draws.append(draw)

    def _open(self, path: Path) -> None:
        if not path.exists():
            _create(path)
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            content = path.read_bytes()
        except OSError as error:
            raise ValueError(f"secret file {path} cannot be read: {error.strerror}") from None
        if os.name == "posix" and mode & 0o077:
            raise ValueError(f"secret file {path} can be read by others: chmod 600 {path}")
        if len(content) == _BYTES:
            self._key = content
            return
        try:
            # What has no newline yet was cut short, and what it announced was never served.
            header, key, *lines = content.decode("ascii").split("\n")[:-1]
            self._key = _of_length(bytes.fromhex(key), "secret")
            if header != _HEADER:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"secret file {path} is neither {_BYTES} raw bytes nor written by recondite"
            ) from None
        self._path = path
        # Version 0.1.0 left lines that were cut short, with a newline.
        words = [line.split() for line in lines]
        self._draws = [NoiseDraw(w[1], w[2], float(w[3])) for w in words if len(w) == 4]

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: Any) -> Secret:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # As multiprocessing does with its own key: only a process that is being started gets it.
        if multiprocessing.context.get_spawning_popen() is None:
            raise TypeError(_REFUSED)
        return (Secret, (self._key,))


def _of_length(value: bytes, name: str) -> bytes:
    if len(value) != _BYTES:
        raise ValueError(f"{name} must be {_BYTES} bytes, got {len(value)}")
    return value


def _create(path: Path) -> None:
    """Writes a new secret, whole or not at all; of two processes at once one wins."""
    try:
        create(path, f"{_HEADER}\n{secrets.token_hex(_BYTES)}\n".encode())
    except OSError as error:
        raise ValueError(f"secret file {path} cannot be written: {error.strerror}") from None
