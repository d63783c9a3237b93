"""What the report reads: the rows of one or several runs, and what is known of each run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recondite.studies import store
from recondite.studies.shapes import Row

__all__ = [
    "OwnMetric",
    "Row",
    "StoredRun",
    "alike",
    "number",
    "own_metrics",
    "read_runs",
    "section",
]


@dataclass(frozen=True)
class StoredRun:
    """One run directory.

    Attributes:
      index: Its place among the runs of the report.
      name: Its name in the report: that of the study, told apart where two runs share it.
      directory: Where it is.
      rows: Its rows, one for each key, in the order of the study.
      study: What ``study.json`` says: the resolved study, versions, times, machine.
    """

    index: int
    name: str
    directory: Path
    rows: tuple[Row, ...]
    study: Row = field(default_factory=dict)

    @property
    def done(self) -> list[Row]:
        """Rows with results."""
        return [row for row in self.rows if row.get("status", "done") == "done"]

    @property
    def failed(self) -> list[Row]:
        """Rows that ended with a reason instead of a result."""
        return [row for row in self.rows if row.get("status", "done") != "done"]


def number(value: Any) -> float | None:
    """A number of a row: ``"inf"`` is infinite; null, NaN and anything else is None."""
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def section(row: Row, name: str) -> Row:
    """A part of a row, empty where it is null."""
    part = row.get(name)
    return part if isinstance(part, dict) else {}


def alike(row: Row) -> float:
    """How alike the best reconstruction of a row is (SSIM); below any where none was scored."""
    value = number(section(row, "reconstruction").get("ssim_worst"))
    return -2.0 if value is None else value


@dataclass(frozen=True)
class OwnMetric:
    """A metric of records that are no images, as their rows name it.

    Attributes:
      key: Its name in rows.
      label: Its name in tables.
      unit: Of its values; "" for pure numbers.
      less: Whether a smaller value is a closer reconstruction.
      exposure: Whether victims are ranked by it.
    """

    key: str
    label: str
    unit: str
    less: bool
    exposure: bool


def own_metrics(rows: Iterable[Row]) -> list[OwnMetric]:
    """The metrics that rows bring with them beside those of images, each once."""
    found: dict[str, OwnMetric] = {}
    for row in rows:
        made = section(row, "reconstruction")
        listed = made.get("metrics")
        for one in listed if isinstance(listed, list) and "mse" not in made else ():
            key = str(one.get("key"))
            ranked = key == made.get("exposure")
            metric = OwnMetric(
                key,
                str(one.get("label") or key),
                str(one.get("unit") or ""),
                one.get("direction") == "lower",
                ranked,
            )
            found.setdefault(key, metric)
    return list(found.values())


def read_runs(directories: Sequence[str | Path] | str | Path) -> list[StoredRun]:
    """Reads runs in the order given.

    Raises:
      ValueError: In one line, where a directory holds no readable row.
    """
    if isinstance(directories, str | Path):
        directories = [directories]
    paths = [Path(directory) for directory in directories]
    if not paths:
        raise ValueError("run_dirs: give at least one run directory")
    contents = [_read(path) for path in paths]
    names = _names(paths, [study for _, study in contents], [rows for rows, _ in contents])
    return [
        StoredRun(index, name, path if path.is_dir() else path.parent, rows, study)
        for index, (path, name, (rows, study)) in enumerate(
            zip(paths, names, contents, strict=True)
        )
    ]


def _read(directory: Path) -> tuple[tuple[Row, ...], Row]:
    try:
        rows = store.load(directory)
    except ValueError as error:
        raise ValueError(f"run_dirs: {error}") from None
    if not rows:
        raise ValueError(f"run_dirs: {directory} has no finished row yet; run the comparison first")
    return tuple(rows), store.read_study(directory)


def _names(paths: list[Path], studies: list[Row], rows: list[tuple[Row, ...]]) -> list[str]:
    """Study names; the directory's name where two runs share one; a number where even that."""
    names = [
        str(of_run[0].get("study") or study.get("name") or path.resolve().name)
        for path, study, of_run in zip(paths, studies, rows, strict=True)
    ]
    if len(set(names)) < len(names):
        names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{name} ({index + 1})" for index, name in enumerate(names)]
    return names
