"""Kinds of records by name: ours, and those that other packages register.

A package adds its own through the entry-point group ``recondite.records``, whose members are
subclasses of :class:`RecordsKind` under the kind's name. A kind says which ``--data`` arguments it
reads, and reads them. Nothing here imports torch; registered modules, which may, are imported when
records are loaded and not when kinds are listed.
"""

from __future__ import annotations

import csv
import difflib
import os
import warnings
from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from recondite._plugins import entry_points
from recondite.records.catalogue import SOURCES, names
from recondite.records.image_files import SUFFIXES
from recondite.records.user_code import is_dotted

if TYPE_CHECKING:
    from recondite.records.base import Records

__all__ = ["GROUP", "RecordsKind", "built_in", "kind_of", "kinds", "registered"]

GROUP = "recondite.records"
TABLES = (".csv", ".parquet")


class RecordsKind(ABC):
    """How one kind of records is found and loaded.

    Attributes:
      name: Its name.
      title: What it is, in a few words.
      takes: What stands in a ``--data`` argument, such as "a folder of images".
      sizes_differ: Whether ``load`` takes the option ``if_differ``: the size that images are
        brought to where theirs differ.
      tokenised: Whether ``load`` takes the options ``model``, whose tokenizer reads the records,
        and ``truncate``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    takes: ClassVar[str]
    sizes_differ: ClassVar[bool] = False
    tokenised: ClassVar[bool] = False

    @abstractmethod
    def reads(self, data: str) -> bool:
        """Tells whether a ``--data`` argument is of this kind, without reading records."""

    @abstractmethod
    def load(
        self,
        data: str,
        split: str,
        *,
        directory: str | os.PathLike[str] | None = None,
        verify: bool = True,
        **options: Any,
    ) -> Records:
        """Loads one split.

        Args:
          data: The argument.
          split: "train", "test", or "all" for the one followed by the other.
          directory: The data directory, where the kind has a use for it.
          verify: Compares files with what was published, where something was.
          **options: Of the kind; an unknown one is refused.

        Raises:
          ValueError: In one line that names what is missing or wrong.
        """


class NamedImages(RecordsKind):
    """The image sets of the catalogue."""

    name = "images"
    title = "image sets by name"
    takes = "NAME"

    def reads(self, data: str) -> bool:
        """Tells whether it is the name of a data set."""
        return data in SOURCES

    def load(self, data: str, split: str, **options: Any) -> Records:
        """Loads images."""
        from recondite.records.loading import load_named

        return load_named(data, split, **options)


class TableFiles(RecordsKind):
    """Tables in files."""

    name = "tables"
    title = "tables, with the column to predict"
    takes = "a table FILE.csv#TARGET (or .parquet)"

    def reads(self, data: str) -> bool:
        """Tells whether it is the name of a table's file, with or without a column after it."""
        parts = data.lower().split("#")
        return any(part.endswith(TABLES) for part in parts)

    def load(self, data: str, split: str, **options: Any) -> Records:
        """Loads a table."""
        from recondite.records.table_files import load_table

        return load_table(data, split, **options)


class TextFiles(RecordsKind):
    """Texts in files."""

    name = "texts"
    title = "texts with their classes or without, and perhaps the person of each"
    takes = "texts FILE.csv#TEXT,LABEL (or .jsonl, or a folder of .txt files)"
    tokenised = True

    def reads(self, data: str) -> bool:
        """Tells whether two columns are named, or files that hold nothing but texts."""
        name, _, columns = data.rpartition("#")
        path = Path(data).expanduser()
        if path.is_dir():
            return _only_texts(path)
        if data.lower().endswith(".jsonl") or name.lower().endswith(".jsonl"):
            return True
        return name.lower().endswith(".csv") and "," in columns and not _heads(name, columns)

    def load(self, data: str, split: str, **options: Any) -> Records:
        """Loads texts."""
        from recondite.records.text_files import load_text

        return load_text(data, split, **options)


