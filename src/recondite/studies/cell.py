"""One cell: train, account, attack. Everything follows from the task, whoever runs it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recondite._files import write_atomically
from recondite.attacks.outcome import Outcome
from recondite.attacks.transcript import LARGEST, Recorder, memory
from recondite.attacks.victim import RecordSets, Victim
from recondite.configuration import TrainingConfig
from recondite.notions.exposures import exposures
from recondite.studies import attackers, rows
from recondite.studies.compression import NOTE, Compression, places_of
from recondite.studies.defences import plan
from recondite.studies.shapes import AttackConfig, CellTask, Event, Row
from recondite.studies.splits import pool
from recondite.studies.victims import make_victim
from recondite.training.trainer import train

__all__ = ["Emit", "Trained", "run_cell"]

Emit = Callable[[Event], None]
_PAUSE = 0.2  # seconds between two reports of progress


@dataclass(frozen=True, eq=False)
class Trained:
    """A cell after its training.

    Attributes:
      task: The cell's task.
      victim: What its attacks are given.
      record: The record of its training.
    """

    task: CellTask
    victim: Victim
    record: Row

    @property
    def exposures(self) -> list[Row]:
        """Bounds for one update, and where it is known who took part when."""
        return [asdict(one) for one in exposures(self.record["privacy"])]


def run_cell(task: CellTask, emit: Emit) -> None:
    """Runs a cell and emits a row for each of its attacks, as soon as it is there.

    Rows depend on the task alone: not on the worker, the order, or what ran before.

    Args:
      task: As :meth:`recondite.studies.grid.GridCell.task` makes it, with the data's facts.
      emit: Takes ``{"type": "row", …}`` and ``{"type": "progress", …}``.
    """
    said = _reporter(emit)
    torch.manual_seed(task["seed"])
    try:
        trained = _train(task, said)
    except Exception as error:  # whatever it is, it ends this cell and no other
        for key, attack in task["attacks"].items():
            emit({"type": "row", "row": rows.failed(task, key, attack, _reason(error))})
        return
    known = _known(trained)
    lost = _finite(trained.record["results"]["train_loss"]) is None
    if lost or trained.record.get("diverged"):
        why = "is not finite" if lost else "is a million times the first step's"
        reason = f"training diverged: the loss {why} (lower the learning rate)"
        for key, attack in task["attacks"].items():
            emit({"type": "row", "row": rows.failed(task, key, attack, reason, **known)})
        return
    for key, attack in task["attacks"].items():
        emit(_attacked(trained, key, attack, known))


def _attacked(trained: Trained, key: str, attack: AttackConfig, known: Row) -> Event:
    task, started = trained.task, time.perf_counter()
    torch.manual_seed(task["seed"])
    try:
        found = Outcome()
        if attack["name"] != "none":
            made = attackers.build(attack["name"], attack["options"])
            found = made.evaluate(replace(trained.victim, asked=attackers.asked(attack)))
    except Exception as error:  # one attack's failure leaves the other rows alone
        return {"type": "row", "row": rows.failed(task, key, attack, _reason(error), **known)}
    parts = found.to_dict(f"gallery/{key}.npz")
    parts["notes"] = [*known["notes"], *parts["notes"]]
    spent = round(time.perf_counter() - started, 3)
    seconds = {**known["seconds"], "attack": spent}
    made_row = rows.row(task, key, attack, **{**known, **parts, "seconds": seconds})
    gallery = None if found.pictures is None else found.pictures.to_bytes()
    return {"type": "row", "row": made_row, "gallery": gallery}


def _known(trained: Trained) -> Row:
    """What every row of the cell says of the training."""
    record, results = trained.record, trained.record["results"]
    kept = [key for key in results if key.startswith(("test_", "train_"))]
    return {
        "training": {
            **record["training"],
            "clipping": record["defence"]["clipping"],
            "max_grad_norm": record["defence"]["max_grad_norm"],
            "sampling": record["defence"]["sampling"],
        },
        "utility": {key: _finite(results[key]) for key in kept},
        "privacy": record["privacy"],
        "notions": rows.notions(trained.task["defence"]["name"], record["privacy"]),
        "exposures": trained.exposures,
        "seconds": record["cell_seconds"],
        "machine": record["machine"],
        "simulation": record["simulation"],
        "data": {**trained.task["data_facts"], **_data(record["data"])},
        "notes": [
            *record["notes"],
            *rows.loose_delta(trained.task["common"]["delta"], int(record["data"]["records"])),
        ],
    }


def _finite(value: Any) -> float | None:
    """The number; None for infinity and for NaN, which a record writes as null."""
    return None if value is None or not math.isfinite(float(value)) else float(value)


def _data(found: Row) -> Row:
    kept = ("records", "test_records", "preparation", "pixel_scale", "std", "removed")
    return {key: found[key] for key in kept if key in found}


def _train(task: CellTask, said: Callable[[str, float], None]) -> Trained:
    """Trains, or takes what a run that was killed after training has left."""
    planned = plan(task["common"], task["defence"], task["seed"])
    kept = None if task.get("work") is None else Path(task["work"]) / task["key"]
    records = pool(planned, task)
    recorder = _recorder(task, planned, records)
    # What was released is nowhere on the disk: whoever replays it has it trained again.
    found = None if recorder is not None else _resumed(kept, planned, records)
    model, record = found or _trained(task, planned, records, kept, said, recorder)
    seen = None if recorder is None else recorder.transcript()
    victim = make_victim(task, planned, model, records, record["privacy"], said, seen)
    return Trained(task, victim, record)


def _recorder(task: CellTask, planned: TrainingConfig, records: RecordSets) -> Recorder | None:
    """Where an attack of the cell replays the training, and memory holds what it releases."""
    from recondite.training.setup import build_model

    named = [attack for attack in task["attacks"].values() if attack["name"] != "none"]
    made = [(attackers.build(a["name"], a["options"]), attackers.asked(a)) for a in named]
    if not any(attack.replays(asked) for attack, asked in made):
        return None
    size = memory(planned.total_steps(len(records.training)), build_model(planned, records.every))
    return Recorder() if size <= LARGEST else None


def _trained(
    task: CellTask,
    planned: TrainingConfig,
    records: RecordSets,
    kept: Path | None,
    said: Callable[[str, float], None],
    recorder: Recorder | None = None,
) -> tuple[nn.Module, Row]:
    places, training = places_of(task["defence"]), records.training
    if places:
        compressed = Compression.fit(training, places)
        training = compressed.applied(training)
    started = time.perf_counter()
    record, model = train(
        planned,
        data_dir=task.get("data_dir"),
        sets=(training, records.test),
        delta=task["common"]["delta"],
        progress=lambda now: said("training", now.step / max(now.steps, 1)),
        running_epsilon=False,
        recorder=recorder,
    )
    plain = record.to_dict()
    whole = time.perf_counter() - started
    spent = float(plain["training"]["seconds"])
    if places:
        plain["data"]["removed"] = compressed.to_dict()
        plain["notes"] = [*plain["notes"], NOTE]
    plain["cell_seconds"] = {"train": spent, "account": round(max(whole - spent, 0.0), 3)}
    _keep(kept, plain, model)
    return _bare(planned, records, model), plain


def _bare(planned: TrainingConfig, records: RecordSets, model: nn.Module) -> nn.Module:
    """The network without what the engine put into it: attacks copy it, and change its copies."""
    from recondite.training.setup import build_model

    own = build_model(planned, records.training)
    own.load_state_dict(model.state_dict())
    return own.eval()


def _resumed(
    kept: Path | None, planned: TrainingConfig, records: RecordSets
) -> tuple[nn.Module, Row] | None:
    from recondite.models import load_weights
    from recondite.training.setup import build_model

    if kept is None or not (kept / "record.json").is_file():
        return None
    try:
        record = json.loads((kept / "record.json").read_text(encoding="utf-8"))
        model = build_model(planned, records.training)
        return load_weights(model, kept / "weights.safetensors").eval(), record
    except (OSError, ValueError):
        return None  # train again: it gives the same


def _keep(kept: Path | None, record: Row, model: nn.Module) -> None:
    from recondite.models import save_weights

    # On another machine of a cluster the run's folder may not be there.
    if kept is None or not kept.parents[1].is_dir():
        return
    try:
        kept.mkdir(parents=True, exist_ok=True)
        save_weights(model, kept / "weights.safetensors")
        write_atomically(kept / "record.json", json.dumps(record, ensure_ascii=False))
    except (OSError, ValueError):
        return  # a full disk costs a second training, not the run


def _reporter(emit: Emit) -> Callable[[str, float], None]:
    last = [0.0]

    def said(stage: str, done: float) -> None:
        now = time.monotonic()
        if now - last[0] >= _PAUSE:
            last[0] = now
            emit({"type": "progress", "stage": stage, "done": float(done)})

    return said


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError):
        return str(error)
    return f"{type(error).__name__}: {error}"
