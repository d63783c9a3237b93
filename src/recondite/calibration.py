"""From a target to the weakest noise that meets it, and from one mechanism to its equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from recondite import _validate
from recondite.accounting.pld import pld_epsilon
from recondite.accounting.schedules import Schedule
from recondite.leakage.rero import rero
from recondite.mechanisms import Mechanism
from recondite.notions import capacity, information, json_ready
from recondite.numerics.roots import last_true

__all__ = ["NOTIONS", "Calibration", "Criterion", "calibrate", "match", "measure"]

NOTIONS: tuple[str, ...] = ("epsilon", "bayes-capacity", "mutual-information", "rero")
SCOPES: tuple[str, ...] = ("release", "run")

_SMALLEST, _LARGEST = 1e-9, 1e9
_DIGITS = 6  # of a calibrated value, or more where more precision is asked for


@dataclass(frozen=True)
class Calibration:
    """The weakest noise that was found to meet a target.

    Guarantee: ``achieved`` was computed for ``mechanism`` as returned and is at most ``target``.

    Attributes:
      mechanism: The mechanism with its noise set.
      parameter: The name of its noise parameter.
      value: That parameter's value, in as many digits as are printed: what a person copies is
        what was accounted.
      notion: What was calibrated.
      target: The target.
      achieved: The notion's value at the mechanism returned.
      scope: For capacity and information: of one release or of the run.
    """

    mechanism: Mechanism
    parameter: str
    value: float
    notion: str
    target: float
    achieved: float
    scope: str | None

    def to_dict(self) -> dict[str, Any]:
        """One JSON object."""
        out: dict[str, Any] = json_ready(
            {
                "schema_version": 1,
                "mechanism": self.mechanism.name,
                "parameters": self.mechanism.parameters(),
                "parameter": self.parameter,
                "value": self.value,
                "notion": self.notion,
                "scope": self.scope,
                "target": self.target,
                "achieved": self.achieved,
            }
        )
        return out


@dataclass(frozen=True)
class Criterion:
    """One notion of privacy of a run, as a number: what is measured, matched and calibrated.

    Attributes:
      notion: "epsilon", "bayes-capacity", "mutual-information" or "rero".
      schedule: The schedule; needed for ε, ReRo and anything about the run.
      delta: δ, for ε.
      prior_success: Success of the best blind guess, for ReRo.
      group_size: Records of one person, for ε and ReRo.
      scope: For capacity and information, one "release" or the whole "run".
    """

    notion: str
    schedule: Schedule | None = None
    delta: float | None = None
    prior_success: float = 0.1
    group_size: int = 1
    scope: str = "release"

    def __post_init__(self) -> None:
        _validate.choice("notion", self.notion, NOTIONS)
        _validate.choice("scope", self.scope, SCOPES)
        if self.notion == "epsilon" and self.schedule is not None:
            if self.delta is None:
                raise ValueError("delta is needed for epsilon")
            _validate.probability("delta", self.delta)

    @property
    def leaks(self) -> bool:
        """Whether the notion is a leakage, which has a scope."""
        return self.notion in ("bayes-capacity", "mutual-information")

    def of(self, mechanism: Mechanism) -> float:
        """The notion's value for a mechanism: an upper bound."""
        largest = self.schedule.largest_batch() if self.schedule is not None else None
        if largest is not None:
            mechanism = mechanism.for_batches(largest)
        if self.leaks:
            return _leakage(mechanism, self.notion, self.schedule, self.scope)
        if self.schedule is None:
            raise ValueError(
                f"schedule is needed for {self.notion}: give a rate and steps, or epochs"
            )
        composition = self.schedule.composition(mechanism, self.group_size)
        if self.notion == "rero":
            return rero(composition, self.prior_success)
        return pld_epsilon(composition, float(self.delta or 0.0))

    def target(self, value: float) -> float:
        """A target for this notion, checked."""
        if self.notion != "rero":
            return _validate.positive(self.notion, value)
        goal = _validate.probability("rero", value)
        if goal <= _validate.probability("prior_success", self.prior_success):
            raise ValueError(
                f"rero must be above prior_success {self.prior_success:g}, got {value:g}: nothing "
                "does worse than a blind guess"
            )
        return goal


def measure(
    mechanism: Mechanism, notion: str, schedule: Schedule | None = None, **options: Any
) -> float:
    """One notion of a run: an upper bound. Options as in :class:`Criterion`."""
    return Criterion(notion, schedule, **options).of(mechanism)


