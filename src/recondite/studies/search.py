"""The strength that meets a target: by calibration, or by training at several strengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from recondite.studies.cell import Emit
from recondite.studies.defences import kinds, mechanism, plan
from recondite.studies.shapes import Configured, DefenceConfig, Row, TargetTask

if TYPE_CHECKING:
    from recondite.accounting.schedules import Schedule
    from recondite.configuration import TrainingConfig
    from recondite.mechanisms import Mechanism
    from recondite.records.base import Records

__all__ = ["bisect", "released", "run_target"]

_PROBE = "probe"


def run_target(task: TargetTask, emit: Emit) -> None:
    """Finds a strength and emits it as a target's row; probes on the way are rows of their own.

    A target that cannot be met is a row with ``failure``, in one line.
    """
    try:
        found = _search(task, emit) if task["notion"] == "accuracy" else _calibrated(task)
    except Exception as error:  # whatever it is, it ends this target and no other
        found = {"failure": " ".join(f"{error}".split())[:500] or type(error).__name__}
    emit({"type": "row", "row": {"key": task["key"], "kind": "target", **found}})


def _calibrated(task: TargetTask) -> Row:
    """The weakest noise that meets a notion: an upper bound holds at the value returned."""
    from recondite.notions.calibration import calibrate
    from recondite.studies.splits import pool

    defence: Configured = _at(task["defence"], 1.0)
    planned = plan(task["common"], defence, task["seed"])
    records = pool(planned, task).training
    noise = mechanism(defence["name"], 1.0, defence["settings"])
    configured, schedule = released(planned, noise, records)
    found = calibrate(
        configured,
        task["target"],
        task["notion"].replace("_", "-"),
        schedule,
        delta=task["common"]["delta"] or 1.0 / len(records),
    )
    return {"value": found.value, "achieved": found.achieved}


def released(
    planned: TrainingConfig, noise: Mechanism, records: Records
) -> tuple[Mechanism, Schedule]:
    """What a training releases at a step, and how its batches are drawn, without training it.

    Args:
      planned: The training.
      noise: Its mechanism, not configured yet.
      records: The training records: how many there are counts, and what model they need.
    """
    from torch.utils.data import DataLoader

    from recondite.gradients.clipping import bound_rule
    from recondite.gradients.handover import planned_setting
    from recondite.training.sampling import PrivateLoader, usual_sampling
    from recondite.training.setup import build_model

    loader = PrivateLoader(
        DataLoader(records, batch_size=min(planned.batch_size, len(records))),
        sampling=planned.sampling or usual_sampling(noise),
        max_batch_size=planned.max_batch_size,
    )
    setting = planned_setting(
        build_model(planned, records),
        partial(bound_rule, planned.clipping, planned.max_grad_norm),
        loader.batch_size,
        loader.max_batch_size,
    )
    return noise.configured(setting), loader.schedule(planned.total_steps(len(records)))


def _at(defence: DefenceConfig, value: float) -> Configured:
    return {**defence, "value": value, "target": None, "label": ""}


def _search(task: TargetTask, emit: Emit) -> Row:
    """Trains at strengths between the ends, halving the distance of their logarithms."""
    from recondite.studies.splits import pool
    from recondite.training.trainer import train

    options = task["options"]
    probes: list[dict[str, float]] = []
    earlier = task.get("probes", {})

    def accuracy(value: float) -> float:
        key = f"{task['key']}-{len(probes)}"
        known = earlier.get(key)
        if known is not None and known["value"] == value:
            found = float(known["accuracy"])
        else:
            planned = plan(task["common"], _at(task["defence"], value), task["seed"])
            step = len(probes) / options["runs"]
            emit({"type": "progress", "stage": f"searching at {value:.4g}", "done": step})
            records = pool(planned, task)
            sets = (records.training, records.test)
            record, _ = train(planned, data_dir=task.get("data_dir"), sets=sets, accounted=False)
            found = float(record.results["test_accuracy"])
            row = {"key": key, "kind": _PROBE, "value": value, "accuracy": found}
            emit({"type": "row", "row": row})
        probes.append({"value": value, "accuracy": found})
        return found

    rising = kinds()[task["defence"]["name"]].weaker == "larger"
    value, achieved = bisect(
        accuracy,
        task["target"],
        options["low"],
        options["high"],
        rising=rising,
        runs=options["runs"],
        tolerance=options["tolerance"],
    )
    return {"value": value, "achieved": achieved, "probes": probes}


def bisect(
    measure: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    *,
    rising: bool,
    runs: int,
    tolerance: float,
) -> tuple[float, float]:
    """The value whose measurement came nearest to the target, and that measurement.

    Measurements are noisy, so nothing is promised beyond what was measured.

    Args:
      measure: What is to meet the target.
      target: The target.
      low: Smallest value, above zero.
      high: Largest value.
      rising: Whether a larger value measures higher.
      runs: Most measurements.
      tolerance: Near enough to stop.
    """
    bottom, top = math.log(low), math.log(high)
    tried: list[tuple[float, float]] = []
    for _ in range(runs):
        middle = float(f"{math.exp((bottom + top) / 2):.6g}")
        found = measure(middle)
        tried.append((middle, found))
        if abs(found - target) <= tolerance:
            break
        if (found < target) == rising:
            bottom = math.log(middle)
        else:
            top = math.log(middle)
    return min(tried, key=lambda pair: abs(pair[1] - target))
