"""Folders that one account can read, and one deployment at a time uses."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["locked_folder", "private_folder"]


def private_folder(folder: Path) -> Path:
    """Makes a folder that its owner only can read, also where it was there before."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def locked_folder(folder: Path) -> int | None:
    """Holds a folder for one deployment at a time; the lock ends with the process."""
    if os.name != "posix":
        return None
    import fcntl

    descriptor = os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ValueError(f"{folder} is used by another deployment: choose another") from None
    return descriptor
