"""What the form asks: every field read and checked, each mistake in one line beside its field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from recondite import _validate
from recondite.accounting.schedules import SAMPLINGS, Schedule, schedule_for
from recondite.explore.intruders import seen_by
from recondite.mechanisms import Mechanism, UndefinedNotionError
from recondite.mechanisms.registry import mechanisms

__all__ = ["LOCKS", "PARTICIPATIONS", "SOLVED", "THREATS", "Query", "Refused", "typed"]

LOCKS = ("", "epsilon", "rero", "identification", "accuracy")
SOLVED = ("noise", "epochs")
THREATS = ("training", "update", "model")
PARTICIPATIONS = ("secret", "known")
# Fields of a mechanism that the form has, beside its noise parameter.
_OWN = ("dim", "blocks")
_MOST_STEPS = 10_000_000  # beyond, an answer takes minutes and nobody trains so long


class Refused(ValueError):  # noqa: N818  (it is an answer to the form, in one line)
    """A field that cannot be answered.

    Attributes:
      field: The name of the field the line belongs to.
    """

    def __init__(self, field: str, line: str) -> None:
        super().__init__(" ".join(line.split()))
        self.field = field


@dataclass(frozen=True)
class Query:
    """One setting of a training, an intruder, and a target that may be locked.

    Attributes:
      mechanism: The defence at the noise typed; where noise is solved for, only where to begin.
      sampling: How batches are drawn.
      records: Number of records.
      batch_size: Records in a batch.
      epochs: Passes over the records.
      delta: δ of (ε, δ).
      prior: Success of the best guess unaided, for ReRo.
      candidates: How many people a record is picked out of.
      threat: What is released.
      participation: Whether the intruder is told who took part when.
      lock: What must be met: a target's name, or "" for none.
      target: Its value.
      solve: What is found where a target is locked: the noise, or the number of epochs.
      data: The data set that the copied study names.
      model: Its model.
    """

    mechanism: Mechanism
    sampling: str
    records: int
    batch_size: int
    epochs: int
    delta: float
    prior: float
    candidates: int
    threat: str
    participation: str
    lock: str
    target: float
    solve: str
    data: str
    model: str

    @classmethod
    def read(cls, form: Mapping[str, str]) -> Query:
        """From the fields of the form, as a person typed them.

        Raises:
          Refused: In one line, with the field.
        """
        lock = _choice(form, "lock", LOCKS)
        solve = _choice(form, "solve", SOLVED)
        searched = bool(lock) and solve == "noise"
        target = 0.0
        if lock == "epsilon":
            target = typed(form, "target", _validate.positive)
        elif lock:
            target = typed(form, "target", _validate.probability)
        found = cls(
            mechanism=_mechanism(form, searched=searched),
            sampling=_choice(form, "sampling", SAMPLINGS),
            records=_count(form, "records", 1),
            batch_size=_count(form, "batch_size", 1),
            epochs=_count(form, "epochs", 1),
            delta=typed(form, "delta", _validate.probability),
            prior=typed(form, "prior", _validate.probability),
            candidates=_count(form, "candidates", 2),
            threat=_choice(form, "threat", THREATS),
            participation=_choice(form, "participation", PARTICIPATIONS),
            lock=lock,
            target=target,
            solve=solve,
            data=form.get("data", "").strip() or "mnist-5k",
            model=form.get("model", "").strip() or "mlp",
        )
        found._check()
        return found

    def _check(self) -> None:
        try:
            schedule = self.schedule
        except ValueError as error:
            raise Refused("batch_size", _plain(str(error))) from None
        if schedule.steps > _MOST_STEPS:
            line = f"{schedule.steps:,} steps are more than {_MOST_STEPS:,}: give fewer epochs"
            raise Refused("epochs", line)
        if self.lock == "identification" and self.target <= 1.0 / self.candidates:
            guess = f"a guess is right {1.0 / self.candidates:g} of the time"
            raise Refused("target", f"{guess}: ask for more than that")
        if self.lock == "rero" and self.target <= self.prior:
            raise Refused("target", f"a guess unaided has {self.prior:g}: ask for more than that")
        try:
            self.intruder.composition(self.mechanism)
        except (ValueError, UndefinedNotionError) as error:
            raise Refused(_field(str(error)), _plain(str(error))) from None

    @property
    def schedule(self) -> Schedule:
        """How batches are drawn, as the account of the run takes it."""
        return schedule_for(
            self.sampling, records=self.records, batch_size=self.batch_size, epochs=self.epochs
        )

    @property
    def intruder(self) -> Schedule:
        """The schedule as the chosen intruder sees it."""
        return seen_by(self.schedule, self.threat, self.participation)

    @property
    def loose_delta(self) -> str:
        """A warning where δ lets a defence publish somebody's record; "" otherwise."""
        if self.delta <= 1.0 / self.records:
            return ""
        return (
            f"δ = {self.delta:g} is above 1 / {self.records} records: publishing one record at "
            "random would satisfy it; choose a smaller δ"
        )

    def at(self, strength: float | None = None, epochs: int | None = None) -> Query:
        """The same with other noise or another number of epochs."""
        mechanism = self.mechanism if strength is None else self.mechanism.with_strength(strength)
        return dataclasses.replace(self, mechanism=mechanism, epochs=epochs or self.epochs)


def _mechanism(form: Mapping[str, str], *, searched: bool) -> Mechanism:
    known = {name: kind for name, kind in mechanisms().items() if kind.parameter}
    name = _choice(form, "defence", tuple(known))
    kind = known[name]
    fields = {field.name for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    if searched:
        low, high = kind.search_range
        values[kind.parameter] = math.sqrt(low * high)
    else:
        values[kind.parameter] = typed(form, "value", _validate.positive)
    for own in _OWN:
        if own in fields and form.get(own, "").strip():
            values[own] = _count(form, own, 1)
    try:
        return kind(**values)
    except ValueError as error:
        raise Refused(_field(str(error)), _plain(str(error))) from None


def _field(line: str) -> str:
    """The field that an error of the library speaks of: its first word, or the defence."""
    word = line.split(maxsplit=1)[0] if line else ""
    known = {field.name for field in dataclasses.fields(Query)} | set(_OWN)
    return word if word in known else "defence" if "dim" not in line else "dim"


def _plain(line: str) -> str:
    return line.replace("batch_size", "batch size").replace("max_grad_norm", "clipping norm")


def _choice(form: Mapping[str, str], name: str, options: tuple[str, ...]) -> str:
    value = form.get(name, options[0])
    if value not in options:
        raise Refused(name, f"must be one of {', '.join(filter(None, options))}, got {value!r}")
    return value


def _typed(form: Mapping[str, str], name: str) -> float:
    text = form.get(name, "").strip().replace(",", "").replace("\u202f", "")
    if not text:
        raise Refused(name, "is empty: type a number")
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise Refused(name, f"{text[:40]!r} is no number or fraction such as 1/60000") from None


def typed(form: Mapping[str, str], name: str, check: Any) -> float:
    """A number or a fraction of a form, as a person typed it, that passes a check."""
    value = _typed(form, name)
    try:
        return float(check(name, value))
    except ValueError as error:
        raise Refused(name, str(error).removeprefix(f"{name} ")) from None


def _count(form: Mapping[str, str], name: str, least: int) -> int:
    value = _typed(form, name)
    try:
        return int(_validate.at_least(name, value, least))
    except ValueError as error:
        raise Refused(name, str(error).removeprefix(f"{name} ")) from None
