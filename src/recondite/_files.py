"""Files that a crash, a full disk or a second process cannot spoil: replaced whole or not at all.

Files that are appended to, and locks, are in :mod:`recondite._locks`. Assumptions: a disk keeps
what ``fsync`` says it keeps; on Windows a folder is not flushed after a rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

__all__ = [
    "SEAL",
    "checked",
    "create",
    "replaced",
    "sealed",
    "sync_folder",
    "write_atomically",
]

SEAL = "check"


def write_atomically(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Replaces a file, or makes it: as :func:`replaced`, with content that is at hand.

    Args:
      path: The file.
      data: Its content; text is written as UTF-8, line ends as they are.
    """
    with replaced(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


_BINARY = getattr(os, "O_BINARY", 0)  # Windows would change line ends


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` when the block ends well.

    Guarantee: whatever happens, ``path`` holds its old content or all of the new one; when the
    block ends without an exception, the new one is on disk, and so is its name. Writers at the
    same time do not meet: each has a draft with a name of its own, removed unless the process is
    killed.

    Raises:
      OSError: It could not be written. ``path`` is then as it was, except where the folder could
        not be flushed: then it is new, and may be old again after a power failure.
    """
    target = Path(path)
    draft = _draft(target)
    try:
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def create(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> bool:
    """Makes a file that is not there yet, whole or not at all; of several at once one wins.

    Returns:
      Whether it was this one; False where there was a file, which stays as it is.
    """
    target = Path(path)
    draft = _draft(target)
    try:
        number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, target)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    sync_folder(target.parent)
    return True


def _draft(target: Path) -> Path:
    # Cut, for a name may be as long as a folder allows.
    return target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}.part")


def sync_folder(folder: Path) -> None:
    """Flushes a folder's list of names to disk."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """The same, with a checksum that :func:`checked` looks at.

    It finds a damaged or carelessly edited file. It is no signature: who edits the checksum too,
    or puts back an older copy, is not found out.
    """
    return {**body, SEAL: _checksum(body)}


def checked(body: dict[str, Any]) -> dict[str, Any]:
    """What was sealed, without its checksum; what never had one (version 0.1.0) as it is.

    Raises:
      ValueError: It is not what was sealed.
    """
    rest = {key: value for key, value in body.items() if key != SEAL}
    if SEAL in body and body[SEAL] != _checksum(rest):
        raise ValueError("its checksum differs: it was damaged or edited")
    return rest


def _checksum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
