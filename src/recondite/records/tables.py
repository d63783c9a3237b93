"""Rows of a table in memory: columns of categories and of numbers, with a target to predict.

A category is one-hot, a number stands for itself. A reconstruction is read back as a row of cells:
the largest entry of each one-hot block, each number rounded as its column is written.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recondite.metrics.floors import Metric
from recondite.records.base import Records

__all__ = ["Column", "TableSet"]

TOLERANCE = 0.05  # of a column's standard deviation


@dataclass(frozen=True)
class Column:
    """A column that a model sees.

    Attributes:
      name: Its heading.
      categories: Its categories, or None for numbers.
      decimals: How many places its numbers are written with.
      tolerance: How far off a number may be and still count as right.
    """

    name: str
    categories: tuple[str, ...] | None = None
    decimals: int = 0
    tolerance: float = 0.0

    @property
    def width(self) -> int:
        """How many features it takes."""
        return 1 if self.categories is None else len(self.categories)

    def __str__(self) -> str:
        if self.categories is None:
            return f"{self.name} (numbers, right within {self.tolerance:.3g})"
        return f"{self.name} ({len(self.categories)} categories)"


@dataclass(frozen=True, eq=False, repr=False)
class TableSet(Records):
    """Labelled rows: a torch dataset of (features, label).

    Attributes:
      rows: (n, features), float32: the columns' features side by side.
      labels: (n,), int64, positions in ``classes``; float32 where the target holds amounts.
      classes: The name of each class: the values of the target column; none for amounts.
      columns: What the features are.
      name: What the table is called.
      source: Where it was found.
      mean: What was subtracted from each feature, and last from amounts, or None.
      std: What it was divided by, or None.
      public: Whether the rows are known to be public.
      unit: What one record is of: "row", or "person" where everybody has one.
      left_out: Rows of people who have one in the table already.
    """

    kind: ClassVar = "rows of a table"
    metrics: ClassVar = (
        Metric("cells", "cells right", "higher", unit="share"),
        Metric("row", "whole rows right", "higher", unit="share"),
    )
    exposure: ClassVar = "cells"
    media: ClassVar = "application/json"
    typical_name: ClassVar = "most frequent categories and medians"

    rows: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    columns: tuple[Column, ...]
    name: str = "table"
    source: str = "memory"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    public: bool = False
    unit: str = "row"
    left_out: int = 0

    def __post_init__(self) -> None:
        width = sum(column.width for column in self.columns)
        if self.rows.dtype != torch.float32 or self.rows.ndim != 2 or not self.rows.numel():
            raise ValueError(
                "rows must be a float32 tensor (n, features) with at least one row, got "
                f"{self.rows.dtype} {tuple(self.rows.shape)}"
            )
        if self.rows.shape[1] != width:
            raise ValueError(f"rows must have {width} features, got {self.rows.shape[1]}")
        if not bool(torch.isfinite(self.rows).all()):
            raise ValueError("rows must be finite numbers")
        wanted = torch.int64 if self.classes else torch.float32
        if self.labels.dtype != wanted or self.labels.shape != self.rows.shape[:1]:
            what = "int64" if self.classes else "float32, amounts,"
            raise ValueError(f"labels must be {what}, one for each of {len(self.rows)} rows")
        low, high = torch.aminmax(self.labels)
        if self.classes and (int(low) < 0 or int(high) >= len(self.classes)):
            raise ValueError(
                f"labels must lie in 0..{len(self.classes) - 1}, got {int(low)} to {int(high)}"
            )
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError("labels must be finite numbers")
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std go together: give both or neither")

    def __repr__(self) -> str:
        scaled = "as written" if self.mean is None else "normalised"
        return (
            f"TableSet({self.name}: {len(self):,} rows, {len(self.columns)} columns, "
            f"{self.rows.shape[1]} features, {len(self.classes) or 'no'} classes, {scaled})"
        )

    @property
    def features(self) -> Tensor:
        """The rows."""
        return self.rows

    @property
    def scale(self) -> str:
        """The columns, and how their features are scaled."""
        listed = "; ".join(repr(column) for column in self.columns)
        return f"{listed}; mean {self.mean}, std {self.std}"

    @property
    def unit_range(self) -> bool:
        """Only where all columns are categories: nobody said how large a number can be."""
        return all(column.categories is not None for column in self.columns)

    @property
    def one_hot(self) -> tuple[tuple[int, int], ...]:
        """The features of each column of categories."""
        found, start = [], 0
        for column in self.columns:
            if column.categories is not None:
                found.append((start, start + column.width))
            start += column.width
        return tuple(found)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Categories and classes are those that occur."""
        notes = ["categories and classes were read off the table: not covered by the account"]
        if self.mean is None and not self.unit_range:
            notes.append(
                "numbers are as they are written: standardise scales them by this data's own "
                "statistics"
            )
        if self.unit == "person":
            notes.append(
                f"one row a person: ε is of a person ({self.left_out:,} further rows left out)"
            )
        return tuple(notes)

    def parts(self) -> tuple[str, ...]:
        """Returns the columns, with what counts as right of each."""
        return tuple(str(column) for column in self.columns)

    def summary(self) -> dict[str, object]:
        """Returns what the table is, in plain types."""
        return {
            **super().summary(),
            "columns": [column.name for column in self.columns],
            "kinds": ["numbers" if c.categories is None else "categories" for c in self.columns],
            "target": "classes" if self.classes else "amounts",
            "unit": self.unit,
        }

    def replaced(self, features: Tensor, labels: Tensor) -> TableSet:
        """Returns a set of the same columns and scale with these rows."""
        return dataclasses.replace(self, rows=features, labels=labels)

    def normalised(self, mean: Sequence[float], std: Sequence[float]) -> TableSet:
        """Returns the set with (feature - mean) / std; one of each a feature, or one for all.

        Amounts to predict take one more, the last; without it they stay as they are written.
        """
        if self.mean is not None:
            raise ValueError("the rows are normalised already: start from natural()")
        width = self.rows.shape[1]
        shift, scale = (
            tuple(float(value) for value in values) * (width if len(values) == 1 else 1)
            for values in (mean, std)
        )
        most = width if self.classes else width + 1
        if len(shift) != len(scale) or len(shift) not in (width, most):
            raise ValueError(f"mean and std must have {width} numbers, one for each feature")
        if not all(map(math.isfinite, (*shift, *scale))) or min(scale) <= 0:
            raise ValueError("mean must be finite and std finite and above 0")
        # In float64: an amount in the millions has no digits to lose.
        rows = (self.rows.double() - self._wide(shift)) / self._wide(scale)
        labels = self.labels
        if len(shift) > width:
            labels = ((labels.double() - shift[-1]) / scale[-1]).float()
        return dataclasses.replace(self, rows=rows.float(), labels=labels, mean=shift, std=scale)

    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns mean and standard deviation of each number; 0 and 1 for categories.

        Those of amounts to predict stand last. Exact, and thus not private. A column with one value
        in these rows keeps its scale.
        """
        mean, std = [], []
        for column, block in zip(self.columns, self._blocks(self.natural()), strict=True):
            if column.categories is not None:
                mean += [0.0] * column.width
                std += [1.0] * column.width
                continue
            spread = float(block.double().std(correction=0))
            mean.append(float(block.double().mean()))
            std.append(spread if spread > 0 else 1.0)
        if not self.classes:
            spread = float(self.labels.double().std(correction=0))
            mean.append(float(self.labels.double().mean()))
            std.append(spread if spread > 0 else 1.0)
        return tuple(mean), tuple(std)

    def natural(self, features: Tensor | None = None) -> Tensor:
        """Returns features of this set's scale as they are written."""
        given = self.rows if features is None else features
        if self.mean is None or self.std is None:
            return given
        wide = given.double() * self._wide(self.std) + self._wide(self.mean)
        return wide.to(given.dtype)

    def typical(self) -> Tensor:
        """Returns the row with each column's most frequent category, or its median."""
        parts = []
        for column, block in zip(self.columns, self._blocks(self.natural()), strict=True):
            if column.categories is None:
                parts.append(block.median(0).values)
            else:
                counts = torch.bincount(block.argmax(1), minlength=column.width)
                parts.append(torch.nn.functional.one_hot(counts.argmax(), column.width))
        row = torch.cat([part.to(torch.float32).reshape(-1) for part in parts])
        if self.mean is None or self.std is None:
            return row
        wide = (row.double() - self._wide(self.mean)) / self._wide(self.std)
        return wide.to(self.rows)

    def cells(self, features: Tensor | None = None) -> Tensor:
        """Returns (n, columns), float64: positions of categories, and numbers as they are written.

        Args:
          features: (n, features) in this set's scale; by default its own. A cell without a finite
            number is NaN, and never right.
        """
        given = self.natural(features).double()
        found = []
        for column, block in zip(self.columns, self._blocks(given), strict=True):
            if column.categories is None:
                cell = torch.round(block[:, 0], decimals=column.decimals)
            else:
                cell = block.argmax(1).double()
            found.append(torch.where(torch.isfinite(block).all(1), cell, torch.nan))
        return torch.stack(found, dim=1)

    def text(self, features: Tensor | None = None) -> list[list[str]]:
        """Returns the cells as they stand in the file."""
        return [
            [_written(column, value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.cells(features).tolist()
        ]

    def right(self, rebuilt: Tensor, originals: Tensor) -> Tensor:
        """Returns (n, columns), bool: which cells are right, numbers within their tolerance."""
        return self._agree(self.cells(rebuilt), self.cells(originals))

    def distances(self, rebuilt: Tensor, originals: Tensor) -> Tensor:
        """The number of cells that are wrong, of all pairs."""
        found, true = self.cells(rebuilt), self.cells(originals)
        rows = [(~self._agree(found, one.expand_as(found))).sum(1) for one in true]
        return torch.stack(rows).double()

    def compare(self, rebuilt: Tensor, originals: Tensor) -> dict[str, Tensor]:
        """Share of the cells that are right, and whether all of them are."""
        right = self.right(rebuilt, originals)
        return {"cells": right.double().mean(1), "row": right.all(1).double()}

    def rendered(
        self, rebuilt: Tensor, original: Tensor, *, reveal: bool
    ) -> tuple[bytes | None, bytes | None]:
        """Returns rows as JSON: ``columns``, ``cells`` and, of the reconstruction, ``right``.

        Without ``reveal`` there is no original, and the reconstruction has no cells, only which of
        them are right: a right cell is the victim's, and so is what a wrong one rules out.
        """
        columns = [column.name for column in self.columns]
        right = self.right(rebuilt[None], original[None])[0].tolist()
        if not reveal:
            return None, _json({"columns": columns, "cells": None, "right": right})
        true, found = (self.text(row[None])[0] for row in (original, rebuilt))
        return (
            _json({"columns": columns, "cells": true}),
            _json({"columns": columns, "cells": found, "right": right}),
        )

    def _agree(self, found: Tensor, true: Tensor) -> Tensor:
        # A millionth of the value: both went through float32, on a scale and back.
        slack = torch.tensor([column.tolerance for column in self.columns], dtype=torch.float64)
        return (found - true).abs() <= slack.to(true.device) + 1e-6 * true.abs()

    def _blocks(self, rows: Tensor) -> tuple[Tensor, ...]:
        return torch.split(rows, [column.width for column in self.columns], dim=1)

    def _wide(self, values: tuple[float, ...]) -> Tensor:
        width = self.rows.shape[1]  # what amounts are scaled by is not of the rows
        return torch.tensor(values[:width], dtype=torch.float64, device=self.rows.device)


def _written(column: Column, value: float) -> str:
    if math.isnan(value):
        return ""
    if column.categories is not None:
        return column.categories[int(value)]
    return f"{value:.{column.decimals}f}"


def _json(content: dict[str, object]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()
