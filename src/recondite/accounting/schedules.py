"""How batches were drawn: explicit, because the guarantee depends on it.

Each schedule knows its own neighbouring relation and turns a mechanism into the composition of
laws that one person is exposed to. Poisson amplification is claimed for Poisson batches only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from recondite import _validate
from recondite.accounting.composition import Composition
from recondite.laws import AllocatedLoss, LossLaw, RevealedLoss, without_replacement
from recondite.mechanisms import Mechanism, Neighbouring

__all__ = ["FixedSize", "Poisson", "RandomAllocation", "Schedule", "Shuffled", "schedule_for"]

SAMPLINGS = ("poisson", "allocation", "fixed-size", "shuffled")
# Records of one person whose number in a batch is followed exactly.
_MOST_RECORDS = 64


class Schedule(ABC):
    """A sampling scheme and its length.

    Attributes:
      sampling: Its name.
      steps: Number of optimizer steps, that is of releases. Not epochs.
      secret_batches: Whether amplification asks that nobody knows who else is in a batch.
    """

    sampling: ClassVar[str]
    secret_batches: ClassVar[bool] = False
    steps: int

    @abstractmethod
    def neighbouring(self, mechanism: Mechanism) -> Neighbouring:
        """The relation under which this schedule is accounted for this mechanism."""

    @abstractmethod
    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """The laws that a person with ``group_size`` records is exposed to."""

    @abstractmethod
    def participations(self) -> tuple[int, float]:
        """How often one record can take part, and with what probability each time."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The schedule, ready for JSON."""

    def largest_batch(self) -> int | None:
        """The largest batch this schedule can draw, if there is one."""
        return None

    def cheaper(self) -> tuple[Schedule, ...]:
        """Other ways to draw as many batches of this size that cost far less, if there are any."""
        return ()

    def _check_steps(self) -> None:
        object.__setattr__(self, "steps", _validate.at_least("steps", self.steps, 1))


@dataclass(frozen=True)
class Poisson(Schedule):
    """Every record joins every batch independently with probability ``rate``.

    Noise on the average: add/remove-one, amplified. Noise on each record: replace-one, where the
    two neighbours draw the same batches and nothing is amplified.

    Attributes:
      rate: Sampling probability in (0, 1].
      steps: Number of releases.
    """

    rate: float
    steps: int

    sampling: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        _validate.probability("rate", self.rate, closed_at_one=True)
        self._check_steps()

    def neighbouring(self, mechanism: Mechanism) -> Neighbouring:
        """Add/remove-one, or replace-one for noise on each record."""
        if mechanism.stage == "record":
            return Neighbouring.REPLACE
        return Neighbouring.ADD_OR_REMOVE

    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """The sampled law, once a step."""
        group = _validate.at_least("group_size", group_size, 1)
        law = mechanism.loss(self.neighbouring(mechanism))
        if mechanism.stage == "record":
            sampled: LossLaw = law if self.rate == 1.0 else RevealedLoss(law, float(self.rate))
            return Composition.of([(sampled, group * self.steps)])
        return Composition.of([(law.mixture(self._weights(law, group)), self.steps)])

    def _weights(self, law: LossLaw, group: int) -> tuple[float, ...]:
        """Probabilities that 0, 1, … of a person's records are drawn."""
        rate = float(self.rate)
        if group == 1 or law.together(group) == law:
            if rate == 1.0:
                return 0.0, 1.0
            none = group * math.log1p(-rate)
            return math.exp(none), -math.expm1(none)
        if group > _MOST_RECORDS:
            raise ValueError(
                f"group_size must be {_MOST_RECORDS} or less with Poisson batches of this mechanism"
            )
        return tuple(
            math.comb(group, j) * rate**j * (1.0 - rate) ** (group - j) for j in range(group + 1)
        )

    def participations(self) -> tuple[int, float]:
        """Any step, with probability ``rate``."""
        return self.steps, float(self.rate)

    def to_dict(self) -> dict[str, Any]:
        """The schedule, ready for JSON."""
        return {"sampling": self.sampling, "rate": float(self.rate), "steps": self.steps}


