"""From a target to the weakest noise that meets it, and from one mechanism to its equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recondite import _validate
from recondite.accounting.schedules import Schedule
from recondite.accounting.selection import RunCount
from recondite.mechanisms import Mechanism
from recondite.notions.accounts import json_ready
from recondite.notions.base import Notion, Scope
from recondite.notions.bounds import round_bound
from recondite.notions.registry import target as notion_of
from recondite.notions.releases import MechanismRun
from recondite.numerics.roots import Crossing, last_true

__all__ = ["Calibration", "Criterion", "calibrate", "match", "measure", "weakest"]

SCOPES: tuple[Scope, ...] = ("release", "run")

_SMALLEST, _LARGEST = 1e-9, 1e9
_DIGITS = 6  # of a calibrated value, or more where more precision is asked for


@dataclass(frozen=True)
class Calibration:
    """The weakest noise that was found to meet a target.

    Guarantee: ``achieved`` was computed for ``mechanism`` as returned and is at most ``target``
    (at least, for a notion that bounds from below).

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
      notion: The target's name: "epsilon", "bayes-capacity", "mutual-information", "rero", or that
        of a notion from another package.
      schedule: The schedule; needed for ε, ReRo and anything about the run.
      delta: δ, for ε.
      prior_success: Success of the best blind guess, for ReRo.
      group_size: Records of one person, for ε and ReRo.
      scope: For notions that a single release has, one "release" or the whole "run".
      chosen_from: How many runs the released one is the best of (:class:`MechanismRun`).
    """

    notion: str
    schedule: Schedule | None = None
    delta: float | None = None
    prior_success: float = 0.1
    group_size: int = 1
    scope: Scope = "release"
    chosen_from: RunCount | int = 1

    def __post_init__(self) -> None:
        notion_of(self.notion)
        _validate.choice("scope", self.scope, SCOPES)
        if self.measured.needs_delta and self.schedule is not None and self.delta is None:
            raise ValueError(f"delta is needed for {self.notion}")
        if self.delta is not None:
            _validate.probability("delta", self.delta)
        if self.chosen_from != 1 and self.measured.scoped:
            raise ValueError(
                f"chosen_from does not price {self.notion}: calibrate one run, or by epsilon"
            )

    @property
    def measured(self) -> Notion:
        """The notion."""
        return notion_of(self.notion)

    def of(self, mechanism: Mechanism) -> float:
        """The notion's value for a mechanism: a bound."""
        notion = self.measured
        if self.schedule is None and not (notion.scoped and self.scope == "release"):
            whole = f"the {self.notion} of a run" if notion.scoped else self.notion
            raise ValueError(f"schedule is needed for {whole}: give a rate and steps, or epochs")
        run = MechanismRun(
            mechanism,
            self.schedule,
            0.0 if self.delta is None else self.delta,
            self.prior_success,
            self.group_size,
            self.chosen_from,
        )
        return notion.measure(run, self.scope)

    def target(self, value: float) -> float:
        """A target for this notion, checked."""
        return self.measured.check_target(value, self.prior_success)


def measure(
    mechanism: Mechanism, notion: str, schedule: Schedule | None = None, **options: Any
) -> float:
    """One notion of a run: a bound. Options as in :class:`Criterion`."""
    return Criterion(notion, schedule, **options).of(mechanism)


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
    """The weakest noise whose notion is on the safe side of ``target``.

    Args:
      mechanism: Any mechanism; its own noise parameter is where the search starts.
      target: The largest value allowed (the smallest, for a notion that bounds from below).
      notion: What is bounded.
      schedule: The schedule of the run.
      relative: How precisely the parameter is found.
      progress: Called after every evaluation.
      **options: ``delta``, ``prior_success``, ``group_size``, ``scope``, ``chosen_from`` of
        :class:`Criterion`.

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

    notion = criterion.measured
    meets = Crossing(value, lambda found: notion.met(found, goal), goal, safe=_safe(mechanism))
    strength = weakest(mechanism, meets, relative)
    digits = max(_DIGITS, 1 + math.ceil(-math.log10(relative)))
    strength, achieved = _few_digits(mechanism, strength, digits, meets)
    return Calibration(
        mechanism=mechanism.with_strength(strength),
        parameter=mechanism.parameter,
        value=strength,
        notion=criterion.notion,
        target=goal,
        achieved=achieved,
        scope=criterion.scope if notion.scoped else None,
    )


def _safe(mechanism: Mechanism) -> int:
    """Which way there is more noise, for :class:`Crossing`."""
    return 1 if mechanism.weaker == "larger" else -1


def _few_digits(
    mechanism: Mechanism, strength: float, digits: int, meets: Crossing
) -> tuple[float, float]:
    """The strength rounded to where there is more noise, and its notion, still within the goal."""
    less = mechanism.weaker == "larger"
    for units in range(10):  # the first one, unless the notion itself is rough at this scale
        moved = strength * (1.0 + (-units if less else units) * 10.0 ** (1 - digits))
        rounded = round_bound(moved, digits, "lower" if less else "upper")
        achieved = meets.measure(rounded)
        if meets.met(achieved):
            return rounded, achieved
    if meets.good is None:
        raise RuntimeError("nothing that was measured meets the target")
    return meets.good, meets.measure(meets.good)


def weakest(mechanism: Mechanism, meets: Crossing, relative: float) -> float:
    """The weakest strength found to meet a target, measured or on the safe side of one that was.

    Brackets the target by factors of four from where the mechanism is, narrows by interpolation,
    then bisects.

    Args:
      mechanism: Where the search starts, and which way is weaker.
      meets: Whether a strength meets the target.
      relative: How precisely the strength is found.
    """
    towards_weaker = 4.0 if mechanism.weaker == "larger" else 0.25
    at, goal = mechanism.strength, meets.goal
    if meets(at):
        good, bad, tried = at, at * towards_weaker, 0
        while meets(bad):
            good, bad, tried = bad, bad * towards_weaker, tried + 1
            weakest = _LARGEST if mechanism.weaker == "larger" else _SMALLEST
            # Some targets hold without noise (a large δ): that is quicker seen at once.
            if not _SMALLEST < bad < _LARGEST or (tried == 3 and meets(weakest)):
                raise ValueError(f"target {goal:g} is met by any amount of noise: ask for less")
    else:
        bad, good = at, at / towards_weaker
        while not meets(good):
            bad, good = good, good / towards_weaker
            if not _SMALLEST < good < _LARGEST:
                raise ValueError(f"target {goal:g} is not met by any amount of noise: ask for more")
    meets.narrow(relative)
    return last_true(meets, good, bad, relative=relative)
