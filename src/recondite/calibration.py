"""From a target to the weakest noise that meets it, and from one mechanism to its equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from recondite import _validate
from recondite.accounting.pld import pld_epsilon
from recondite.accounting.schedules import Schedule
from recondite.leakage.rero import rero
from recondite.mechanisms import Mechanism
from recondite.notions import capacity, information, json_ready
from recondite.numerics.roots import last_true

__all__ = ["NOTIONS", "Calibration", "calibrate", "match", "measure"]

Notion = Literal["epsilon", "bayes-capacity", "mutual-information", "rero"]
Scope = Literal["release", "run"]
NOTIONS: tuple[str, ...] = ("epsilon", "bayes-capacity", "mutual-information", "rero")
SCOPES: tuple[str, ...] = ("release", "run")

_SMALLEST, _LARGEST = 1e-9, 1e9


@dataclass(frozen=True)
class Calibration:
    """The weakest noise that was found to meet a target.

    Guarantee: ``achieved`` was computed for ``mechanism`` as returned and is at most ``target``.

    Attributes:
      mechanism: The mechanism with its noise set.
      parameter: The name of its noise parameter.
      value: That parameter's value.
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


def measure(
    mechanism: Mechanism,
    notion: str,
    schedule: Schedule | None = None,
    *,
    delta: float | None = None,
    prior_success: float = 0.1,
    group_size: int = 1,
    scope: str = "release",
) -> float:
    """One notion of a run: an upper bound.

    Args:
      mechanism: The mechanism.
      notion: "epsilon", "bayes-capacity", "mutual-information" or "rero".
      schedule: The schedule; needed for ε, ReRo and anything about the run.
      delta: δ, for ε.
      prior_success: Success of the best blind guess, for ReRo.
      group_size: Records of one person, for ε and ReRo.
      scope: For capacity and information, one "release" or the whole "run".
    """
    _validate.choice("notion", notion, NOTIONS)
    _validate.choice("scope", scope, SCOPES)
    largest = schedule.largest_batch() if schedule is not None else None
    if largest is not None:
        mechanism = mechanism.for_batches(largest)
    if notion in ("bayes-capacity", "mutual-information"):
        return _leakage(mechanism, notion, schedule, scope)
    if schedule is None:
        raise ValueError(f"schedule is needed for {notion}: give a rate and steps, or epochs")
    composition = schedule.composition(mechanism, group_size)
    if notion == "rero":
        return rero(composition, prior_success)
    if delta is None:
        raise ValueError("delta is needed for epsilon")
    return pld_epsilon(composition, _validate.probability("delta", delta))


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
    delta: float | None = None,
    prior_success: float = 0.1,
    group_size: int = 1,
    scope: str = "release",
    relative: float = 1e-5,
    progress: Callable[[], None] | None = None,
) -> Calibration:
    """The weakest noise whose notion is at most ``target``.

    Args:
      mechanism: Any mechanism; its own noise parameter is where the search starts.
      target: The largest value allowed.
      notion: What is bounded.
      schedule: The schedule of the run.
      delta: δ, for ε.
      prior_success: Success of the best blind guess, for ReRo.
      group_size: Records of one person.
      scope: For capacity and information, one "release" or the whole "run".
      relative: How precisely the parameter is found.
      progress: Called after every evaluation.

    >>> from recondite import Poisson, VonMisesFisher
    >>> found = calibrate(VonMisesFisher(kappa=1, dim=13_700), 8.0, "epsilon",
    ...                   Poisson(rate=128 / 60_000, steps=1_407), delta=1 / 60_000)
    >>> found.parameter, round(found.value, 1), found.achieved <= 8.0
    ('kappa', 135.0, True)
    """
    goal = _target(notion, target, prior_success)
    if not mechanism.parameter:
        raise ValueError(f"{mechanism.name} has no noise to calibrate: choose another mechanism")

    def value(strength: float) -> float:
        result = measure(
            mechanism.with_strength(strength),
            notion,
            schedule,
            delta=delta,
            prior_success=prior_success,
            group_size=group_size,
            scope=scope,
        )
        if progress is not None:
            progress()
        return result

    strength = _search(mechanism, lambda x: value(x) <= goal, relative, goal)
    fitted = mechanism.with_strength(strength)
    leak = notion in ("bayes-capacity", "mutual-information")
    return Calibration(
        mechanism=fitted,
        parameter=mechanism.parameter,
        value=strength,
        notion=notion,
        target=goal,
        achieved=value(strength),
        scope=scope if leak else None,
    )


def _target(notion: str, target: float, prior_success: float) -> float:
    _validate.choice("notion", notion, NOTIONS)
    if notion != "rero":
        return _validate.positive(notion, target)
    goal = _validate.probability("rero", target)
    if goal <= _validate.probability("prior_success", prior_success):
        raise ValueError(
            f"rero must be above prior_success {prior_success:g}, got {target:g}: nothing does "
            "worse than a blind guess"
        )
    return goal


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


def match(
    source: Mechanism,
    to: Mechanism,
    notion: str,
    schedule: Schedule | None = None,
    *,
    delta: float | None = None,
    prior_success: float = 0.1,
    group_size: int = 1,
    scope: str = "release",
) -> Calibration:
    """The noise of another mechanism that equals ``source`` in one notion (never exceeds it)."""
    target = measure(
        source,
        notion,
        schedule,
        delta=delta,
        prior_success=prior_success,
        group_size=group_size,
        scope=scope,
    )
    if not math.isfinite(target):
        raise ValueError(f"{source.name} has infinite {notion} here: nothing can be matched to it")
    return calibrate(
        to,
        target,
        notion,
        schedule,
        delta=delta,
        prior_success=prior_success,
        group_size=group_size,
        scope=scope,
    )
