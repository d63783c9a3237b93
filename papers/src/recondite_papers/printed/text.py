"""Readers of printed tables: a line is model, defence, value and the figures of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["pairs", "singles"]

N = TypeVar("N")


def singles(text: str, names: Sequence[N]) -> dict[tuple[str, str, float, N], float]:
    """One figure a column: (model, defence, value, name of the column) to it."""
    return {key: cell for key, (cell,) in _figures(text, names).items()}


def pairs(text: str, names: Sequence[N]) -> dict[tuple[str, str, float, N], tuple[float, float]]:
    """Two figures a column: first those of all columns, then the other ones."""
    return {key: (one, other) for key, (one, other) in _figures(text, names).items()}


def _figures(text: str, names: Sequence[N]) -> dict[tuple[str, str, float, N], list[float]]:
    out = {}
    for line in text.strip().split("\n"):
        model, defence, value, *cells = line.split()
        for place, name in enumerate(names):
            figures = [float(cell) for cell in cells[place :: len(names)]]
            out[model, defence, float(value), name] = figures
    return out
