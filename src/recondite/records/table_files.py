"""Tables in files: CSV with a heading, or Parquet, read, checked and made into features.

What cannot be used is refused in one line that names the file and the row or column. Categories
and tolerances are read off the whole file, both splits alike: they are exact functions of the
records, which accounting of a private training run does not cover.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._validate import at_least, non_negative, probability
from recondite.records.arrays import needed, stratified
from recondite.records.tables import TOLERANCE, Column, TableSet

__all__ = ["load_table", "read_table"]

_MOST = 1_000  # categories of a column, or classes, that nobody asked for
_CLASSES = 20  # written as whole numbers, that are classes in a table of any length
_PLACES = 6  # decimals that are kept
_KNOWN = ("categorical", "numeric", "drop", "delimiter", "tolerance", "group")  # options of a table


@dataclass(frozen=True)
class _Text:
    """A table as it is written: headings, and the cells of each column."""

    path: Path
    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]  # of each row, as an editor counts

    def refuse(self, column: int, why: str, row: int | None = None) -> ValueError:
        place = "" if row is None else f"row {self.lines[row]}, "
        return ValueError(f"{self.path}: {place}column {self.names[column]!r} {why}")


def load_table(
    data: str,
    split: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    verify: bool = True,
    target: str | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    **options: Any,
) -> TableSet:
    """Loads one split of a table; classes have their share in both.

    Args:
      data: The file, with ``#TARGET`` after it unless ``target`` is given, and perhaps options
        after that: ``people.csv#income?categorical=zip,floor&drop=id``.
      split: "train", "test" or "all".
      directory: Ignored: the file is named.
      verify: Nothing is published to compare with: ignored.
      target: The column that holds the class.
      test_fraction: The share that is held out.
      seed: Of the split.
      **options: Of :func:`read_table`.
    """
    del directory, verify
    path, named = _place(data)
    named, typed = _typed(named)
    target, options = target if target is not None else named, {**typed, **options}
    for option in options:
        if option not in _KNOWN:
            listed = ", ".join(("target", "test_fraction", "seed", *_KNOWN))
            raise ValueError(f"{option} is not an option of a table ({path}): it has {listed}")
    table = read_table(path, target, **options)
    if split == "all":
        return table
    held = probability("test_fraction", test_fraction)
    rng = np.random.default_rng(at_least("seed", seed, 0))
    kept = max(1, min(round(len(table) * (1 - held)), len(table) - 1))
    strata = table.labels.numpy() if table.classes else np.zeros(len(table), dtype=np.int64)
    train, test = stratified(strata, kept, rng)
    return table.subset(torch.from_numpy(train if split == "train" else test))


def _typed(named: str | None) -> tuple[str | None, Mapping[str, Any]]:
    """The target, and the options after it: a name that has a question mark in it stays one."""
    name, mark, query = (named or "").partition("?")
    pairs = [part.partition("=") for part in query.split("&")]
    if not mark or not all(key in _KNOWN and equals for key, equals, _ in pairs):
        return named, {}
    found: Any = {}
    for key, _, value in pairs:
        if key == "tolerance":
            try:
                found[key] = float(value)
            except ValueError:
                raise ValueError(f"tolerance must be a number, got {value!r}") from None
        else:
            found[key] = value if key in ("delimiter", "group") else tuple(value.split(","))
    return name or None, found


def _place(data: str) -> tuple[Path, str | None]:
    """The file, and the column after it: both may have a # in their names."""
    parts = data.split("#")
    for count in range(len(parts), 0, -1):
        path = Path("#".join(parts[:count])).expanduser()
        if path.is_file():
            return path, "#".join(parts[count:]) or None
    return Path(parts[0]).expanduser(), None