@dataclass(frozen=True)
class Shuffled(Schedule):
    """Epochs of disjoint batches in any order: every record takes part once an epoch.

    Accounted without amplification, under replace-one, as ``epochs`` compositions (the other
    batches of an epoch do not see the record).

    Attributes:
      epochs: Number of passes over the records.
      batch_size: Records in a batch.
      records: Number of records.
    """

    epochs: int
    batch_size: int
    records: int

    sampling: ClassVar[str] = "shuffled"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "records"):
            object.__setattr__(self, name, _validate.at_least(name, getattr(self, name), 1))
        _check_batch(self.batch_size, self.records)

    @property
    def batches(self) -> int:
        """Batches in an epoch."""
        return math.ceil(self.records / self.batch_size)

    # A field of the other schedules; here it follows from the fields, and schedules are frozen.
    @property
    def steps(self) -> int:  # type: ignore[override]
        """Optimizer steps."""
        return self.epochs * self.batches

    def neighbouring(self, mechanism: Mechanism) -> Neighbouring:
        """Replace-one."""
        del mechanism
        return Neighbouring.REPLACE

    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """One unsampled release an epoch, in the worst arrangement of a person's records."""
        group = _validate.at_least("group_size", group_size, 1)
        law = mechanism.loss(Neighbouring.REPLACE)
        if mechanism.stage == "record":
            return Composition.of([(law, group * self.epochs)])
        joint = law.together(group)
        if joint == law:
            # Several records in one batch do no more than one: the worst is one in each batch.
            return Composition.of([(law, self.epochs * min(group, self.batches))])
        # Losses that grow with the records grow fastest when all are in one batch (Σk² <= (Σk)²).
        return Composition.of([(joint, self.epochs)])

    def participations(self) -> tuple[int, float]:
        """Once an epoch, for certain."""
        return self.epochs, 1.0

    def largest_batch(self) -> int | None:
        """The batch size."""
        return self.batch_size

    def cheaper(self) -> tuple[Schedule, ...]:
        """Poisson batches, and random allocation, which sees every record once an epoch too."""
        poisson = Poisson(self.batch_size / self.records, self.steps)
        return poisson, RandomAllocation(self.batches, self.epochs)

    def to_dict(self) -> dict[str, Any]:
        """The schedule, ready for JSON."""
        return {
            "sampling": self.sampling,
            "rate": None,
            "steps": self.steps,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "records": self.records,
        }


@dataclass(frozen=True)
class RandomAllocation(Schedule):
    """Every record once an epoch, in a batch drawn for it alone: shuffling that amplifies.

    Each epoch every record goes to one of ``batches`` batches, uniformly and independently of the
    others, and nobody is told which. Batch sizes vary as under Poisson sampling; a permutation cut
    into batches of one size is another thing, and :class:`Shuffled` accounts for it.

    Noise on the sum: add/remove-one, amplified (:class:`recondite.laws.AllocatedLoss`). Noise on
    each record: replace-one, where the two neighbours draw the same batches and nothing is
    amplified: one unsampled release an epoch.

    Attributes:
      batches: Batches in an epoch, a public number.
      epochs: Passes over the records; one that was begun counts as a whole one.
    """

    batches: int
    epochs: int

    sampling: ClassVar[str] = "allocation"

    def __post_init__(self) -> None:
        for name in ("batches", "epochs"):
            object.__setattr__(self, name, _validate.at_least(name, getattr(self, name), 1))

    # As for shuffled batches, the number of steps follows from the fields.
    @property
    def steps(self) -> int:  # type: ignore[override]
        """Optimizer steps."""
        return self.epochs * self.batches

    def neighbouring(self, mechanism: Mechanism) -> Neighbouring:
        """Add/remove-one, or replace-one for noise on each record."""
        if mechanism.stage == "record":
            return Neighbouring.REPLACE
        return Neighbouring.ADD_OR_REMOVE

    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """The allocated law, once an epoch."""
        group = _validate.at_least("group_size", group_size, 1)
        law = mechanism.loss(self.neighbouring(mechanism))
        if mechanism.stage == "record":
            return Composition.of([(law, group * self.epochs)])
        if group > 1:
            raise ValueError(
                "group_size above 1 has no proved bound for random allocation: use Poisson batches"
            )
        return Composition.of([(AllocatedLoss(law, self.batches), self.epochs)])

    def participations(self) -> tuple[int, float]:
        """Once an epoch, for certain."""
        return self.epochs, 1.0

    def to_dict(self) -> dict[str, Any]:
        """The schedule, ready for JSON."""
        return {
            "sampling": self.sampling,
            "rate": None,
            "steps": self.steps,
            "epochs": self.epochs,
            "batches": self.batches,
        }