def _leakage(mechanism: Mechanism, notion: str, schedule: Schedule | None, scope: str) -> float:
    if scope == "release":
        by_capacity = notion == "bayes-capacity"
        return mechanism.log_bayes_capacity() if by_capacity else mechanism.mutual_information()
    if schedule is None:
        raise ValueError(f"schedule is needed for the {notion} of a run: give a rate and steps")
    reasons: dict[str, str] = {}
    both = (capacity if notion == "bayes-capacity" else information)(mechanism, schedule, reasons)
    if both["run"] is None:
        raise ValueError(next(iter(reasons.values())))
    return both["run"]


def calibrate(
    mechanism: Mechanism,
    target: float,
    notion: str = "epsilon",
    schedule: Schedule | None = None,
    *,
    relative: float = 1e-5,
    progress: Callable[[], None] | None = None,
    **options: Any,
) -> Calibration:
    """The weakest noise whose notion is at most ``target``.

    Args:
      mechanism: Any mechanism; its own noise parameter is where the search starts.
      target: The largest value allowed.
      notion: What is bounded.
      schedule: The schedule of the run.
      relative: How precisely the parameter is found.
      progress: Called after every evaluation.
      **options: ``delta``, ``prior_success``, ``group_size``, ``scope`` of :class:`Criterion`.

    >>> from recondite import Poisson, VonMisesFisher
    >>> found = calibrate(VonMisesFisher(kappa=1, dim=13_700), 8.0, "epsilon",
    ...                   Poisson(rate=128 / 60_000, steps=1_407), delta=1 / 60_000)
    >>> found.parameter, round(found.value, 1), found.achieved <= 8.0
    ('kappa', 135.0, True)
    """
    return _calibrate(mechanism, target, Criterion(notion, schedule, **options), relative, progress)


def match(
    source: Mechanism,
    to: Mechanism,
    notion: str,
    schedule: Schedule | None = None,
    **options: Any,
) -> Calibration:
    """The noise of another mechanism that equals ``source`` in one notion (never exceeds it).

    Options as in :class:`Criterion`.
    """
    criterion = Criterion(notion, schedule, **options)
    target = criterion.of(source)
    if not math.isfinite(target):
        raise ValueError(f"{source.name} has infinite {notion} here: nothing can be matched to it")
    return _calibrate(to, target, criterion)


def _calibrate(
    mechanism: Mechanism,
    target: float,
    criterion: Criterion,
    relative: float = 1e-5,
    progress: Callable[[], None] | None = None,
) -> Calibration:
    goal = criterion.target(target)
    if not mechanism.parameter:
        raise ValueError(f"{mechanism.name} has no noise to calibrate: choose another mechanism")

    def value(strength: float) -> float:
        result = criterion.of(mechanism.with_strength(strength))
        if progress is not None:
            progress()
        return result

    strength = _search(mechanism, lambda x: value(x) <= goal, relative, goal)
    digits = max(_DIGITS, 1 + math.ceil(-math.log10(relative)))
    strength, achieved = _few_digits(mechanism, strength, digits, value, goal)
    return Calibration(
        mechanism=mechanism.with_strength(strength),
        parameter=mechanism.parameter,
        value=strength,
        notion=criterion.notion,
        target=goal,
        achieved=achieved,
        scope=criterion.scope if criterion.leaks else None,
    )


def _few_digits(
    mechanism: Mechanism,
    strength: float,
    digits: int,
    value: Callable[[float], float],
    goal: float,
) -> tuple[float, float]:
    """The strength rounded to where there is more noise, and its notion, still within the goal."""
    less = mechanism.weaker == "larger"
    rounding = Context(prec=digits, rounding=ROUND_FLOOR if less else ROUND_CEILING)
    exact = strength
    for units in range(10):  # the first one, unless the notion itself is rough at this scale
        moved = exact * (1.0 + (-units if less else units) * 10.0 ** (1 - digits))
        rounded = float(rounding.create_decimal_from_float(moved))
        achieved = value(rounded)
        if achieved <= goal:
            return rounded, achieved
    return exact, value(exact)


def _search(
    mechanism: Mechanism, meets: Callable[[float], bool], relative: float, goal: float
) -> float:
    """Brackets the target by factors of four from where the mechanism is, then bisects."""
    towards_weaker = 4.0 if mechanism.weaker == "larger" else 0.25
    at = mechanism.strength
    if meets(at):
        good, bad = at, at * towards_weaker
        while meets(bad):
            good, bad = bad, bad * towards_weaker
            if not _SMALLEST < bad < _LARGEST:
                raise ValueError(f"target {goal:g} is met by any amount of noise: ask for less")
    else:
        bad, good = at, at / towards_weaker
        while not meets(good):
            bad, good = good, good / towards_weaker
            if not _SMALLEST < good < _LARGEST:
                raise ValueError(f"target {goal:g} is not met by any amount of noise: ask for more")
    return last_true(meets, good, bad, relative=relative)
