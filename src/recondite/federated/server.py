"""The server of the ready app: rounds, evaluation, the auditor, and one line a round."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite.federated.checkpoint import Checkpoint
from recondite.federated.checks import Limits
from recondite.federated.cost import Spent, spent
from recondite.federated.evidence import Originals
from recondite.federated.flower import flower
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.screening import ScreeningStrategy
from recondite.federated.settings import Settings
from recondite.federated.shares import held_out_set, initial_model
from recondite.federated.strategy import AuditingStrategy
from recondite.federated.waiting import BoundedFedAvg
from recondite.mechanisms.registry import mechanisms
from recondite.models import count_parameters, save_weights
from recondite.training.record import machine, write_json
from recondite.training.trainer import evaluate

__all__ = ["federate", "ledgers", "read_truth"]

Row = dict[str, Any]
_PUBLIC = ("digits", "mnist-5k", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn")


def federate(
    grid: Any,
    settings: Settings,
    *,
    study: str = "federated",
    progress: Callable[[Row], None] | None = None,
    plan: int | None = None,
) -> tuple[Any, list[Row]]:
    """Trains over a Flower grid.

    Args:
      grid: Flower's grid, of the simulation or the deployment engine.
      settings: The federation. ``out`` receives rounds.csv, weights and the auditor's evidence.
      study: Name of the run in the report.
      progress: Called with each round's row.
      plan: Which of the policies of a simulation's client app this federation is of.

    Returns:
      The trained model and one row a round: accuracy, loss, what one client released at most, and
      what the auditor rebuilt at best.
    """
    app = flower()
    model, held_out = initial_model(settings), held_out_set(settings)
    point = _checkpoint(settings, model)
    done = 0 if point is None else point.done
    average = BoundedFedAvg(settings.clients, fraction=settings.fraction, wait=settings.wait)
    limits = Limits(settings.max_weight, _largest(settings, count_parameters(model)))
    auditor = None
    strategy: Any
    if settings.audit_every:
        strategy = _audited(average, limits, done, model, held_out, settings, study)
        auditor = strategy.auditor
    else:
        strategy = ScreeningStrategy(average, limits=limits, done=done)
    rows: list[Row] = [] if point is None else list(point.rows)

    def evaluated(number: int, arrays: Any) -> Any:
        if rows and number == 0:
            return None  # where the server before this one stopped
        number += done
        _load(model, arrays)
        scores = evaluate(model, held_out)
        row = _round(settings, number, scores)
        rows.append(row)
        if point is not None:
            point.write(settings, model, number, row)
        if auditor is not None:
            utility = {"test_accuracy": scores["accuracy"], "test_loss": scores["loss"]}
            auditor.note_utility(number, utility)
        if progress is not None:
            progress(row)
        return app.MetricRecord(scores)

    named = {} if point is None else {"federation": point.federation}
    chosen = {} if plan is None else {"plan": plan}
    config = app.ConfigRecord({**settings.asked(), **named, **chosen})
    initial = app.ArrayRecord(model.state_dict())
    strategy.start(
        grid,
        initial,
        num_rounds=settings.rounds - done,
        timeout=settings.wait,
        train_config=config,
        evaluate_fn=evaluated,
    )
    if auditor is not None:
        _add_reconstructions(rows, strategy.finish())
    if settings.out:
        _write(Path(settings.out), settings, rows, model, study)
    if point is not None:
        point.finish()
    return model, rows


def _checkpoint(settings: Settings, model: Any) -> Checkpoint | None:
    """Where the rounds are written to after each; None without a folder for results."""
    if not settings.out:
        return None
    folder = Path(settings.out)
    return Checkpoint.resumed(folder, settings, model) if settings.resume else Checkpoint(folder)


def ledgers(folder: str | os.PathLike[str]) -> list[Spent]:
    """What each client of a simulation spent, by the ledgers in a folder."""
    found = sorted(Path(folder).glob("client-*/releases.jsonl"))
    return [spent(ReleaseLedger(path.parent).lines()) for path in found]


def read_truth(folder: str | os.PathLike[str], number: int, node: str) -> Originals | None:
    """What a simulated client trained on in a round, all local steps after each other."""
    path = Path(folder) / f"{number}-{node}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        images, labels = torch.from_numpy(found["images"]), torch.from_numpy(found["labels"])
    return images.flatten(0, 1), labels.flatten()


def _largest(settings: Settings, parameters: int) -> float | None:
    """The largest update that the defence the server expects can release, if it says."""
    if settings.max_update > 0:
        return settings.max_update
    if settings.level != "client" and settings.defence != "clip":
        return None
    parameter = "" if settings.mechanism() is None else mechanisms()[settings.defence].parameter
    if settings.defence == "clip" or parameter == "kappa":
        most = 1.0
    elif parameter == "noise_multiplier":
        # The norm of the noise is beyond this with probability below exp(-32).
        most = 1.0 + settings.strength * (math.sqrt(parameters) + 8.0)
    else:
        return None
    # Weights are rounded to their type on the way: a hundredth more.
    return 1.01 * settings.max_norm * most


def _audited(
    strategy: Any,
    limits: Limits,
    done: int,
    model: Any,
    held_out: Any,
    settings: Settings,
    study: str,
) -> Any:
    truth = settings.truth
    return AuditingStrategy(
        strategy,
        limits=limits,
        done=done,
        every=settings.audit_every,
        clients=settings.audit_clients,
        seed=settings.seed_or_none,
        model=model,
        shape=held_out.shape,
        out=settings.out or "audit",
        learning_rate=settings.learning_rate,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size,
        attack=settings.attack or None,
        attack_steps=settings.attack_steps,
        time_limit=settings.audit_seconds,
        scale=(held_out.mean, held_out.std),
        originals=(lambda number, node: read_truth(truth, number, node)) if truth else None,
        about=_about(settings, model, held_out),
        study=study,
    )


def _about(settings: Settings, model: Any, held_out: Any) -> Row:
    """The parts of a row of evidence that are the same for all clients."""
    mechanism = settings.mechanism()
    channel = settings.described.on_records
    parameter = "capacity" if channel else None if mechanism is None else mechanism.parameter
    value = settings.capacity if channel else None if mechanism is None else settings.strength
    kept = ("name", "shape", "classes", "pixel_scale")
    algorithm = "FedSGD" if settings.local_steps == 1 else f"FedAvg, E = {settings.local_steps}"
    return {
        "defence": settings.defence,
        "label": settings.label,
        "parameter": parameter,
        "value": value,
        "seed": settings.seed_or_none,
        "data": {
            **{key: held_out.summary()[key] for key in kept},
            "partition": settings.partition,
            "clients": settings.clients,
            "public": settings.data in _PUBLIC,
        },
        "model": {"name": settings.model, "parameters": count_parameters(model)},
        "training": {
            "algorithm": algorithm,
            "rounds": settings.rounds,
            "local_steps": settings.local_steps,
            "batch_size": settings.batch_size,
            "optimizer": "sgd",
            "learning_rate": settings.learning_rate,
        },
        "simulation": settings.seed >= 0,
    }


def _round(settings: Settings, number: int, scores: dict[str, float]) -> Row:
    row: Row = {
        "round": number,
        "defence": settings.label,
        "partition": settings.partition,
        "local_steps": settings.local_steps,
        "accuracy": scores["accuracy"],
        "loss": scores["loss"],
        "epsilon": None,
        "information": None,
        "protects": _level(settings),
        "ssim": None,
        "mse": None,
    }
    costs = ledgers(settings.ledger) if settings.ledger and number else []
    if costs:
        told = [cost.information for cost in costs]
        row["epsilon"] = _most([cost.epsilon for cost in costs])
        row["information"] = _most(told)
    return row


def _level(settings: Settings) -> str:
    """What the defence protects; how much was spent, only a client's own ledger knows."""
    if settings.described.on_records:
        return "channel"
    return settings.level if settings.mechanism_name else "nothing"


def _most(values: list[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return max(found) if len(found) == len(values) and found else None


def _add_reconstructions(rows: list[Row], evidence: list[Row]) -> None:
    for row in rows:
        found = [e["reconstruction"] for e in evidence if e["round"] == row["round"]]
        scored = [part for part in found if "ssim_worst" in part]
        if scored:
            row["ssim"] = max(part["ssim_worst"] for part in scored)
            row["mse"] = min(part["mse_worst"] for part in scored)


def _write(folder: Path, settings: Settings, rows: list[Row], model: Any, study: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rounds.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    save_weights(model, folder / "weights.safetensors")
    hidden = ("data-dir", "ledger", "truth", "out")
    resolved = {k: v for k, v in settings.to_config().items() if k not in hidden}
    record = {"name": study, "study": resolved, "rounds": rows, "machine": machine()}
    write_json(folder / "study.json", json.loads(json.dumps(record)))


def _load(model: Any, record: Any) -> None:
    values = {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
    model.load_state_dict(values)