@dataclass(frozen=True)
class FixedSize(Schedule):
    """Every batch is a fresh uniform subset of ``batch_size`` records, without replacement.

    Accounted under replace-one (Zhu, Dong and Wang, 2022), against who knows nobody's batches.

    Attributes:
      batch_size: Records in a batch.
      records: Number of records.
      steps: Number of releases.
    """

    batch_size: int
    records: int
    steps: int

    sampling: ClassVar[str] = "fixed-size"
    secret_batches: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("batch_size", "records"):
            object.__setattr__(self, name, _validate.at_least(name, getattr(self, name), 1))
        self._check_steps()
        _check_batch(self.batch_size, self.records)

    @property
    def rate(self) -> float:
        """Share of the records in a batch."""
        return self.batch_size / self.records

    def neighbouring(self, mechanism: Mechanism) -> Neighbouring:
        """Replace-one."""
        del mechanism
        return Neighbouring.REPLACE

    def composition(self, mechanism: Mechanism, group_size: int = 1) -> Composition:
        """The folded, sampled law, once a step."""
        group = _validate.at_least("group_size", group_size, 1)
        law = mechanism.loss(Neighbouring.REPLACE)
        if group > 1 and (mechanism.stage == "record" or law.together(group) != law):
            raise ValueError(
                "group_size above 1 has no proved bound for fixed-size batches with this "
                "mechanism: use Poisson or shuffled batches"
            )
        return Composition.of([(without_replacement(law, self._any_of(group)), self.steps)])

    def _any_of(self, group: int) -> float:
        """Probability that a batch holds any of ``group`` records."""
        if group + self.batch_size > self.records:
            return 1.0
        none = sum(math.log1p(-self.batch_size / (self.records - i)) for i in range(group))
        return -math.expm1(none)

    def participations(self) -> tuple[int, float]:
        """Any step, with probability batch_size / records."""
        return self.steps, self.rate

    def largest_batch(self) -> int | None:
        """The batch size."""
        return self.batch_size

    def to_dict(self) -> dict[str, Any]:
        """The schedule, ready for JSON."""
        return {
            "sampling": self.sampling,
            "rate": self.rate,
            "steps": self.steps,
            "batch_size": self.batch_size,
            "records": self.records,
        }


def schedule_for(
    sampling: str,
    *,
    batch_size: float | None = None,
    records: float | None = None,
    epochs: float | None = None,
    steps: float | None = None,
    rate: float | None = None,
) -> Schedule:
    """The schedule of a run as people describe one.

    Where a rate or a number of steps is not given it follows from the records, the expected batch
    size and the epochs: rate batch_size/records, and ⌈records/batch_size⌉ steps an epoch. The
    number of records is then taken for public.

    Args:
      sampling: "poisson", "allocation", "fixed-size" or "shuffled".
      batch_size: Records in a batch; on average, where batches vary.
      records: Number of records.
      epochs: Passes over the records.
      steps: Releases, instead of epochs.
      rate: Poisson sampling rate, instead of batch size and records.

    >>> schedule_for("poisson", records=60_000, batch_size=128, epochs=3).steps
    1407
    """
    _validate.choice("sampling", sampling, SAMPLINGS)
    if rate is not None and steps is not None:
        return Poisson(rate, int(_validate.at_least("steps", steps, 1)))
    if batch_size is None or records is None:
        raise ValueError("batch_size and records are needed, or rate and steps")
    size, count = (
        _validate.at_least("batch_size", batch_size, 1),
        _validate.at_least("records", records, 1),
    )
    _check_batch(size, count)
    batches = math.ceil(count / size)
    if steps is None:
        if epochs is None:
            raise ValueError("epochs or steps is needed with batch_size and records")
        passes = _validate.at_least("epochs", epochs, 1)
        if sampling == "shuffled":
            return Shuffled(passes, size, count)
        if sampling == "allocation":
            return RandomAllocation(batches, passes)
        steps = passes * batches
    releases = _validate.at_least("steps", steps, 1)
    if sampling == "fixed-size":
        return FixedSize(size, count, releases)
    if sampling != "poisson":
        raise ValueError(f"epochs, not steps, is needed for {sampling} batches")
    return Poisson(size / count, releases)


def _check_batch(batch_size: int, records: int) -> None:
    if batch_size > records:
        raise ValueError(f"batch_size must be at most records ({records}), got {batch_size}")
