"""Trains a plan from beginning to end: data, model, engine, checkpoint, record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from recondite import _validate
from recondite.data import ImageSet, load
from recondite.models import count_parameters, resolve, save_weights
from recondite.training.engine import SIMULATION, PrivacyEngine
from recondite.training.plan import Plan
from recondite.training.record import RunRecord, write_json
from recondite.training.sampling import PrivateLoader

__all__ = ["Progress", "evaluate", "train"]


@dataclass(frozen=True)
class Progress:
    """How far a run is. Loss and accuracy are not private.

    Attributes:
      epoch: Epochs finished.
      step: Steps finished, of this run.
      steps: Steps planned.
      loss: Average training loss of recent batches.
      epsilon: Tight ε so far; None without a δ or without noise.
    """

    epoch: int
    step: int
    steps: int
    loss: float
    epsilon: float | None


def train(
    plan: Plan,
    *,
    out: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    delta: float | None = None,
    target_epsilon: float | None = None,
    max_epsilon: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[RunRecord, nn.Module]:
    """Trains, and resumes what an interrupted call with the same plan left in ``out``.

    Args:
      plan: What to train.
      out: Folder for the checkpoint, the ledger, the weights and the record.
      data_dir: Where data sets are.
      delta: δ; by default one over the number of records.
      target_epsilon: Calibrate the noise to this ε instead of using the mechanism's own.
      max_epsilon: Stop before this ε is exceeded.
      progress: Called after every step.
    """
    records, test = _data(plan, data_dir)
    delta = 1.0 / len(records) if delta is None else _validate.probability("delta", delta)
    folder = None if out is None else Path(out)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    model = resolve(
        plan.model,
        records.shape,
        len(records.classes),
        norm=plan.norm,
        seed=plan.seed,
        weights=plan.weights,
    ).to(plan.device)
    model.train()
    optimizer = _optimizer(plan, model)
    engine = PrivacyEngine(
        seed=plan.seed,
        max_epsilon=max_epsilon,
        delta=delta if max_epsilon is not None else None,
        ledger=None if folder is None else folder / "ledger.json",
    )
    loader = _private(engine, plan, model, optimizer, records, target_epsilon, delta)
    done = _resume(folder, plan, model, optimizer, engine)
    started = time.perf_counter()
    loss = 0.0
    for epoch in range(done, plan.epochs):
        loss = _epoch(plan, model, optimizer, loader, engine, epoch, delta, progress)
        if folder is not None:
            _save(folder, plan, model, optimizer, engine, epoch + 1)
    engine.ledger.close()
    seconds = time.perf_counter() - started
    record = _record(plan, records, test, model, engine, loader, delta, loss, seconds)
    if folder is not None:
        save_weights(model, folder / "weights.safetensors")
        write_json(folder / "record.json", record.to_dict())
        (folder / "checkpoint.pt").unlink(missing_ok=True)
    return record, model


def _data(plan: Plan, data_dir: str | os.PathLike[str] | None) -> tuple[ImageSet, ImageSet]:
    sets = [
        load(plan.data, split, directory=data_dir, prepare=plan.preparation)
        for split in ("train", "test")
    ]
    mean, std = sets[0].statistics() if plan.standardise else plan.pixel_scale()
    first, second = (part.normalised(mean, std).to(plan.device) for part in sets)
    return first, second


def _optimizer(plan: Plan, model: nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    options: dict[str, Any] = {"lr": plan.learning_rate, "weight_decay": plan.weight_decay}
    if plan.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=plan.momentum, **options)
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, **options)


def _private(
    engine: PrivacyEngine,
    plan: Plan,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    records: ImageSet,
    target_epsilon: float | None,
    delta: float,
) -> PrivateLoader:
    options: dict[str, Any] = {
        "module": model,
        "optimizer": optimizer,
        "data_loader": DataLoader(records, batch_size=min(plan.batch_size, len(records))),
        "mechanism": plan.mechanism,
        "clipping": plan.clipping,
        "max_grad_norm": plan.max_grad_norm,
        "sampling": plan.sampling,
        "max_batch_size": plan.max_batch_size,
        "physical_batch_size": plan.physical_batch_size,
    }
    if target_epsilon is None:
        return engine.make_private(**options)[2]
    return engine.make_private_with_epsilon(
        target_epsilon=target_epsilon, target_delta=delta, epochs=plan.epochs, **options
    )[2]


def _epoch(
    plan: Plan,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: PrivateLoader,
    engine: PrivacyEngine,
    epoch: int,
    delta: float,
    progress: Callable[[Progress], None] | None,
) -> float:
    model.train()
    total, pieces = 0.0, 0
    every = max(1, len(loader) // 10)
    epsilon = None
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total, pieces = total + float(loss.detach()), pieces + 1
        if progress is None or not loader.draw.last:
            continue
        if plan.mechanism.parameter and engine.steps % every == 0:
            epsilon = engine.get_epsilon(delta)
        step = engine.steps
        progress(Progress(epoch, step, plan.epochs * len(loader), total / pieces, epsilon))
    return total / max(pieces, 1)


@torch.no_grad()
def evaluate(model: nn.Module, records: ImageSet, batch: int = 1024) -> dict[str, float]:
    """Accuracy and loss, in evaluation mode. Not private."""
    training = model.training
    model.eval()
    right, loss = 0, 0.0
    for start in range(0, len(records), batch):
        images, labels = (
            records.images[start : start + batch],
            records.labels[start : start + batch],
        )
        logits = model(images)
        right += int((logits.argmax(1) == labels).sum())
        loss += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
    model.train(training)
    return {"accuracy": right / len(records), "loss": loss / len(records)}


def _save(
    folder: Path,
    plan: Plan,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    engine: PrivacyEngine,
    epochs: int,
) -> None:
    draft = folder / "checkpoint.pt.part"
    state = {
        "plan": plan.fingerprint(),
        "epochs": epochs,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "engine": engine.state_dict(),
    }
    torch.save(state, draft)
    os.replace(draft, folder / "checkpoint.pt")


def _resume(
    folder: Path | None,
    plan: Plan,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    engine: PrivacyEngine,
) -> int:
    """Epochs that a checkpoint has behind it."""
    if folder is None:
        return 0
    if (folder / "record.json").exists():
        raise ValueError(f"out {folder.name} holds a finished run: choose another folder")
    path = folder / "checkpoint.pt"
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True, map_location=plan.device)
    if state["plan"] != plan.fingerprint():
        raise ValueError(f"out {folder.name} holds another run's checkpoint: choose another folder")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    engine.load_state_dict(state["engine"])
    return int(state["epochs"])


def _described(plan: Plan, records: ImageSet, test: ImageSet) -> dict[str, Any]:
    """What the data are: no path of this machine, and no counts of anybody's classes."""
    kept = ("name", "records", "shape", "classes", "pixel_scale", "mean", "std")
    summary = records.summary()
    described = {key: summary[key] for key in kept}
    return {**described, "test_records": len(test), "preparation": plan.preparation}


