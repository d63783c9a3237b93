"""A run with a mechanism, as notions see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from recondite.accounting.schedules import Schedule
from recondite.accounting.selection import RunCount, repeated
from recondite.laws.pair import mixed_loss
from recondite.mechanisms import Mechanism, MetricPrivacy, Neighbouring
from recondite.notions.base import Release, Scope, Unsampled
from recondite.notions.pairs import ChosenPair, ComposedPair

__all__ = ["MechanismRun"]

_DRAWN = {
    "poisson": "every batch was drawn by independent coin flips at this rate",
    "shuffled": "every record was in exactly one batch of every epoch",
    "allocation": "every record was in one secret batch of every epoch, drawn for it alone",
    "fixed-size": "every batch was a fresh uniform subset of this size",
}


@dataclass(frozen=True)
class MechanismRun(Release):
    """A mechanism under a schedule. Fields as in :class:`Release`.

    Without a schedule it is one release, which has capacity, information and a metric guarantee.

    Attributes:
      chosen_from: How many such runs the released one is the best of: a fixed number, or the law
        of a secret one. Notions of the pair count it; capacity and information are one run's.
    """

    mechanism: Mechanism
    schedule: Schedule | None = None
    delta: float = 0.0
    prior_success: float = 0.1
    group_size: int = 1
    chosen_from: RunCount | int = 1

    def __post_init__(self) -> None:
        largest = None if self.schedule is None else self.schedule.largest_batch()
        if largest is not None:
            object.__setattr__(self, "mechanism", self.mechanism.for_batches(largest))

    @property
    def subject(self) -> str:  # type: ignore[override]
        """As the mechanism says."""
        return self.mechanism.subject

    @property
    def neighbouring(self) -> Neighbouring:
        """As the schedule says."""
        return self._batches().neighbouring(self.mechanism)

    @cached_property
    def pair(self) -> ComposedPair:
        """The composition of every step; with a choice among runs, of all of them."""
        one = self._batches().composition(self.mechanism, self.group_size)
        if isinstance(self.chosen_from, int):
            return ComposedPair(repeated(one, self.chosen_from))
        return ChosenPair(one, self.chosen_from)

    def log_bayes_capacity(self, scope: Scope) -> float:
        """Of one release, or of the run.

        Noise on the average: a run leaks at most the sum over its steps (adaptive composition).
        Noise on each record: T chances to take part with probability q give T·log(1 - q + q·e^c).
        """
        single = self.mechanism.log_bayes_capacity()
        if scope == "release":
            return single
        if not self._per_record:
            return self._batches().steps * single
        chances, rate = self._batches().participations()
        return chances * float(mixed_loss(np.array([single]), rate)[0])

    def mutual_information(self, scope: Scope) -> float:
        """Of one release, or of the run: the sum over the releases a record takes part in."""
        single = self.mechanism.mutual_information()
        if scope == "release":
            return single
        if not self._per_record:
            return self._batches().steps * single
        chances, rate = self._batches().participations()
        return chances * rate * single

    def metric_privacy(self) -> MetricPrivacy:
        """As the mechanism says."""
        return self.mechanism.metric_privacy()

    def unsampled(self) -> Unsampled:
        """The law of one release, and how batches are drawn."""
        schedule = self._batches()
        chances, rate = schedule.participations()
        return Unsampled(
            law=self.mechanism.loss(self.neighbouring),
            rate=rate,
            releases=chances,
            amplified=rate == 1.0 or (schedule.sampling == "poisson" and not self._per_record),
        )

    def described(self) -> Mapping[str, object]:
        """Names and numbers."""
        return {
            "mechanism": self.mechanism.name,
            "parameters": self.mechanism.parameters(),
            "schedule": self._batches().to_dict(),
        }

    def assumptions(self) -> tuple[str, ...]:
        """Of the relation, the batches, the mechanism and the noise."""
        size = self.group_size
        unit = "one record" if size == 1 else f"a person with {size} records"
        sampling = self._batches().sampling
        return (
            f"epsilon and rero compare data sets that differ in {unit} ({self.neighbouring.value})",
            _DRAWN.get(sampling, "batches were drawn as the schedule says"),
            "one training run; choosing among several runs, and metrics, cost extra",
            f"capacity and information are about {self.subject}",
            *self.mechanism.assumptions(),
            "noise from a generator the attacker cannot predict; exact real arithmetic",
        )

    def __str__(self) -> str:
        return f"{self.mechanism} under {self.schedule} ({self.neighbouring.value})"

    @property
    def releases(self) -> int:
        """How many releases the bounds count: those that one record can take part in."""
        return self._batches().participations()[0] if self._per_record else self._batches().steps

    @property
    def _per_record(self) -> bool:
        return self.mechanism.stage == "record"

    def _batches(self) -> Schedule:
        if self.schedule is None:
            raise ValueError("schedule is needed for a whole run: give a rate and steps, or epochs")
        return self.schedule
