"""From a question to its answer: a coarse one at once, then the tight one.

Both are upper bounds that hold: the coarse one by Rényi divergences, the tight one by the composed
privacy-loss distribution. Where a target is locked, the noise (or the number of epochs) that either
stage finds meets it by that stage's bound: the coarse one may ask for more noise, never for less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from recondite.accounting.composition import Composition, epsilon_from_renyi
from recondite.explore.question import Query, Refused
from recondite.mechanisms import UndefinedNotionError
from recondite.notions import json_ready
from recondite.notions.bounds import round_bound
from recondite.notions.calibration import calibrate, weakest
from recondite.notions.pairs import ComposedPair
from recondite.numerics.roots import Crossing
from recondite.report.words import at_most, chance_at_most, figure

__all__ = ["Answer", "coarse", "tight"]

_ORDERS = 1.0 + np.geomspace(1e-2, 1e4, 24)
_ROUGH = 0.04  # how precisely the coarse stage finds a strength
_FINE = 1e-5
_DIGITS = 4  # of a strength that the coarse stage finds
_MOST_EPOCHS = 100_000
_CERTAIN = 0.995  # a bound from which on nothing is promised

Bounds = dict[str, float | None]


@dataclass(frozen=True)
class Answer:
    """What holds for a setting; each number is an upper bound, None where there is none.

    Attributes:
      stage: "coarse" (by Rényi divergences) or "tight" (by the composed privacy-loss distribution).
      question: The setting, with what was solved for filled in.
      epsilon: ε of the run at δ, batches secret as the account takes them to be.
      rero: Success of rebuilding a record where a guess has the question's prior; of the same.
      identification: Success of the chosen intruder at picking a record out of the candidates.
      reasons: Why a number is not there.
      seconds: How long it took.
    """

    stage: str
    question: Query
    epsilon: float | None
    rero: float | None
    identification: float | None
    reasons: dict[str, str]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """For the page: numbers, and the same as people read them, rounded up."""
        asked = self.question
        share = {"rero": self.rero, "identification": self.identification}
        plain: dict[str, Any] = json_ready(
            {
                "stage": self.stage,
                "value": asked.mechanism.strength,
                "parameter": asked.mechanism.parameter,
                "epochs": asked.epochs,
                "steps": asked.schedule.steps,
                "relation": asked.schedule.neighbouring(asked.mechanism).value,
                "epsilon": self.epsilon,
                **share,
                "reasons": self.reasons,
                "warning": asked.loose_delta,
                "seconds": round(self.seconds, 3),
                "text": {
                    "value": f"{asked.mechanism.strength:.6g}",
                    "epsilon": at_most(self.epsilon, 4),
                    **{
                        name: "–" if bound is None else chance_at_most(min(1.0, bound))
                        for name, bound in share.items()
                    },
                    "guess": chance_at_most(1.0 / asked.candidates),
                    "prior": chance_at_most(asked.prior),
                    "sentence": self._sentence(),
                },
            }
        )
        return plain

    def _sentence(self) -> str:
        asked, bound = self.question, self.identification
        if bound is None:
            return f"No bound is known here: {self.reasons.get('identification', 'not defined')}."
        sees = _SEES[asked.threat]
        if bound >= _CERTAIN:
            return f"Nothing is proven against somebody who {sees}: add noise."
        told = ""
        if asked.threat != "update":  # which is one that the record is in
            knows = "and knows" if asked.participation == "known" else "without being told"
            told = f" {knows} in which steps it took part"
        limit = chance_at_most(min(1.0, bound))
        guess = figure(100.0 / asked.candidates, 3)
        return (
            f"Nobody who {sees}{told} can pick a record out of {asked.candidates:,} people in more "
            f"than {limit} of cases. A guess is right in {guess}%."
        )


_SEES = {
    "training": "sees the whole training",
    "update": "sees one update that the record is in",
    "model": "has the trained model",
}


def coarse(question: Query) -> Answer:
    """The answer by Rényi divergences on a grid of orders: any order gives a bound that holds.

    Raises:
      Refused: The target cannot be met, or not be shown to be met by this route.
    """
    began = time.perf_counter()
    found = question
    if question.lock:
        found = _met(question, lambda asked: _measured(asked, _epsilon, _success), _roughly)
    bounds, reasons = _all(found, _epsilon, _success)
    return _answer("coarse", found, bounds, reasons, began)


def tight(
    question: Query, start: float | None = None, progress: Callable[[], None] | None = None
) -> Answer:
    """The answer by the composed privacy-loss distribution: that of ``recondite account``.

    Args:
      question: What is asked.
      start: A strength near the one that is sought.
      progress: Called after every evaluation; may raise to give up.

    Raises:
      Refused: The target cannot be met.
    """
    began = time.perf_counter()
    ticked = progress or (lambda: None)

    def epsilon(composition: Composition, delta: float) -> float:
        ticked()
        return ComposedPair(composition).epsilon(delta)

    def success(composition: Composition, level: float) -> float:
        ticked()
        return ComposedPair(composition).success(level)

    def finely(asked: Query, _: Callable[[Query], float]) -> float:
        schedule, prior = asked.schedule, asked.prior
        if asked.lock == "identification":
            schedule, prior = asked.intruder, 1.0 / asked.candidates
        notion = "epsilon" if asked.lock == "epsilon" else "rero"
        begin = asked.mechanism if start is None else asked.mechanism.with_strength(start)
        return calibrate(
            begin, asked.target, notion, schedule,
            delta=asked.delta, prior_success=prior, relative=_FINE, progress=progress,
        ).value  # fmt: skip

    found = question
    if question.lock:
        found = _met(question, lambda asked: _measured(asked, epsilon, success), finely)
    bounds, reasons = _all(found, epsilon, success)
    return _answer("tight", found, bounds, reasons, began)


Curve = Callable[[Composition, float], float]


def _epsilon(composition: Composition, delta: float) -> float:
    return float(np.nanmin(epsilon_from_renyi(_ORDERS, composition.renyi(_ORDERS), delta)))


def _success(composition: Composition, level: float) -> float:
    """P(E) <= (Q(E)·e^{D_α})^{(α-1)/α} for every event and every order (Hölder's inequality)."""
    exponents = (math.log(level) + composition.renyi(_ORDERS)) * (_ORDERS - 1.0) / _ORDERS
    return float(math.exp(min(0.0, float(np.nanmin(exponents)))))


def _measured(asked: Query, epsilon: Curve, success: Curve) -> float:
    """The bound that is locked."""
    run = asked.schedule.composition
    if asked.lock == "epsilon":
        return epsilon(run(asked.mechanism), asked.delta)
    if asked.lock == "rero":
        return success(run(asked.mechanism), asked.prior)
    return success(asked.intruder.composition(asked.mechanism), 1.0 / asked.candidates)


def _all(asked: Query, epsilon: Curve, success: Curve) -> tuple[Bounds, dict[str, str]]:
    run = asked.schedule.composition
    ways: dict[str, Callable[[], float]] = {
        "epsilon": lambda: epsilon(run(asked.mechanism), asked.delta),
        "rero": lambda: success(run(asked.mechanism), asked.prior),
        "identification": lambda: success(
            asked.intruder.composition(asked.mechanism), 1.0 / asked.candidates
        ),
    }
    bounds: Bounds = {}
    reasons: dict[str, str] = {}
    for name, compute in ways.items():
        try:
            bounds[name] = compute()
        except UndefinedNotionError as reason:
            bounds[name], reasons[name] = None, str(reason)
    return bounds, reasons


def _answer(
    stage: str, found: Query, bounds: Bounds, reasons: dict[str, str], began: float
) -> Answer:
    return Answer(
        stage, found, bounds["epsilon"], bounds["rero"], bounds["identification"], reasons,
        time.perf_counter() - began,
    )  # fmt: skip


def _met(
    asked: Query,
    measure: Callable[[Query], float],
    noise: Callable[[Query, Callable[[Query], float]], float],
) -> Query:
    """The setting that meets the locked target: the weakest noise, or the most epochs."""
    try:
        if asked.solve == "noise":
            return asked.at(strength=noise(asked, measure))
        return asked.at(epochs=_most_epochs(asked, measure))
    except UndefinedNotionError as reason:
        raise Refused("lock", str(reason)) from None
    except Refused:
        raise
    except ValueError as error:
        raise Refused("target", str(error)) from None


def _roughly(asked: Query, measure: Callable[[Query], float]) -> float:
    """A strength that meets the target, in few digits and rounded to where there is more noise."""

    def measured(strength: float) -> float:
        return measure(asked.at(strength=strength))

    less = asked.mechanism.weaker == "larger"
    threshold = Crossing(
        measured, lambda value: value <= asked.target, asked.target, safe=1 if less else -1
    )
    found = weakest(asked.mechanism, threshold, _ROUGH)
    rounded = round_bound(found, _DIGITS, "lower" if less else "upper")
    return rounded if measured(rounded) <= asked.target else threshold.good or found


def _most_epochs(asked: Query, measure: Callable[[Query], float]) -> int:
    def meets(epochs: int) -> bool:
        return measure(asked.at(epochs=epochs)) <= asked.target

    if not meets(1):
        raise Refused("target", "even one epoch exceeds it with this noise: add noise")
    good, bad = 1, 2
    while meets(bad):
        good, bad = bad, 2 * bad
        if bad > _MOST_EPOCHS:
            raise Refused("target", f"it is met by {good:,} epochs and more: ask for less")
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good
