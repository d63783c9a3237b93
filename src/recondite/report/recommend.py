"""One recommendation: the most accurate defence whose proof keeps every budget.

It is computed here and nowhere else: :func:`candidates` ranks, once, what may ever be recommended
to somebody with this intruder, and the answer to any budgets is the first of them that keeps all.
The page holds that ranked list and only walks it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from recondite.notions.bounds import round_bound
from recondite.report.ladder import BUDGET, Standing
from recondite.report.points import Point

__all__ = [
    "Candidate",
    "Requirements",
    "candidates",
    "choose",
    "eligible",
    "nearest",
    "without_accuracy",
]

DIGITS = 6
_LEAST = {"accuracy"}  # what must be reached; everything else must not be exceeded
_FORM = re.compile(r"\s*([A-Za-z_-]+)\s*(<=|>=|≤|≥|<|>|=)\s*(\S+)\s*")


@dataclass(frozen=True)
class Requirements:
    """What a policy asks for, all together; None asks for nothing.

    Attributes:
      epsilon: ε at most.
      rero: No intruder rebuilds a record, or picks it out of ten, more often.
      identification: The strongest attack here did not pick a record out of ten more often, by the
        upper end of its interval.
      accuracy: Test accuracy at least.
    """

    epsilon: float | None = None
    rero: float | None = None
    identification: float | None = None
    accuracy: float | None = None

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Requirements:
        """From ``epsilon<=8`` and the like.

        Raises:
          ValueError: In one line, for an unknown name or anything malformed.
        """
        names = [field.name for field in fields(cls)]
        given: dict[str, float] = {}
        for text in texts:
            parts = _FORM.fullmatch(text)
            name = parts[1].lower() if parts else ""
            if parts is None or name not in names:
                wanted = ", ".join(f"{n}{_sign(n)}NUMBER" for n in names)
                raise ValueError(f"require {text!r} is not understood: write one of {wanted}")
            sign = parts[2].replace("≤", "<=").replace("≥", ">=")
            if sign != _sign(name):
                raise ValueError(f"require {text!r}: write {name}{_sign(name)}{parts[3]}")
            if name in given:
                raise ValueError(f"require {name} is given twice: keep one of them")
            given[name] = _number(name, parts[3], text)
        return cls(**given)

    def limits(self) -> dict[str, float]:
        """What is asked for; ReRo of at most a half where no proof is named."""
        asked = {name: value for name, value in vars(self).items() if value is not None}
        if self.epsilon is None and self.rero is None:
            asked["rero"] = BUDGET
        return asked


@dataclass(frozen=True)
class Candidate:
    """What may be recommended, in plain numbers; None is not measured or not proven.

    Attributes:
      point: The number of the point.
      run: Its run.
      values: Accuracy, and the bounds or measurements that a budget may name.
    """

    point: int
    run: int
    values: dict[str, float | None]

    def keeps(self, name: str, limit: float) -> bool:
        """Whether it keeps one requirement."""
        value = self.values[name]
        if value is None:
            return False
        return value >= limit if name in _LEAST else value <= limit

    def fails(self, limits: dict[str, float]) -> list[str]:
        """The requirements that it does not keep."""
        return [name for name, limit in limits.items() if not self.keeps(name, limit)]

    def to_dict(self) -> dict[str, Any]:
        """Ready for the page."""
        values = {name: value if _finite(value) else None for name, value in self.values.items()}
        return {"id": self.point, "run": self.run, **values}


def eligible(points: Sequence[Point], standing: Sequence[Standing]) -> list[Candidate]:
    """What may be recommended against one intruder, best first.

    Never what is undefended or contradicted, nor what any measure shows legible, nor what has
    neither ε nor ReRo for this intruder. The most accurate comes first; of equally accurate ones
    that with the smaller ReRo, then the smaller ε.
    """
    found = []
    for one in standing:
        point = points[one.point]
        accuracy = point.mean("accuracy")
        if accuracy is None or one.contradicted or one.legible or not point.bounded:
            continue
        if not any(_finite(value) for value in (one.rero, one.epsilon)):
            continue
        seen = one.identification
        values = {
            "accuracy": float(f"{accuracy:.{DIGITS}g}"),
            "rero": _up(one.rero),
            "epsilon": _up(one.epsilon),
            "identification": None if seen is None else _up(seen.high),
        }
        found.append(Candidate(point.index, point.run, values))
    found.sort(key=lambda c: (-(c.values["accuracy"] or 0), *(_size(c, k) for k in _MOST), c.point))
    return found


def candidates(points: Sequence[Point], standing: Sequence[Standing]) -> list[Candidate]:
    """What may be the answer to some budgets, best first.

    What an earlier one of the same run beats in everything that a budget can name never is.
    """
    kept: list[Candidate] = []
    for one in eligible(points, standing):
        same = (other for other in kept if other.run == one.run)
        if not any(all(_size(other, k) <= _size(one, k) for k in _MOST) for other in same):
            kept.append(one)
    return kept


def choose(
    ranked: Sequence[Candidate], limits: dict[str, float], runs: Collection[int] | None = None
) -> Candidate | None:
    """The first that keeps every limit; None where none does."""
    return next(
        (c for c in ranked if (runs is None or c.run in runs) and not c.fails(limits)), None
    )


def without_accuracy(limits: dict[str, float]) -> dict[str, float]:
    """The limits of the proof alone: what could be had if accuracy were no object."""
    return {name: limit for name, limit in limits.items() if name not in _LEAST}


def nearest(ranked: Sequence[Candidate], limits: dict[str, float]) -> Candidate | None:
    """Where none keeps all limits, the one that comes nearest: by its proof before its accuracy."""
    proof = without_accuracy(limits)

    def distance(one: Candidate) -> tuple[int, float, int]:
        excess = max((_size(one, name) / proof[name] for name in one.fails(proof)), default=0.0)
        return len(one.fails(proof)), excess, len(one.fails(limits))

    return min(ranked, key=distance, default=None)


_MOST = ("rero", "epsilon", "identification")


def _size(candidate: Candidate, name: str) -> float:
    value = candidate.values[name]
    return math.inf if value is None else value


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _up(value: float | None) -> float | None:
    if value is None:
        return None
    return round_bound(value, DIGITS) if math.isfinite(value) else value


def _sign(name: str) -> str:
    return ">=" if name in _LEAST else "<="


def _number(name: str, text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"require {whole!r}: {name} must be a number above 0, got {text}")
    if name != "epsilon" and value > 1:
        hint = f": did you mean {value / 100:g}?" if value <= 100 else ""
        raise ValueError(f"require {whole!r}: {name} is a share of at most 1{hint}")
    return value
