"""Where data lies, and archives of it, extracted without trusting what is in them.

Only regular files and folders that stay inside the destination are extracted; a link, a device,
an absolute path or one that climbs out refuses the whole archive. The destination appears in one
step, when all of it is there: an interrupted extraction leaves nothing behind that looks whole.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

__all__ = ["LIMIT", "extract", "find_archive", "find_file", "find_folder", "search_path"]


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


LIMIT = 16 * 2**30  # bytes in all; the largest of our data sets takes under 2 GB


def extract(archive: Path, destination: Path) -> Path:
    """Extracts a .tar, .tar.gz, .tgz or .zip file.

    Args:
      archive: The file.
      destination: The folder to make. If everything in the archive lies in one folder, that folder
        becomes the destination; otherwise the destination holds what the archive holds.

    Returns:
      The destination.
    """
    if _filled(destination):
        raise ValueError(f"{destination} is there already: remove it to extract {archive} again")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=destination.parent))
    except OSError as error:
        raise ValueError(f"cannot extract {archive} into {destination.parent}: {error}") from error
    try:
        _unpack(archive, partial)
        entries = list(partial.iterdir())
        whole = entries[0] if len(entries) == 1 and entries[0].is_dir() else partial
        whole.chmod(0o755)
        try:
            os.replace(whole, destination)
        except OSError:
            # Another process may have extracted the same archive meanwhile.
            if not _filled(destination):
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return destination


def _filled(folder: Path) -> bool:
    return folder.exists() and not (folder.is_dir() and next(folder.iterdir(), None) is None)


def _unpack(archive: Path, folder: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        elif tarfile.is_tarfile(archive):
            _untar(archive, folder)
        else:
            raise ValueError(f"{archive} is not a tar or zip archive: get it again")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{archive} cannot be extracted: {error}") from error
    except OSError as error:
        raise ValueError(f"{archive} cannot be extracted: {error}") from error


def _refuse(archive: Path, name: str, why: str) -> None:
    raise ValueError(f"{archive} is not safe to extract: {name!r} {why}")


def _check(archive: Path, name: str, total: int) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    drive = bool(path.parts) and ":" in path.parts[0]
    if path.is_absolute() or ".." in path.parts or drive:
        _refuse(archive, name, "leads out of the data directory")
    if total > LIMIT:
        _refuse(archive, name, f"takes it above {LIMIT:,} bytes")


def _untar(archive: Path, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise ValueError("this Python cannot filter archives: update it to its latest patch")
    total = 0

    def careful(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
        nonlocal total
        total += member.size
        _check(archive, member.name, total)
        if not (member.isreg() or member.isdir()):
            _refuse(archive, member.name, "is neither a file nor a folder")
        return tarfile.data_filter(member, place)

    with tarfile.open(archive) as content:
        content.extractall(folder, filter=careful)


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        total = 0
        for member in content.infolist():
            total += member.file_size
            _check(archive, member.filename, total)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                _refuse(archive, member.filename, "is neither a file nor a folder")
        content.extractall(folder)
