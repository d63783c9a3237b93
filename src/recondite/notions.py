"""Every notion of privacy of one run, at once: ``account``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from recondite import _validate
from recondite.accounting.papers import approach_1, approach_2
from recondite.accounting.pld import pld_epsilon
from recondite.accounting.rdp import rdp_epsilon
from recondite.accounting.schedules import Schedule
from recondite.leakage.rero import rero
from recondite.losses.pair import mixed_loss
from recondite.mechanisms import Mechanism, MetricPrivacy, Neighbouring, UndefinedNotionError

__all__ = ["SCHEMA_VERSION", "Account", "account"]

SCHEMA_VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True)
class Account:
    """What a run costs, in every notion. Each number is an upper bound; None is not defined.

    Attributes:
      mechanism: The mechanism that was released.
      schedule: How its batches were drawn.
      neighbouring: Which two data sets are compared.
      delta: δ.
      group_size: Records of one person that are protected together.
      epsilon: ``pld`` (tight: use this one), ``rdp``, ``paper_1``, ``paper_2``, ``pure``.
      rdp_order: The order behind ``epsilon["rdp"]``.
      metric_privacy: The metric guarantee of one release.
      log_bayes_capacity: ``per_release`` and ``run``, in nats.
      mutual_information: ``per_release`` and ``run``, in nats.
      rero: ``prior`` and ``bound`` on the success of any reconstruction.
      as_printed: The paper's own formulas, on request: no guarantees.
      reasons: Why a notion is not defined, by its key.
      assumptions: What the bounds rest on.
    """

    mechanism: Mechanism
    schedule: Schedule
    neighbouring: Neighbouring
    delta: float
    group_size: int
    epsilon: dict[str, float | None]
    rdp_order: float | None
    metric_privacy: MetricPrivacy | None
    log_bayes_capacity: dict[str, float | None]
    mutual_information: dict[str, float | None]
    rero: dict[str, float | None]
    as_printed: dict[str, float | None] | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        capacity, information = self.log_bayes_capacity["run"], self.mutual_information["run"]
        figures = {
            f"epsilon at delta {self.delta:.3g}": self.epsilon["pld"],
            "log Bayes' capacity, run (nats)": capacity,
            "mutual information, run (nats)": information,
            f"reconstruction success (blind {self.rero['prior']:g})": self.rero["bound"],
        }
        lines = [f"{self.mechanism} under {self.schedule} ({self.neighbouring.value}), at most:"]
        lines += [
            f"  {name}: {'not defined' if value is None else format(value, '.4g')}"
            for name, value in figures.items()
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """One JSON object; infinite values are the string "inf"."""
        out = {
            "schema_version": SCHEMA_VERSION,
            "mechanism": self.mechanism.name,
            "parameters": self.mechanism.parameters(),
            "schedule": self.schedule.to_dict(),
            "neighbouring": self.neighbouring.value,
            "group_size": self.group_size,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "rdp_order": self.rdp_order,
            "metric_privacy": asdict(self.metric_privacy) if self.metric_privacy else None,
            "log_bayes_capacity": self.log_bayes_capacity,
            "mutual_information": self.mutual_information,
            "rero": self.rero,
            "assumptions": list(self.assumptions),
            "reasons": self.reasons,
        }
        if self.as_printed is not None:
            out["as_printed"] = self.as_printed
        plain: dict[str, Any] = json_ready(out)
        return plain


def json_ready(value: Any) -> Any:
    """Containers with infinities as strings, NaN as null, and NumPy scalars as Python's."""
    if isinstance(value, dict):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return None  # not defined; never a bound
        return number if math.isfinite(number) else ("inf" if number > 0 else "-inf")
    return value


def account(
    mechanism: Mechanism,
    schedule: Schedule,
    delta: float,
    *,
    prior_success: float = 0.1,
    group_size: int = 1,
    as_printed: bool = False,
) -> Account:
    """Accounts for a run in every notion.

    Args:
      mechanism: What is released at every step.
      schedule: How batches are drawn, and how many steps there are.
      delta: δ at which ε is given.
      prior_success: Success of the best blind guess, for the reconstruction bound.
      group_size: Number of records that belong to one person.
      as_printed: Also give the values of the paper's formulas as printed.
    """
    target = _validate.probability("delta", delta)
    prior = _validate.probability("prior_success", prior_success)
    largest = schedule.largest_batch()
    if largest is not None:
        mechanism = mechanism.for_batches(largest)
    composition = schedule.composition(mechanism, group_size)
    reasons: dict[str, str] = {}
    rdp, order = rdp_epsilon(composition, target)
    epsilon: dict[str, float | None] = {
        "pld": pld_epsilon(composition, target),
        "rdp": rdp,
        **_papers(mechanism, schedule, target, group_size, reasons),
        "pure": composition.supremum,
    }
    return Account(
        mechanism=mechanism,
        schedule=schedule,
        neighbouring=schedule.neighbouring(mechanism),
        delta=target,
        group_size=group_size,
        epsilon=epsilon,
        rdp_order=order if math.isfinite(rdp) else None,
        metric_privacy=_defined("metric_privacy", mechanism.metric_privacy, reasons),
        log_bayes_capacity=capacity(mechanism, schedule, reasons),
        mutual_information=information(mechanism, schedule, reasons),
        rero={"prior": prior, "bound": rero(composition, prior)},
        as_printed=_as_printed(mechanism, schedule, target) if as_printed else None,
        reasons=reasons,
        assumptions=_assumptions(mechanism, schedule, group_size),
    )


