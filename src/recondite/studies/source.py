"""A YAML file as plain data, with the line of every key: what mistakes are reported by."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Mistake", "SourceText", "StudyError", "nearest", "parse", "read", "where"]

Place = tuple[str | int, ...]

# Far beyond any study; a few aliases of aliases would otherwise fill the memory.
_MOST_VALUES = 20_000
_DEEPEST = 20

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


@dataclass(frozen=True)
class Mistake:
    """Something wrong in a study.

    Attributes:
      place: The path of the key or item, such as ("defences", 1, "kappa").
      message: What is wrong with it, without its name.
    """

    place: Place
    message: str


class StudyError(ValueError):
    """A study file with mistakes; ``lines`` has one line for each of the first few."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        super().__init__("; ".join(self.lines))


@dataclass(frozen=True)
class SourceText:
    """What a file says, and where.

    Attributes:
      name: The file's name, for messages.
      data: Its content in plain types.
      lines: The line of every key and item, by its path.
    """

    name: str
    data: Any
    lines: dict[Place, int]

    def line(self, place: Place) -> int:
        """The line of a path; that of what encloses it where the key itself is not there."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return 1

    def error(self, mistakes: Iterable[Mistake], most: int = 5) -> StudyError:
        """The first few mistakes, one a line, in the order of the file."""
        ordered = sorted(mistakes, key=lambda m: (self.line(m.place), str(m.place)))
        lines = [
            f"{self.name}:{self.line(m.place)}: {where(m.place)} {m.message}".replace("  ", " ")
            for m in ordered[:most]
        ]
        if len(ordered) > most:
            lines.append(f"{self.name}: and {len(ordered) - most} more")
        return StudyError(lines)


def where(place: Place) -> str:
    """A path as a person writes it: ``defences[1].kappa``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the study"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the nearest valid name, or the list of all where none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are {', '.join(names)}" if names else "it has none"


def read(path: str | os.PathLike[str]) -> SourceText:
    """Reads a YAML file without running anything in it.

    Paths (with a slash, or of a file with a suffix) are taken from the working directory; where
    nothing is there, from beside the file.

    Raises:
      ValueError: In one line, where the file is not there or is not YAML.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ValueError(f"cannot read the study {file}: {reason}") from error
    source = parse(text, file.name)
    if isinstance(source.data, dict):
        _look_beside(source.data, "data", file.parent)
        if isinstance(source.data.get("training"), dict):
            _look_beside(source.data["training"], "weights", file.parent)
    return source


def _look_beside(section: dict[str, Any], key: str, folder: Path) -> None:
    value = section.get(key)
    if not isinstance(value, str):
        return
    name, mark, columns = value.partition("#")  # a table's file, and what of it
    if not ({"/", os.sep} & set(name) or Path(name).suffix):
        return
    try:
        if not Path(name).expanduser().exists() and (folder / name).exists():
            section[key] = f"{folder / name}{mark}{columns}"
    except (OSError, ValueError):
        return  # no name of a file: whoever reads it says so


def parse(text: str, name: str) -> SourceText:
    """YAML text as plain data, without running anything in it.

    Args:
      text: The text.
      name: What messages call it.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[Place, int] = {}
        mistakes: list[Mistake] = []
        data = _walk(root, (), lines, mistakes)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise StudyError([f"{name}:{line}: {problem}"]) from error
    except RecursionError:
        raise StudyError([f"{name}:1: lists within lists without end: write it flat"]) from None
    source = SourceText(name, data, lines)
    if mistakes:
        raise source.error(mistakes)
    return source


def _walk(node: Any, place: Place, lines: dict[Place, int], mistakes: list[Mistake]) -> Any:
    import yaml

    if node is None:
        return None
    lines.setdefault(place, node.start_mark.line + 1)
    if len(lines) > _MOST_VALUES or len(place) > _DEEPEST:
        raise yaml.error.MarkedYAMLError(
            problem=f"more than {_MOST_VALUES:,} values or {_DEEPEST} levels, aliases counted: "
            "write a smaller study",
            problem_mark=node.start_mark,
        )
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            here = (*place, key)
            if key in found:
                mistakes.append(Mistake(here, "is given twice: keep one"))
            lines[here] = key_node.start_mark.line + 1
            found[key] = _walk(value_node, here, lines, mistakes)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_walk(item, (*place, i), lines, mistakes) for i, item in enumerate(node.value)]
    return _scalar(node)


def _scalar(node: Any) -> Any:
    import yaml

    loader = yaml.SafeLoader("")
    try:
        value: Any = loader.construct_object(node, deep=True)
    finally:
        loader.dispose()
    if isinstance(value, str) and node.style is None:
        # YAML 1.1 takes 1e-5 for text: a person means the number.
        return float(value) if _NUMBER.fullmatch(value) else value
    return value
