"""Channels, priors and gain functions from CSV files without a header.

Every fault is a ``ValueError`` of one line that names the file, the place and the remedy. A cell
is a number or a fraction such as ``1/3``, so that rows of thirds can sum to 1 exactly.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recondite.leakage.discrete import DiscreteChannel

__all__ = ["read_channel", "read_gain", "read_matrix", "read_prior"]

FloatArray = NDArray[np.float64]


def _number(cell: str, place: str) -> float:
    text = cell.strip()
    if not text:
        raise ValueError(f"{place} is empty; write a number")
    try:
        numerator, slash, denominator = text.partition("/")
        value = float(numerator) / float(denominator) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f"{place} is {text[:40]!r}, not a number; write numbers with commas and no header"
        ) from None
    if not math.isfinite(value):
        raise ValueError(f"{place} is {text[:40]!r}; write a finite number")
    return value


def _cells(path: Path) -> list[list[str]]:
    try:
        # utf-8-sig: spreadsheets put a byte-order mark in front of the first number.
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.reader(lines))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"{path}: not a CSV file of text; export it as CSV, UTF-8") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    while rows and not any(cell.strip() for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise ValueError(f"{path}: the file is empty; write one row of numbers for each line")
    return rows


def read_matrix(path: str | Path) -> FloatArray:
    """Reads a CSV file without a header as a matrix of finite numbers.

    Args:
      path: The file. Blank lines are allowed at the end only, so that row n is line n.

    Returns:
      A float64 matrix of shape (lines, numbers a line).

    Raises:
      ValueError: For a missing or unreadable file, rows of different lengths, or a cell that is
        not a finite number. Rows and columns count from 1.
    """
    path = Path(path)
    rows = _cells(path)
    width = len(rows[0])
    for index, row in enumerate(rows, start=1):
        if len(row) != width:
            raise ValueError(
                f"{path}: row {index} has {len(row)} numbers where row 1 has {width}; "
                "make all rows equally long"
            )
    return np.array(
        [
            [_number(cell, f"{path}: row {i}, column {j}") for j, cell in enumerate(row, start=1)]
            for i, row in enumerate(rows, start=1)
        ]
    )


def read_channel(path: str | Path) -> DiscreteChannel:
    """Reads a channel: rows are secrets, columns observations, every row sums to 1."""
    matrix = read_matrix(path)
    try:
        return DiscreteChannel(matrix)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_prior(path: str | Path) -> FloatArray:
    """Reads a prior: one row or one column of probabilities, one for each secret.

    That they are probabilities, and as many as there are secrets, is checked where they are used.
    """
    matrix = read_matrix(path)
    if min(matrix.shape) != 1:
        raise ValueError(
            f"{path}: a prior is a single row or a single column, "
            f"got {matrix.shape[0]} rows and {matrix.shape[1]} columns"
        )
    return matrix.ravel()


def read_gain(path: str | Path) -> FloatArray:
    """Reads a gain function: rows are actions, columns secrets, any finite numbers."""
    return read_matrix(path)
