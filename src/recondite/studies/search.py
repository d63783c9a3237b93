"""The strength that meets a target: by calibration, or by training at several strengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from recondite.studies.cell import Emit
from recondite.studies.defences import kinds, mechanism, plan

__all__ = ["bisect", "run_target"]

_PROBE = "probe"


def run_target(task: dict[str, Any], emit: Emit) -> None:
    """Finds a strength and emits it as a target's row; probes on the way are rows of their own.

    A target that cannot be met is a row with ``failure``, in one line.
    """
    try:
        found = _search(task, emit) if task["notion"] == "accuracy" else _calibrated(task)
    except Exception as error:  # whatever it is, it ends this target and no other
        found = {"failure": " ".join(f"{error}".split())[:500] or type(error).__name__}
    emit({"type": "row", "row": {"key": task["key"], "kind": "target", **found}})


def _calibrated(task: dict[str, Any]) -> dict[str, Any]:
    """The weakest noise that meets a notion: an upper bound holds at the value returned."""
    from torch.utils.data import DataLoader

    from recondite.mechanisms import Setting
    from recondite.notions.calibration import calibrate
    from recondite.studies.splits import pool
    from recondite.training.sampling import PrivateLoader, usual_sampling
    from recondite.training.setup import build_model

    defence = {**task["defence"], "value": 1.0}
    planned = plan(task["common"], defence, task["seed"])
    records = pool(planned, task).training
    noise = mechanism(defence["name"], 1.0, defence["settings"])
    loader = PrivateLoader(
        DataLoader(records, batch_size=min(planned.batch_size, len(records))),
        sampling=planned.sampling or usual_sampling(noise),
        max_batch_size=planned.max_batch_size,
    )
    model = build_model(planned, records)
    shapes = tuple(tuple(p.shape) for p in model.parameters() if p.requires_grad)
    setting = Setting(shapes, max_batch_size=loader.max_batch_size, batch_size=loader.batch_size)
    delta = task["common"]["delta"] or 1.0 / len(records)
    found = calibrate(
        noise.configured(setting),
        task["target"],
        task["notion"].replace("_", "-"),
        loader.schedule(planned.total_steps(len(records))),
        delta=delta,
    )
    return {"value": found.value, "achieved": found.achieved}


def _search(task: dict[str, Any], emit: Emit) -> dict[str, Any]:
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
            planned = plan(task["common"], {**task["defence"], "value": value}, task["seed"])
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