def _only_texts(folder: Path) -> bool:
    """Whether subfolders hold .txt files and no images: notes beside images are no records.

    A folder with no files in subfolders may hold .txt files itself: texts without a class.
    """
    found = {inside.suffix.lower() for inside in folder.glob("*/*")}
    found = found or {inside.suffix.lower() for inside in folder.glob("*")}
    return ".txt" in found and not found & set(SUFFIXES)


def _heads(name: str, column: str) -> bool:
    """Whether a table has a column of this very name, which may have a comma in it."""
    try:
        with Path(name).expanduser().open(encoding="utf-8-sig", newline="") as file:
            return column in next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


class ImageFolders(RecordsKind):
    """Folders of images."""

    name = "image-folders"
    title = "a folder with a subfolder of images for each class"
    takes = "a folder of images"
    sizes_differ = True

    def reads(self, data: str) -> bool:
        """Tells whether it is a folder."""
        return Path(data).expanduser().is_dir()

    def load(self, data: str, split: str, **options: Any) -> Records:
        """Loads images."""
        from recondite.records.loading import load_folder

        return load_folder(data, split, **options)


class Functions(RecordsKind):
    """A person's own function."""

    name = "functions"
    title = "a Dataset of images, or a function that returns one, or Records"
    takes = "package.module:function"

    def reads(self, data: str) -> bool:
        """Tells whether it has the form of a function's name."""
        return is_dotted(data)

    def load(self, data: str, split: str, **options: Any) -> Records:
        """Calls the function."""
        from recondite.records.loading import load_own

        return load_own(data, split, **options)


@lru_cache(maxsize=1)
def built_in() -> dict[str, RecordsKind]:
    """Our own."""
    ours = (NamedImages(), TextFiles(), TableFiles(), ImageFolders(), Functions())
    return {kind.name: kind for kind in ours}


@lru_cache(maxsize=1)
def kinds() -> dict[str, RecordsKind]:
    """Every kind by its name; a registered one cannot replace one of ours. Read once."""
    found = dict(built_in())
    for entry in entry_points(group=GROUP):
        try:
            kind = entry.load()()
            if not isinstance(kind, RecordsKind):
                raise TypeError("it is no subclass of recondite.records.RecordsKind")
            if kind.name in found:
                raise ValueError(f"its name {kind.name} is taken")
            if kind.name != entry.name:
                raise ValueError(f"it calls itself {kind.name}: use one name")
            if not (kind.title and kind.takes):
                raise ValueError("it needs a title and what it takes")
        except Exception as error:  # whatever it is: one broken package must not take others away
            warnings.warn(f"records {entry.name} could not be loaded: {error}", stacklevel=2)
        else:
            found[kind.name] = kind
    return found


def registered() -> dict[str, str]:
    """The kinds of other packages and the package of each, without importing them."""
    found: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        package = "" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
        found.setdefault(entry.name, package)
    return {name: package for name, package in found.items() if name not in built_in()}


def kind_of(data: str) -> RecordsKind:
    """The kind that reads a ``--data`` argument: ours before others, in their order.

    Raises:
      ValueError: In one line with what is known, where none does.
    """
    for kind in kinds().values():
        try:
            if kind.reads(data):
                return kind
        except Exception as error:  # a registered kind's mistake must not take others away
            warnings.warn(f"records {kind.name} could not look at {data!r}: {error}", stacklevel=2)
    near = difflib.get_close_matches(data, names(), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    if not near and "/" in data:
        hint = ", which is not there"
    last = [ImageFolders.name, Functions.name]
    others = [kind.takes for kind in kinds().values() if kind.name not in (NamedImages.name, *last)]
    raise ValueError(
        f"data must be one of {', '.join([*names(), *others, ImageFolders.takes])} or "
        f"{Functions.takes}, got {data!r}{hint}"
    )
