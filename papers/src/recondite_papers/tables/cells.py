"""One cell of a comparison, and what a whole table says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = [
    "Cell",
    "Row",
    "Verdict",
    "agreement",
    "cut_short",
    "find",
    "having",
    "listed",
    "mean",
    "spread",
]


Row = dict[str, Any]
"""A stored row of a job: what it holds differs from job to job."""


@dataclass(frozen=True)
class Cell:
    """A printed number and ours.

    Attributes:
      name: Which cell.
      paper: What is printed; None where a figure's values cannot be read.
      ours: What came out; None where it was not run.
      spread: Standard deviation over our seeds.
      unit: "ε", "accuracy", "MSE", "SSIM", …
      why: Why they differ, or how ours was found.
      tested: What came out under other interpretations of the paper that were run for this cell.
      intruder: What the strongest attack known gains in this setting.
    """

    name: str
    paper: float | None
    ours: float | None
    spread: float | None = None
    unit: str = ""
    why: str = ""
    tested: tuple[float, ...] = ()
    intruder: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.paper is None or self.ours is None:
            return None
        return self.ours - self.paper

    def to_dict(self) -> dict[str, Any]:
        """In plain types."""
        return {**asdict(self), "difference": self.difference}


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Attributes:
      claim: In the paper's sense.
      stands: "stands", "falls", "in part", or "not run".
      evidence: Why, with numbers.
      believe: What to believe now, in at most twelve words; empty where nothing was run.
    """

    claim: str
    stands: str
    evidence: str
    believe: str = ""

    def to_dict(self) -> dict[str, Any]:
        """In plain types."""
        return asdict(self)


def having(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def find(rows: Sequence[Row], **wanted: Any) -> Row | None:
    """The first row that has these values."""
    return next(iter(having(rows, **wanted)), None)


def mean(values: Sequence[float]) -> float:
    """Of one number or more."""
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation, or None of a single number."""
    if len(values) < 2:
        return None
    centre = mean(values)
    return math.sqrt(sum((v - centre) ** 2 for v in values) / (len(values) - 1))


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them.

    >>> listed(["flat", "layers", "rows"])
    'flat, layers and rows'
    """
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def agreement(cells: Iterable[Cell], within: float) -> tuple[int, int]:
    """How many cells that were run lie within so much of the printed value, and of how many."""
    gaps = [abs(c.difference) for c in cells if c.difference is not None]
    return sum(gap <= within for gap in gaps), len(gaps)


def cut_short(row: Row | None) -> str:
    """Says of an attack that its time was up, or that it was a small run."""
    if row is None:
        return ""
    cut = f"stopped by the time limit after {row.get('iterations')} iterations"
    return "; ".join(p for p in (row.get("run"), cut if row.get("interrupted") else "") if p)
