"""Ordinary training on records that a channel made noisy (Tan et al., 2024)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from recondite import _validate
from recondite.channels.base import Channel
from recondite.channels.ledger import Ledger
from recondite.configuration import TrainingConfig
from recondite.defences import RecordNoise
from recondite.models import count_parameters, save_weights
from recondite.records import ImageSet, load
from recondite.training import checkpoint
from recondite.training.channel_account import channel_account
from recondite.training.engine import SIMULATION
from recondite.training.progress import Progress
from recondite.training.record import RunRecord, write_json
from recondite.training.setup import (
    build_model,
    build_optimizer,
    described,
    load_records,
    results,
)

__all__ = ["fit_channel", "train_channelled"]

_NOTES = (
    "results are computed from the raw records, outside the channel's account: they are not "
    "private",
)
_OWN_FIT = "the channel was fitted on the training records: its capacity does not cover the fit"


def fit_channel(
    config: TrainingConfig, records: ImageSet, data_dir: str | os.PathLike[str] | None = None
) -> Channel:
    """The configuration's channel, for records of this scale.

    Args:
      config: With noise on records.
      records: The training records, scaled.
      data_dir: Where data sets are, for ``fit_on``.
    """
    assert isinstance(config.defence, RecordNoise)
    source = records
    if config.defence.fit_on is not None:
        source = load(
            config.defence.fit_on, "train", directory=data_dir, prepare=config.preparation
        )
        if source.shape != records.shape:
            raise ValueError(
                f"channel_data has images of shape {source.shape}, the data {records.shape}: "
                "prepare them alike"
            )
        if records.mean is not None and records.std is not None:
            source = source.normalised(records.mean, records.std)
    rows = source.images.flatten(1).cpu().numpy()
    return config.defence.fit(rows, records.shape)


def train_channelled(
    config: TrainingConfig,
    *,
    out: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    delta: float | None = None,
    max_information: float | None = None,
    secret: Any = None,
    sets: tuple[ImageSet, ImageSet] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[RunRecord, nn.Module]:
    """Trains with a channel; arguments as in :func:`recondite.training.trainer.train`.

    Guarantee: ``privacy["mutual_information"]["run"]`` of the record bounds, in nats, what the
    trained model tells of the features of a record, as :class:`Channel` states it. Every use is
    counted, those of an interrupted run too; nothing that is written holds the noise's secret.
    """
    folder = checkpoint.unfinished(out)
    records, test = sets or load_records(config, data_dir)
    delta = 1.0 / len(records) if delta is None else _validate.probability("delta", delta)
    model = build_model(config, records)
    optimizer = build_optimizer(config, model)
    channel = fit_channel(config, records, data_dir)
    journal = None if folder is None else folder / "channel.jsonl"
    if folder is not None:
        _refuse_foreign(folder, Ledger(channel, len(records), path=journal))
    loader = _protected(config, channel, records, secret, max_information, journal)
    if config.seed is not None:
        loader.ledger.simulate()
    parts = {"model": model, "optimizer": optimizer, "channel": loader}
    done = checkpoint.resume(folder, config, parts)
    started = time.perf_counter()
    steps, loss = done * len(loader), 0.0
    whole = config.total_steps(len(records))
    for epoch in range(done, config.passes(len(records))):
        loss, taken = _epoch(whole, model, optimizer, loader, epoch, progress)
        steps += taken
        if folder is not None:
            checkpoint.save(folder, config, epoch + 1, parts)
    seconds = time.perf_counter() - started
    record = RunRecord(
        kind="training",
        data=described(config, records, test),
        model={
            "name": config.model,
            "parameters": count_parameters(model),
            "weights": config.weights,
        },
        defence=_defence(config, channel),
        training={
            "optimizer": config.optimizer,
            "learning_rate": config.learning_rate,
            "momentum": config.momentum,
            "weight_decay": config.weight_decay,
            "batch_size": min(config.batch_size, len(records)),
            "epochs": config.passes(len(records)),
            "steps": steps,
            "seconds": round(seconds, 3),
            "device": config.device,
        },
        results=results(model, records, test, loss),
        privacy=channel_account(config, channel, loader, records, delta).to_dict(),
        simulation=loader.ledger.simulation,
        notes=_notes(config, loader),
    )
    if folder is not None:
        save_weights(model, folder / "weights.safetensors")
        write_json(folder / "record.json", record.to_dict())
        (folder / "checkpoint.pt").unlink(missing_ok=True)
    return record, model


def _refuse_foreign(folder: Path, ledger: Ledger) -> None:
    """What another channel told of a record has no ε that is known here."""
    if ledger.foreign:
        raise ValueError(
            f"out {folder.name} holds uses of another channel, or of one fitted to other records: "
            "choose another folder, or train with the channel it was begun with"
        )


def _protected(
    config: TrainingConfig,
    channel: Channel,
    records: ImageSet,
    secret: Any,
    max_information: float | None,
    journal: Path | None,
) -> Any:
    order = torch.Generator()
    if config.seed is None:
        order.seed()
    else:
        order.manual_seed(config.seed)
    size = min(config.batch_size, len(records))
    plain: DataLoader[Any] = DataLoader(records, batch_size=size, shuffle=True, generator=order)
    options: dict[str, Any] = {"total_information": max_information, "ledger": journal}
    if config.defence.noise == "per_step":
        if secret is not None:
            raise ValueError("secret is for noise drawn once: per_step noise is always fresh")
        options["seed"] = config.seed
    elif secret is None and config.seed is not None:
        options["secret"] = hashlib.blake2b(f"{config.seed}".encode(), digest_size=32).digest()
    else:
        options["secret"] = secret
    return channel.protect(plain, noise=config.defence.noise, **options)


def _epoch(
    whole: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: Any,
    epoch: int,
    progress: Callable[[Progress], None] | None,
) -> tuple[float, int]:
    model.train()
    total, steps, batches = 0.0, 0, len(loader)
    nats = 0.0
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels.to(images.device))
        torch.autograd.backward(loss)
        optimizer.step()
        total, steps = total + float(loss.detach()), steps + 1
        if progress is not None:
            done = epoch * batches + steps
            nats = loader.ledger.nats if steps == 1 else nats
            progress(Progress(epoch, done, whole, total / steps, None, nats))
        if epoch * batches + steps == whole:
            break
    return total / max(steps, 1), steps


def _defence(config: TrainingConfig, channel: Channel) -> dict[str, Any]:
    low, high = channel.noise_std_range
    return {
        "name": config.defence.name,
        "parameters": config.defence.described(),
        "clipping": "none",
        "max_grad_norm": None,
        "sampling": "shuffled",
        "max_batch_size": None,
        "secure": True,
        "fitted_on": config.defence.fit_on or "the training records",
        "noise_std": {"min": low, "max": high},
    }


def _notes(config: TrainingConfig, loader: Any) -> tuple[str, ...]:
    notes = list(_NOTES)
    if config.defence.fit_on is None:
        notes.append(_OWN_FIT)
    if config.standardise:
        notes.append("pixel statistics come from the training records: not covered by the account")
    if loader.ledger.simulation:
        notes.insert(0, SIMULATION)
    if loader.budget_spent:
        notes.append(loader.ledger.message)
    return tuple(notes)
