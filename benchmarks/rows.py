"""What a benchmark yields: a row with its target, or a reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Row", "SkipBenchmark", "Target", "at_least", "at_most", "comparison"]


class SkipBenchmark(Exception):  # noqa: N818  (a reason, not a failure)
    """This machine cannot run the benchmark; the message is the reason."""


@dataclass(frozen=True)
class Target:
    """What a row is held against.

    Attributes:
      text: The target in words.
      of: Whether it speaks of our value or of the ratio to the peer.
      limit: The value that should be met; None for a comparison without a target.
      better: Whether higher or lower values are better.
    """

    text: str
    of: Literal["ours", "ratio"]
    limit: float | None
    better: Literal["lower", "higher"]

    def met(self, ours: float, ratio: float | None) -> bool | None:
        """Whether the target is met, or None where there is none or no measurement."""
        value = ours if self.of == "ours" else ratio
        if value is None or self.limit is None:
            return None
        return value <= self.limit if self.better == "lower" else value >= self.limit


def at_most(limit: float, text: str, of: Literal["ours", "ratio"] = "ours") -> Target:
    """A target for times and memory."""
    return Target(text, of, limit, "lower")


def at_least(limit: float, text: str, of: Literal["ours", "ratio"] = "ours") -> Target:
    """A target for rates."""
    return Target(text, of, limit, "higher")


def comparison(better: Literal["lower", "higher"] = "lower") -> Target:
    """No target: the row is there for its ratio."""
    return Target("none: a comparison", "ratio", None, better)


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
      name: What was done.
      ours: Our median.
      unit: The unit of both medians.
      target: What the row is held against.
      peer_name: Whom it is compared with, or None for an absolute goal.
      peer: The peer's median.
      note: How well the two answers agree, and what a reader must know.
      samples: Every measurement behind the medians, by side.
      processor_ratio: Ours over the peer's in processor time of the whole process, its threads
        included: what a step takes from a machine that has other things to do.
    """

    name: str
    ours: float
    unit: str
    target: Target
    peer_name: str | None = None
    peer: float | None = None
    note: str = ""
    samples: dict[str, list[float]] | None = None
    processor_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's."""
        return None if self.peer is None else self.ours / self.peer

    @property
    def met(self) -> bool | None:
        """Whether the target is met."""
        return self.target.met(self.ours, self.ratio)

    def to_dict(self) -> dict[str, Any]:
        """The row, ready for JSON."""
        return {
            "name": self.name,
            "ours": self.ours,
            "peer_name": self.peer_name,
            "peer": self.peer,
            "unit": self.unit,
            "ratio": self.ratio,
            "processor_ratio": self.processor_ratio,
            "target": self.target.text,
            "better": self.target.better,
            "met": self.met,
            "note": self.note,
            "samples": self.samples,
        }
