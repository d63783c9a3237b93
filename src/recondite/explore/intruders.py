"""Schedules as an intruder sees them: who is told more, or sees less, faces another composition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recondite.accounting.composition import Composition
from recondite.accounting.schedules import Schedule
from recondite.laws import RevealedLoss
from recondite.mechanisms import Mechanism, Neighbouring

__all__ = ["seen_by"]


@dataclass(frozen=True)
class _SeenSchedule(Schedule):
    """A schedule whose releases an intruder sees otherwise than its account takes them to be."""

    given: Schedule

    @property
    def sampling(self) -> str:  # type: ignore[override]
        """As given."""
        return self.given.sampling

    @property
    def steps(self) -> int:  # type: ignore[override]
        """As given."""
        return self.given.steps

    def neighbouring(self, mechanism: Mechanism) -> Neighbouring:
        """As given."""
        return self.given.neighbouring(mechanism)

    def participations(self) -> tuple[int, float]:
        """As given."""
        return self.given.participations()

    def largest_batch(self) -> int | None:
        """As given."""
        return self.given.largest_batch()

    def to_dict(self) -> dict[str, Any]:
        """As given."""
        return self.given.to_dict()


class _Told(_SeenSchedule):
    """The intruder is told in which steps the record took part: nothing is amplified.

    Guarantee: the relation is the schedule's own; both neighbours draw the same batches, so the
    pair of a step is the unsampled one where the record takes part and nothing where it does not.
    """

    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """One unsampled release for every step that the record takes part in."""
        _one_record(group_size)
        chances, rate = self.participations()
        law = mechanism.loss(self.neighbouring(mechanism))
        return Composition.of([(law if rate == 1.0 else RevealedLoss(law, rate), chances)])


class _OneUpdate(_SeenSchedule):
    """The intruder sees one update that the record took part in, as a curious server does."""

    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """One unsampled release."""
        _one_record(group_size)
        return Composition.of([(mechanism.loss(self.neighbouring(mechanism)), 1)])


def _one_record(group_size: int) -> None:
    if group_size != 1:
        raise ValueError("group_size must be 1 for an intruder who is told who took part")


def seen_by(schedule: Schedule, threat: str, participation: str) -> Schedule:
    """The schedule as an intruder sees it.

    Guarantee: bounds for the schedule returned hold for that intruder. Whoever has only the trained
    model learns no more than whoever sees the training, so the bound of the latter stands for both.

    Args:
      schedule: How batches are drawn.
      threat: What is released: "training", "update" or "model".
      participation: Whether the intruder is told in which steps a record took part.
    """
    if threat == "update":
        return _OneUpdate(schedule)
    return _Told(schedule) if participation == "known" else schedule
