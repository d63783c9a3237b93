"""The server of the ready app: rounds, evaluation, the auditor, and one line a round."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._files import write_atomically
from recondite.attacks.scoring import as_images
from recondite.federated.auditor import Auditor
from recondite.federated.central import CentralNoise
from recondite.federated.checkpoint import Checkpoint
from recondite.federated.cost import Spent, spent
from recondite.federated.evidence import Originals
from recondite.federated.flower import flower
from recondite.federated.flower.screening import Limits, ScreeningStrategy
from recondite.federated.flower.secure import ALL, SecureRounds
from recondite.federated.flower.strategy import AuditingStrategy, BoundedFedAvg, CentralFedAvg
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.settings import Settings
from recondite.federated.shares import check_auditable, held_out_set, initial_model
from recondite.models import count_parameters, save_weights
from recondite.notions import figures
from recondite.studies.shapes import Row
from recondite.training.record import machine, write_json
from recondite.training.trainer import evaluate

__all__ = ["federate", "ledgers", "read_truth"]

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
    auditor = _auditor(model, held_out, settings, study) if settings.audit_every else None
    strategy = _strategy(settings, auditor, count_parameters(model), done)
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
    """What a simulated client trained on in a round, all local steps after each other.

    "all" for what all clients did, one after the other: what a sum is of.
    """
    paths = sorted(Path(folder).glob(f"{number}-{'*' if node == ALL else node}.npz"))
    if not paths:
        return None
    images, labels = [], []
    for path in paths:
        with np.load(path, allow_pickle=False) as found:
            images.append(torch.from_numpy(found["images"]))
            labels.append(torch.from_numpy(found["labels"]))
    return torch.cat(images), torch.cat(labels)


def _strategy(settings: Settings, auditor: Auditor | None, parameters: int, done: int) -> Any:
    """What runs the rounds: secure sums, or Flower's averaging behind checks."""
    central = _central(settings)
    every = max(1, settings.audit_every)
    if settings.secure:
        return SecureRounds(
            settings.clients,
            settings.honest,
            settings.wait,
            settings.share,
            central,
            auditor,
            every,
            done,
        )
    waiting: dict[str, float] = {"fraction": settings.fraction, "wait": settings.wait}
    average: BoundedFedAvg = (
        BoundedFedAvg(settings.clients, **waiting)
        if central is None
        else CentralFedAvg(central, settings.clients, **waiting)
    )
    limits = Limits(settings.max_weight, _largest(settings, parameters))
    if auditor is None:
        return ScreeningStrategy(average, limits=limits, done=done)
    return AuditingStrategy(
        average,
        limits=limits,
        done=done,
        every=every,
        clients=settings.audit_clients,
        seed=settings.seed_or_none,
        auditor=auditor,
    )


def _central(settings: Settings) -> CentralNoise | None:
    """The server's own noise, where the clients leave it to the server."""
    mechanism = settings.mechanism()
    if mechanism is None or not settings.trusts_server:
        return None
    if not settings.server_ledger:
        raise ValueError("noise_at server needs server_ledger: where the server counts releases")
    return CentralNoise(mechanism, settings.max_norm, settings.server_ledger, settings.seed_or_none)


def _largest(settings: Settings, parameters: int) -> float | None:
    """The largest update that the defence the server expects can release, if it says."""
    if settings.max_update > 0:
        return settings.max_update
    if settings.undefended or settings.described.on_records:
        return None
    mechanism = None if settings.trusts_server else settings.mechanism()
    if mechanism is None or (settings.level == "client" and mechanism.scale_free):
        most = 1.0
    elif settings.level == "client" and mechanism.in_shares:
        # The norm of the noise is beyond this with probability below exp(-32).
        most = 1.0 + settings.strength * (math.sqrt(parameters) + 8.0)
    else:
        return None
    # Weights are rounded to their type on the way: a hundredth more.
    return 1.01 * settings.max_norm * most


def _auditor(model: Any, held_out: Any, settings: Settings, study: str) -> Auditor:
    """It sees single updates, or under secure aggregation sums: batches of all clients' records."""
    check_auditable(settings)
    truth, together = settings.truth, settings.clients if settings.secure else 1
    return Auditor(
        model,
        shape=held_out.shape,
        out=settings.out or "audit",
        learning_rate=settings.learning_rate,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size * together,
        attack=settings.attack or None,
        attack_steps=settings.attack_steps,
        time_limit=settings.audit_seconds,
        scale=(held_out.mean, held_out.std),
        originals=(lambda number, node: read_truth(truth, number, node)) if truth else None,
        public=as_images(held_out),  # clients train on another split
        about=_about(settings, model, held_out),
        study=study,
        seed=settings.seed_or_none,
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
    if settings.trusts_server and number:
        costs = [spent(ReleaseLedger(settings.server_ledger).lines())]
    if costs:
        told = [cost.information for cost in costs]
        row["epsilon"] = _most([cost.epsilon for cost in costs])
        row["information"] = _most(told)
    for key, direction in _others().items():
        row[key] = _most([cost.notions.get(key) for cost in costs], direction)
    return row


def _level(settings: Settings) -> str:
    """What the defence protects; how much was spent, only a client's own ledger knows."""
    if settings.described.on_records:
        return "channel"
    return settings.level if settings.mechanism_name else "nothing"


def _others() -> dict[str, str]:
    """The figures of notions that other packages add, and on which side each is a bound."""
    return {key: figures()[key][0].direction for key in spent([]).notions}


def _most(values: list[float | None], direction: str = "upper") -> float | None:
    """What is promised to every client; None where one of them has no value."""
    found = [value for value in values if value is not None]
    worst = max if direction == "upper" else min
    return worst(found) if len(found) == len(values) and found else None


def _add_reconstructions(rows: list[Row], evidence: list[Row]) -> None:
    for row in rows:
        found = [e["reconstruction"] for e in evidence if e["round"] == row["round"]]
        scored = [part for part in found if "ssim_worst" in part]
        if scored:
            row["ssim"] = max(part["ssim_worst"] for part in scored)
            row["mse"] = min(part["mse_worst"] for part in scored)


def _write(folder: Path, settings: Settings, rows: list[Row], model: Any, study: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    write_atomically(folder / "rounds.csv", text.getvalue())
    save_weights(model, folder / "weights.safetensors")
    hidden = ("data-dir", "ledger", "server-ledger", "truth", "out")
    resolved = {k: v for k, v in settings.to_config().items() if k not in hidden}
    record = {"name": study, "study": resolved, "rounds": rows, "machine": machine()}
    write_json(folder / "study.json", json.loads(json.dumps(record)))


def _load(model: Any, record: Any) -> None:
    values = {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
    model.load_state_dict(values)
