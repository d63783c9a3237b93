"""Two shares for each paper: cells that come out, and cells that are off for a tested reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recondite_papers.tables.cells import Cell

__all__ = ["Shares", "limit", "sentence", "shares"]

_PERCENT = ("accuracy", "AUC", "points")
_OF_ONE = ("SSIM", "MSE", "share")
_GROUPS = (
    ("Accuracies and AUCs, within 3 points", _PERCENT),
    ("Errors and similarities, within 0.03", _OF_ONE),
)
_REST = "Other numbers, within 3%"


@dataclass(frozen=True)
class Shares:
    """How a group of printed cells came out.

    Attributes:
      near: Cells that were run and are within the limit.
      run: Cells that were run, where a number is printed.
      explained: Cells beyond it that another interpretation, which was run, brings within it.
    """

    near: int
    run: int
    explained: int

    @property
    def off(self) -> int:
        """Cells beyond the limit."""
        return self.run - self.near


def limit(cell: Cell) -> float:
    """3 points of a percentage, 0.03 of an error or similarity, 3% of any other number."""
    if cell.unit in _PERCENT:
        return 3.0
    return 0.03 if cell.unit in _OF_ONE else 0.03 * abs(cell.paper or 0.0)


def shares(cells: Iterable[Cell]) -> Shares:
    """Of the cells that have a printed number and were run, each counted once."""
    seen = {(c.name, c.unit, c.paper): c for c in cells if c.difference is not None}
    near = explained = 0
    for cell in seen.values():
        gap, paper, most = cell.difference or 0.0, cell.paper or 0.0, limit(cell) + 1e-9
        if abs(gap) <= most:
            near += 1
        elif any(abs(value - paper) <= most for value in cell.tested):
            explained += 1
    return Shares(near, len(seen), explained)


def sentence(cells: Iterable[Cell]) -> str:
    """Both shares of every group that has cells, in one paragraph."""
    held = list(cells)
    grouped = [(title, [c for c in held if c.unit in units]) for title, units in _GROUPS]
    rest = [c for c in held if c.unit not in (*_PERCENT, *_OF_ONE)]
    said = []
    for title, part in (*grouped, (_REST, rest)):
        found = shares(part)
        if found.run:
            line = f"{title}: {found.near} of {found.run} ({100 * found.near / found.run:.0f}%)"
            if found.off:
                line += f"; of the {found.off} that are off {found.explained} "
                line += f"({100 * found.explained / found.off:.0f}%) have a tested reason"
            said.append(line)
    return (
        f"**Two shares.** {'. '.join(said)}. A reason is tested where another interpretation of "
        "the paper was run (the column *why*) and brings the cell within the limit."
    )