def read_table(
    path: str | os.PathLike[str],
    target: str | None,
    *,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    drop: Sequence[str] = (),
    delimiter: str = ",",
    tolerance: float = TOLERANCE,
    group: str | None = None,
) -> TableSet:
    """Reads a table. A column of which every cell is a finite number is one of numbers.

    Args:
      path: A CSV file with a heading (UTF-8), or a Parquet file.
      target: The column to predict: its classes, or its amounts where it holds more numbers than
        classes could be. ``categorical`` or ``numeric`` decides it where it is named there.
      categorical: Columns of categories that look like numbers. An empty cell is a category.
      numeric: Columns of numbers; what looks like an identifier is refused unless it is named.
      drop: Columns to leave out.
      delimiter: Of CSV.
      tolerance: How far off a number may be and count as right, in standard deviations of its
        column over the file.
      group: The column that names the person of a row: everybody's first row is kept, and the
        column is left out, so that an account of records is one of people.
    """
    text = _read(Path(path), delimiter)
    if target is None:
        raise ValueError(
            f"{path}: which column holds the class? Write {path}#COLUMN or pass target: "
            f"{_listed(text.names)}"
        )
    people = () if group is None else (group,)
    for name in (target, *categorical, *numeric, *drop, *people):
        if name not in text.names:
            raise ValueError(f"{path} has no column {name!r}: it has {_listed(text.names)}")
    both = [*set(categorical) & set(numeric), *({target} & {*drop, *people})]
    both += {*people} & {*categorical, *numeric}
    if both:
        raise ValueError(f"{path}: column {both[0]!r} can have one role only")
    whole = len(text.lines)
    if group is not None:
        text = _one_each(text, group)
        drop = (*drop, group)
    kind = "categorical" if target in categorical else "numeric" if target in numeric else None
    labels, classes = _target(text, text.names.index(target), kind)
    columns, blocks = [], []
    slack = non_negative("tolerance", tolerance)
    for position, name in enumerate(text.names):
        if name != target and name not in drop:
            kind = "categorical" if name in categorical else "numeric" if name in numeric else None
            column, block = _column(text, position, kind, slack)
            columns.append(column)
            blocks.append(block)
    if not columns:
        raise ValueError(f"{path} has no column but the target {target!r}")
    rows = torch.from_numpy(np.concatenate(blocks, axis=1).astype(np.float32))
    name = Path(path).stem
    return TableSet(
        rows,
        torch.from_numpy(labels),
        classes,
        tuple(columns),
        name,
        str(path),
        unit="row" if group is None else "person",
        left_out=whole - len(text.lines),
    )


def _one_each(text: _Text, group: str) -> _Text:
    """The first row of each person.

    Guarantee: where everybody has one record, adding or removing a record is adding or removing a
    person. No sum over a person's rows is needed.
    """
    place = text.names.index(group)
    first: dict[str, int] = {}
    for row, person in enumerate(text.cells[place]):
        if not person:
            raise text.refuse(place, "names no person", row)
        first.setdefault(person, row)
    kept = list(first.values())
    cells = tuple(tuple(column[row] for row in kept) for column in text.cells)
    return replace(text, cells=cells, lines=tuple(text.lines[row] for row in kept))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _read(path: Path, delimiter: str) -> _Text:
    if not path.is_file():
        raise ValueError(f"there is no table {path}")
    if path.suffix.lower() == ".parquet":
        return _parquet(path)
    if len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, got {delimiter!r}")
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True, skipinitialspace=True)
            names = next(reader, [])
            for row in reader:
                if not row:
                    continue  # a blank line, as at the end of many files
                if len(row) != len(names):
                    raise ValueError(
                        f"{path}: row {reader.line_num} has {len(row)} cells where the heading "
                        f"has {len(names)}"
                    )
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}") from error
    return _text(path, names, list(zip(*rows, strict=True)), lines)


def _parquet(path: Path) -> _Text:
    reader = needed("pyarrow.parquet", "pyarrow")
    try:
        table = reader.read_table(path)
    except Exception as error:  # pyarrow raises whatever it stumbles over in a damaged file
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    columns = [tuple("" if v is None else str(v) for v in c.to_pylist()) for c in table.columns]
    return _text(path, table.column_names, columns, range(1, table.num_rows + 1))


