"""Trains a plan from beginning to end: data, model, engine, checkpoint, record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from recondite import _validate
from recondite.configuration import TrainingConfig
from recondite.models import count_parameters, save_weights
from recondite.records import ImageSet
from recondite.training import checkpoint
from recondite.training.channelled import train_channelled
from recondite.training.engine import SIMULATION, PrivacyEngine
from recondite.training.ledger import UNLABELLED
from recondite.training.progress import Progress
from recondite.training.record import RunRecord, write_json
from recondite.training.sampling import PrivateLoader
from recondite.training.setup import (
    build_model,
    build_optimizer,
    described,
    evaluate,
    load_records,
    results,
)

__all__ = ["Progress", "evaluate", "train"]


def train(
    config: TrainingConfig,
    *,
    out: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    delta: float | None = None,
    target_epsilon: float | None = None,
    max_epsilon: float | None = None,
    max_information: float | None = None,
    secret: Any = None,
    audit: bool = False,
    sets: tuple[ImageSet, ImageSet] | None = None,
    progress: Callable[[Progress], None] | None = None,
    running_epsilon: bool = True,
    accounted: bool = True,
) -> tuple[RunRecord, nn.Module]:
    """Trains, and resumes what an interrupted call with the same plan left in ``out``.

    Args:
      config: What to train.
      out: Folder for the checkpoint, the ledger, the weights and the record.
      data_dir: Where data sets are.
      delta: δ; by default one over the number of records.
      target_epsilon: Calibrate the noise to this ε instead of using the mechanism's own.
      max_epsilon: Stop before this ε is exceeded.
      max_information: With a channel: stop before more nats than these are told of a record.
      secret: With a channel that draws once: 32 bytes or a file that holds them, so that a run
        that is resumed draws the same noise. None draws again then, and counts it.
      audit: Also audit the mechanism with canaries, as the engine releases it (some seconds).
      sets: Training and test records as :func:`load_records` scales them, where they are not the
        plan's data as it is (an audit leaves some out).
      progress: Called after every step.
      running_epsilon: Whether progress has the ε so far, which takes time.
      accounted: Whether the record has the account of noise on gradients; a search over strengths
        asks for accuracy only.
    """
    if config.channel is not None:
        if audit or target_epsilon is not None or max_epsilon is not None:
            raise ValueError(
                "target_epsilon, max_epsilon and audit are for noise on gradients: bound a channel "
                "by its capacity and max_information"
            )
        return train_channelled(
            config,
            out=out,
            data_dir=data_dir,
            delta=delta,
            max_information=max_information,
            secret=secret,
            sets=sets,
            progress=progress,
        )
    if max_information is not None or secret is not None:
        raise ValueError("max_information and secret belong to a channel: leave them out")
    if audit and not config.mechanism.parameter:
        raise ValueError("audit needs a mechanism with noise: leave it out")
    folder = checkpoint.unfinished(out)
    records, test = sets or load_records(config, data_dir)
    delta = 1.0 / len(records) if delta is None else _validate.probability("delta", delta)
    model = build_model(config, records)
    optimizer = build_optimizer(config, model)
    engine = PrivacyEngine(
        seed=config.seed,
        max_epsilon=max_epsilon,
        delta=delta if max_epsilon is not None else None,
        ledger=None if folder is None else folder / "ledger.json",
        secure=config.secure,
    )
    with engine.ledger:
        loader = _private(engine, config, model, optimizer, records, target_epsilon, delta)
        parts = {"model": model, "optimizer": optimizer, "engine": engine}
        done = checkpoint.resume(folder, config, parts)
        started = time.perf_counter()
        loss = 0.0
        for epoch in range(done, config.passes(len(records))):
            shown = delta if running_epsilon else None
            loss = _epoch(config, model, optimizer, loader, engine, epoch, shown, progress)
            if folder is not None:
                checkpoint.save(folder, config, epoch + 1, parts)
        engine.ledger.close()
    seconds = time.perf_counter() - started
    found = _audit(config, engine) if audit else None
    counted = delta if accounted else None
    record = _record(config, records, test, model, engine, loader, counted, loss, seconds, found)
    if folder is not None:
        save_weights(model, folder / "weights.safetensors")
        write_json(folder / "record.json", record.to_dict())
        (folder / "checkpoint.pt").unlink(missing_ok=True)
    return record, model


def _private(
    engine: PrivacyEngine,
    config: TrainingConfig,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    records: ImageSet,
    target_epsilon: float | None,
    delta: float,
) -> PrivateLoader:
    options: dict[str, Any] = {
        "module": model,
        "optimizer": optimizer,
        "data_loader": DataLoader(records, batch_size=min(config.batch_size, len(records))),
        "mechanism": config.mechanism,
        "clipping": config.clipping,
        "max_grad_norm": config.max_grad_norm,
        "sampling": config.sampling,
        "max_batch_size": config.max_batch_size,
        "physical_batch_size": config.physical_batch_size,
    }
    if target_epsilon is None:
        return engine.make_private(**options)[2]
    return engine.make_private_with_epsilon(
        target_epsilon=target_epsilon,
        target_delta=delta,
        epochs=config.passes(len(records)),
        **options,
    )[2]


def _epoch(
    config: TrainingConfig,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: PrivateLoader,
    engine: PrivacyEngine,
    epoch: int,
    delta: float | None,
    progress: Callable[[Progress], None] | None,
) -> float:
    model.train()
    total, pieces = 0.0, 0
    every = max(1, loader.batches // 10)
    epsilon = None
    steps = config.total_steps(loader.records)
    left = steps - epoch * loader.batches
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        torch.autograd.backward(loss)
        optimizer.step()
        total, pieces = total + float(loss.detach()), pieces + 1
        if not loader.draw.last:
            continue
        left -= 1
        if progress is not None:
            if delta is not None and config.mechanism.parameter and engine.steps % every == 0:
                epsilon = engine.get_epsilon(delta)
            progress(Progress(epoch, engine.steps, steps, total / pieces, epsilon))
        if left == 0:
            break
    return total / max(pieces, 1)


def _audit(config: TrainingConfig, engine: PrivacyEngine) -> dict[str, Any]:
    from recondite.training.canary import audit_run  # only where asked for

    return audit_run(config.mechanism, engine.mechanism, seed=config.seed).to_dict()


def _record(
    config: TrainingConfig,
    records: ImageSet,
    test: ImageSet,
    model: nn.Module,
    engine: PrivacyEngine,
    loader: PrivateLoader,
    delta: float | None,
    loss: float,
    seconds: float,
    audit: dict[str, Any] | None,
) -> RunRecord:
    notes = ["results are computed without noise: they are not private"]
    if config.standardise:
        notes.append("pixel statistics come from the training records: not covered by the account")
    if engine.simulation:
        notes.insert(0, SIMULATION)
    elif engine.simulation is None:
        notes.append(UNLABELLED)
    if engine.steps < config.total_steps(len(records)) and engine.max_epsilon is not None:
        notes.append(f"training stopped before epsilon {engine.max_epsilon:g} was exceeded")
    return RunRecord(
        kind="training",
        data=described(config, records, test),
        model={
            "name": config.model,
            "parameters": count_parameters(model),
            "weights": config.weights,
        },
        defence={
            "name": config.defence.name,
            "parameters": engine.mechanism.parameters(),
            "clipping": config.clipping,
            "max_grad_norm": config.max_grad_norm,
            "sampling": loader.sampling,
            "max_batch_size": loader.max_batch_size,
            "secure": config.secure,
        },
        training={
            "optimizer": config.optimizer,
            "learning_rate": config.learning_rate,
            "momentum": config.momentum,
            "weight_decay": config.weight_decay,
            "batch_size": loader.batch_size,
            "epochs": config.passes(len(records)),
            "steps": engine.steps,
            "seconds": round(seconds, 3),
            "device": config.device,
        },
        results=results(model, records, test, loss),
        privacy=None
        if delta is None or not config.mechanism.parameter
        else engine.report(delta).to_dict(),
        simulation=bool(engine.simulation),
        notes=tuple(notes),
        audit=audit,
    )