def _defined(key: str, compute: Callable[[], T], reasons: dict[str, str]) -> T | None:
    try:
        return compute()
    except UndefinedNotionError as reason:
        reasons[key] = str(reason)
        return None


def capacity(
    mechanism: Mechanism, schedule: Schedule, reasons: dict[str, str]
) -> dict[str, float | None]:
    """Log Bayes' capacity of one release and of the run.

    Noise on the average: a run leaks at most the sum over its steps (adaptive composition).
    Noise on each record: T chances to take part with probability q give T·log(1 - q + q·e^c).
    """
    single = _defined("log_bayes_capacity", mechanism.log_bayes_capacity, reasons)
    if single is None or mechanism.stage != "record":
        return {"per_release": single, "run": None if single is None else schedule.steps * single}
    chances, rate = schedule.participations()
    return {"per_release": single, "run": chances * float(mixed_loss(np.array([single]), rate)[0])}


def information(
    mechanism: Mechanism, schedule: Schedule, reasons: dict[str, str]
) -> dict[str, float | None]:
    """Mutual information of one release and of the run, in nats."""
    single = _defined("mutual_information", mechanism.mutual_information, reasons)
    if single is None:
        return {"per_release": None, "run": None}
    if mechanism.stage != "record":
        return {"per_release": single, "run": schedule.steps * single}
    chances, rate = schedule.participations()
    return {"per_release": single, "run": chances * rate * single}


def _papers(
    mechanism: Mechanism,
    schedule: Schedule,
    delta: float,
    group_size: int,
    reasons: dict[str, str],
) -> dict[str, float | None]:
    """The two approaches of Biswas et al. where their theorems apply."""
    chances, rate = schedule.participations()
    if rate < 1.0 and (schedule.sampling != "poisson" or mechanism.stage == "record"):
        why = "the paper's sampling theorems are for Poisson batches with noise on the average"
    elif group_size > 1:
        why = "the paper has no group privacy"
    else:
        law = mechanism.loss(schedule.neighbouring(mechanism))
        if not math.isfinite(float(law.renyi([2.0])[0])):
            return {"paper_1": math.inf, "paper_2": math.inf}
        return {
            "paper_1": approach_1(law, rate, chances, delta),
            "paper_2": approach_2(law, rate, chances, delta)[0],
        }
    reasons["epsilon.paper_1"] = reasons["epsilon.paper_2"] = why
    return {"paper_1": None, "paper_2": None}


def _as_printed(mechanism: Mechanism, schedule: Schedule, delta: float) -> dict[str, float | None]:
    chances, rate = schedule.participations()
    law = mechanism.loss(schedule.neighbouring(mechanism))
    printed_capacity = getattr(mechanism, "log_bayes_capacity_as_printed", None)
    return {
        "paper_1": approach_1(law, rate, chances, delta, as_printed=True),
        "paper_2": approach_2(law, rate, chances, delta, as_printed=True)[0],
        "log_bayes_capacity": printed_capacity() if printed_capacity else None,
    }


def _assumptions(mechanism: Mechanism, schedule: Schedule, group_size: int) -> tuple[str, ...]:
    relation = schedule.neighbouring(mechanism).value
    unit = "one record" if group_size == 1 else f"a person with {group_size} records"
    lines = [
        f"epsilon and rero compare data sets that differ in {unit} ({relation})",
        {
            "poisson": "every batch was drawn by independent coin flips at this rate",
            "shuffled": "every record was in exactly one batch of every epoch",
            "fixed-size": "every batch was a fresh uniform subset of this size",
        }.get(schedule.sampling, "batches were drawn as the schedule says"),
        "one training run; choosing among several runs, and metrics, cost extra",
    ]
    lines.append(f"capacity and information are about {mechanism.subject}")
    lines.extend(mechanism.assumptions())
    lines.append("noise from a generator the attacker cannot predict; exact real arithmetic")
    return tuple(lines)