def _record(
    plan: Plan,
    records: ImageSet,
    test: ImageSet,
    model: nn.Module,
    engine: PrivacyEngine,
    loader: PrivateLoader,
    delta: float,
    loss: float,
    seconds: float,
) -> RunRecord:
    notes = ["results are computed without noise: they are not private"]
    if plan.standardise:
        notes.append("pixel statistics come from the training records: not covered by the account")
    if plan.seed is not None:
        notes.insert(0, SIMULATION)
    if engine.steps < plan.epochs * len(loader) and engine.max_epsilon is not None:
        notes.append(f"training stopped before epsilon {engine.max_epsilon:g} was exceeded")
    noisy = bool(plan.mechanism.parameter)
    held_out, seen = evaluate(model, test), evaluate(model, records)
    return RunRecord(
        kind="training",
        data=_described(plan, records, test),
        model={"name": plan.model, "parameters": count_parameters(model), "weights": plan.weights},
        defence={
            "name": plan.mechanism.name,
            "parameters": engine.mechanism.parameters(),
            "clipping": plan.clipping,
            "max_grad_norm": plan.max_grad_norm,
            "sampling": loader.sampling,
            "max_batch_size": loader.max_batch_size,
        },
        training={
            "optimizer": plan.optimizer,
            "learning_rate": plan.learning_rate,
            "momentum": plan.momentum,
            "weight_decay": plan.weight_decay,
            "batch_size": loader.batch_size,
            "epochs": plan.epochs,
            "steps": engine.steps,
            "seconds": round(seconds, 3),
            "device": plan.device,
        },
        results={
            "test_accuracy": held_out["accuracy"],
            "test_loss": held_out["loss"],
            "train_accuracy": seen["accuracy"],
            "train_loss": seen["loss"],
            "last_epoch_loss": loss,
        },
        privacy=engine.report(delta).to_dict() if noisy else None,
        simulation=plan.seed is not None,
        notes=tuple(notes),
    )
