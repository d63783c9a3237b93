"""Trains a configuration from beginning to end: data, model, protection, checkpoint, record."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from recondite import _validate
from recondite.configuration import TrainingConfig
from recondite.gradients.losses import usual_loss
from recondite.models import count_parameters, save_weights
from recondite.records import Records
from recondite.training import checkpoint
from recondite.training.on_gradients import OnGradients
from recondite.training.on_records import OnRecords
from recondite.training.protection import Progress, Protection, Request, Run
from recondite.training.record import RunRecord, write_json
from recondite.training.setup import (
    build_model,
    build_optimizer,
    described,
    evaluate,
    load_records,
    results,
)

if TYPE_CHECKING:
    from recondite.attacks.transcript import Recorder

__all__ = ["DIVERGED", "Progress", "descend", "evaluate", "train"]

DIVERGED = "training diverged: lower the learning rate (the weights are of no use)"
_LARGEST = 1e6  # times the first step's loss: no noise that trains takes a loss so far

# By what gets the noise; all but records are protected at their gradients.
_PROTECTIONS: dict[str, type[Protection]] = {"data": OnRecords}


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
    sets: tuple[Records, Records] | None = None,
    progress: Callable[[Progress], None] | None = None,
    running_epsilon: bool = True,
    accounted: bool = True,
    recorder: Recorder | None = None,
) -> tuple[RunRecord, nn.Module]:
    """Trains, and resumes what an interrupted call with the same configuration left in ``out``.

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
        configured data as it is (an audit leaves some out).
      progress: Called after every step.
      running_epsilon: Whether progress has the ε so far, which takes time.
      accounted: Whether the record has the account of noise on gradients; a search over strengths
        asks for accuracy only.
      recorder: Sees every release of a simulation with noise on gradients, for attackers that
        replay it.
    """
    asked = Request(
        data_dir,
        delta,
        target_epsilon,
        max_epsilon,
        max_information,
        secret,
        audit,
        running_epsilon,
        accounted,
        recorder,
    )
    kind: type[Protection] = _PROTECTIONS.get(config.defence.stage, OnGradients)
    kind.check(config, asked)
    folder = checkpoint.unfinished(out)
    records, test = sets or load_records(config, data_dir)
    delta = 1.0 / len(records) if delta is None else _validate.probability("delta", delta)
    model = build_model(config, records)
    optimizer = build_optimizer(config, model)
    run = Run(config, asked, folder, delta, records, model, optimizer)
    with kind(run) as protection:
        parts: dict[str, checkpoint.Stateful] = {
            "model": model,
            "optimizer": optimizer,
            **protection.state,
        }
        done = checkpoint.resume(folder, config, parts)
        protection.resumed(done)
        started = time.perf_counter()
        loss, first = 0.0, None
        for epoch in range(done, config.passes(len(records))):
            loss, began = _epoch(run, protection, epoch, progress)
            first = began if epoch == 0 else first
            if folder is not None:
                checkpoint.save(folder, config, epoch + 1, parts)
        protection.finish()
    seconds = time.perf_counter() - started
    record = _record(run, protection, test, loss, seconds, first)
    if folder is not None:
        save_weights(model, folder / "weights.safetensors")
        write_json(folder / "record.json", record.to_dict())
        (folder / "checkpoint.pt").unlink(missing_ok=True)
    return record, model


def _epoch(
    run: Run, protection: Protection, epoch: int, progress: Callable[[Progress], None] | None
) -> tuple[float, float]:
    """One pass, or what is left of the steps; gives the mean and the first loss: not private."""
    model, optimizer = run.model, run.optimizer
    model.train()
    total, pieces, first = 0.0, 0, 0.0
    steps = run.config.total_steps(len(run.records))
    left = steps - epoch * run.config.batches(len(run.records))
    for loss in descend(model, optimizer, protection.loader):
        first = loss if pieces == 0 else first
        total, pieces = total + loss, pieces + 1
        if not protection.stepped():
            continue
        left -= 1
        if progress is not None:
            spent = protection.spent()
            progress(Progress(epoch, protection.steps, steps, total / pieces, **spent))
        if left == 0:
            break
    return total / max(pieces, 1), first


def descend(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Any],
    scale: Callable[[int], float] | None = None,
) -> Iterator[float]:
    """Takes a step on each batch, or adds a piece of one, and gives its mean loss: not private.

    Args:
      model: In training mode.
      optimizer: A private one, or any.
      batches: Records and labels.
      scale: What a mean loss over so many records is multiplied by; nothing by default.
    """
    for features, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = usual_loss(model(features), labels.to(features.device))
        torch.autograd.backward(loss if scale is None else loss * scale(len(labels)))
        optimizer.step()
        yield float(loss.detach())


def _record(
    run: Run,
    protection: Protection,
    test: Records,
    loss: float,
    seconds: float,
    first: float | None,
) -> RunRecord:
    config, records = run.config, run.records
    found = results(run.model, records, test, loss)
    ended = _diverged((found["train_loss"], loss), first)
    audit, privacy = protection.audit(), protection.privacy()
    shared = [*([DIVERGED] if ended else []), *records.caveats]
    if config.standardise:
        shared.append(
            "the scale's statistics come from the training records: not covered by the account"
        )
    return RunRecord(
        kind="training",
        data=described(config, records, test),
        model={
            "name": config.model,
            "parameters": count_parameters(run.model),
            "weights": config.weights,
        },
        defence=protection.defence(),
        training={
            "optimizer": config.optimizer,
            "learning_rate": config.learning_rate,
            "momentum": config.momentum,
            "weight_decay": config.weight_decay,
            "batch_size": min(config.batch_size, len(records)),
            "epochs": config.passes(len(records)),
            "steps": protection.steps,
            "seconds": round(seconds, 3),
            "device": config.device,
        },
        results=found,
        diverged=ended,
        privacy=None if privacy is None else privacy.to_dict(),
        simulation=protection.simulation,
        notes=tuple(protection.notes(shared)),
        audit=None if audit is None else audit.to_dict(),
    )


def _diverged(losses: tuple[float, ...], first: float | None) -> bool:
    """Whether a loss is not finite, or a million times the first, where that is known."""
    most = math.inf if first is None else _LARGEST * max(1.0, first)
    return any(not math.isfinite(loss) or loss > most for loss in losses)
