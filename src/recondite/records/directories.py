"""Where data lies: the data directories, and one data set's folder in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["find_archive", "find_file", "find_folder", "search_path"]


def search_path(directory: str | os.PathLike[str] | None = None) -> tuple[Path, ...]:
    """Returns the directories that are searched for data, in order.

    An explicit choice is the only one searched: the argument, else the variable RECONDITE_DATA.
    Without one, ``./data`` and then the user's own data folder (``XDG_DATA_HOME``, by default
    ``~/.local/share``, then ``recondite``).
    """
    chosen = directory if directory is not None else os.environ.get("RECONDITE_DATA")
    if chosen:
        place = Path(chosen).expanduser()
        if place.exists() and not place.is_dir():
            raise ValueError(f"the data directory must be a folder, got the file {place}")
        return (place,)
    home = os.environ.get("XDG_DATA_HOME")
    # The XDG rules say that a relative path is to be ignored.
    base = Path(home) if home and Path(home).is_absolute() else Path("~/.local/share").expanduser()
    return (Path("data"), base / "recondite")


def find_folder(places: Sequence[Path], markers: Sequence[str]) -> Path | None:
    """Returns the first folder in which a file matches one of the glob patterns."""
    for place in places:
        if place.is_dir() and any(next(place.glob(marker), None) for marker in markers):
            return place
    return None


def find_archive(directories: Sequence[Path], archives: Sequence[str]) -> Path | None:
    """Returns the first of the named archives that lies in one of the directories."""
    for directory in directories:
        for name in archives:
            if (directory / name).is_file():
                return directory / name
    return None


def find_file(folder: Path, *names: str) -> Path:
    """Returns the first of the named files of a folder that is there."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ValueError(f"{folder} holds no {' or '.join(names)}: put it there")