def _text(path: Path, names: Sequence[str], columns: list[Any], lines: Sequence[int]) -> _Text:
    headings = tuple(name.strip() for name in names)
    if not headings or len(lines) < 2:
        raise ValueError(f"{path} must have a heading and at least two rows")
    twice = [name for name in headings if headings.count(name) > 1 or not name]
    if twice:
        raise ValueError(f"{path}: every column needs a heading of its own, got {twice[0]!r}")
    return _Text(path, headings, tuple(tuple(column) for column in columns), tuple(lines))


def _target(
    text: _Text, position: int, kind: str | None
) -> tuple[np.ndarray[Any, Any], tuple[str, ...]]:
    """Classes by their positions, or amounts as float32 and no classes."""
    cells = text.cells[position]
    if "" in cells:
        raise text.refuse(position, "is the target and is empty there", cells.index(""))
    classes = sorted(set(cells))
    if len(classes) < 2:
        raise text.refuse(position, "is the target and has one class only")
    numbers = [_number(cell) for cell in cells]
    wrong = [row for row, value in enumerate(numbers) if value is None]
    if kind == "numeric" and wrong:
        raise text.refuse(position, f"must hold numbers, got {cells[wrong[0]]!r}", wrong[0])
    whole = not wrong and all(value == round(value) for value in numbers if value is not None)
    many = len(classes) > max(_CLASSES, len(cells) // 10)
    if kind == "numeric" or (kind is None and not wrong and (many or not whole)):
        return np.array(numbers, dtype=np.float32), ()
    if len(classes) == len(cells) or len(classes) > _MOST:
        raise text.refuse(
            position, f"is the target and has {len(classes)} values: it must hold classes"
        )
    place = {name: index for index, name in enumerate(classes)}
    return np.array([place[cell] for cell in cells], dtype=np.int64), tuple(classes)


def _column(
    text: _Text, position: int, kind: str | None, tolerance: float
) -> tuple[Column, np.ndarray[Any, Any]]:
    cells, name = text.cells[position], text.names[position]
    distinct = set(cells)
    if len(distinct) == 1:
        raise text.refuse(position, "has the same value in every row: drop it")
    values = [_number(cell) for cell in cells]
    wrong = [row for row, value in enumerate(values) if value is None]
    if kind == "numeric" and wrong:
        raise text.refuse(position, f"must hold numbers, got {cells[wrong[0]]!r}", wrong[0])
    if kind is None and wrong and 2 * len(wrong) < len(cells):
        raise text.refuse(
            position,
            f"holds numbers, and {cells[wrong[0]]!r} there: fill it, or name it categorical",
            wrong[0],
        )
    if kind != "categorical" and not wrong:
        numbers = np.array(values, dtype=np.float64)
        if kind is None and _counts(numbers):
            raise text.refuse(
                position, "numbers the rows: drop it, or name it numeric or categorical"
            )
        if np.ptp(numbers) == 0:
            raise text.refuse(position, "has the same value in every row: drop it")
        places = max(len(cell.lower().partition("e")[0].partition(".")[2]) for cell in cells)
        decimals = _PLACES if any("e" in cell.lower() for cell in cells) else min(places, _PLACES)
        return Column(name, None, decimals, tolerance * float(numbers.std())), numbers[:, None]
    if kind is None and len(distinct) == len(cells):
        raise text.refuse(position, "is different in every row: drop it, or name it categorical")
    if kind is None and len(distinct) > _MOST:
        raise text.refuse(
            position, f"has {len(distinct):,} categories: drop it, or name it categorical"
        )
    categories = tuple(sorted(distinct))
    place = {category: index for index, category in enumerate(categories)}
    return Column(name, categories), np.eye(len(categories))[[place[cell] for cell in cells]]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def _counts(numbers: np.ndarray[Any, Any]) -> bool:
    """Whether a column is a counter: each whole number of a range once."""
    whole = bool((numbers == np.round(numbers)).all())
    return whole and len(np.unique(numbers)) == len(numbers) == np.ptp(numbers) + 1
