"""Ordinary training on records that a channel made noisy (Tan et al., 2024)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from recondite import _validate
from recondite.channels.base import Channel
from recondite.channels.ledger import Ledger
from recondite.channels.registry import centre_weights, fit, rectangle_weights
from recondite.models import count_parameters, save_weights
from recondite.records import ImageSet, load
from recondite.training import checkpoint
from recondite.training.channel_account import channel_account
from recondite.training.engine import SIMULATION
from recondite.training.plan import Plan
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
    plan: Plan, records: ImageSet, data_dir: str | os.PathLike[str] | None = None
) -> Channel:
    """The plan's channel, for records of this scale.

    Args:
      plan: With ``channel`` and ``capacity``.
      records: The training records, scaled.
      data_dir: Where data sets are, for ``channel_data``.
    """
    assert plan.channel is not None
    assert plan.capacity is not None
    source = records
    if plan.channel_data is not None:
        source = load(plan.channel_data, "train", directory=data_dir, prepare=plan.preparation)
        if source.shape != records.shape:
            raise ValueError(
                f"channel_data has images of shape {source.shape}, the data {records.shape}: "
                "prepare them alike"
            )
        if records.mean is not None and records.std is not None:
            source = source.normalised(records.mean, records.std)
    beta, method = None, "exact"
    if plan.channel == "personalized":
        beta, method = _beta(plan, records), plan.channel_method
    rows = source.images.flatten(1).cpu().numpy()
    return fit(plan.channel, rows, plan.capacity, beta=beta, method=method)


def train_channelled(
    plan: Plan,
    *,
    out: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    delta: float | None = None,
    max_information: float | None = None,
    secret: Any = None,
    sets: tuple[ImageSet, ImageSet] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[RunRecord, nn.Module]:
    """Trains a plan with a channel; arguments as in :func:`recondite.training.trainer.train`.

    Guarantee: ``privacy["mutual_information"]["run"]`` of the record bounds, in nats, what the
    trained model tells of the features of a record, as :class:`Channel` states it. Every use is
    counted, those of an interrupted run too; nothing that is written holds the noise's secret.
    """
    folder = checkpoint.unfinished(out)
    records, test = sets or load_records(plan, data_dir)
    delta = 1.0 / len(records) if delta is None else _validate.probability("delta", delta)
    model = build_model(plan, records)
    optimizer = build_optimizer(plan, model)
    channel = fit_channel(plan, records, data_dir)
    journal = None if folder is None else folder / "channel.jsonl"
    if folder is not None:
        _refuse_foreign(folder, Ledger(channel, len(records), path=journal))
    loader = _protected(plan, channel, records, secret, max_information, journal)
    if plan.seed is not None:
        loader.ledger.simulate()
    parts = {"model": model, "optimizer": optimizer, "channel": loader}
    done = checkpoint.resume(folder, plan, parts)
    started = time.perf_counter()
    steps, loss = done * len(loader), 0.0
    whole = plan.total_steps(len(records))
    for epoch in range(done, plan.passes(len(records))):
        loss, taken = _epoch(whole, model, optimizer, loader, epoch, progress)
        steps += taken
        if folder is not None:
            checkpoint.save(folder, plan, epoch + 1, parts)
    seconds = time.perf_counter() - started
    record = RunRecord(
        kind="training",
        data=described(plan, records, test),
        model={"name": plan.model, "parameters": count_parameters(model), "weights": plan.weights},
        defence=_defence(plan, channel),
        training={
            "optimizer": plan.optimizer,
            "learning_rate": plan.learning_rate,
            "momentum": plan.momentum,
            "weight_decay": plan.weight_decay,
            "batch_size": min(plan.batch_size, len(records)),
            "epochs": plan.passes(len(records)),
            "steps": steps,
            "seconds": round(seconds, 3),
            "device": plan.device,
        },
        results=results(model, records, test, loss),
        privacy=channel_account(plan, channel, loader, records, delta).to_dict(),
        simulation=loader.ledger.simulation,
        notes=_notes(plan, loader),
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
    plan: Plan,
    channel: Channel,
    records: ImageSet,
    secret: Any,
    max_information: float | None,
    journal: Path | None,
) -> Any:
    order = torch.Generator()
    if plan.seed is None:
        order.seed()
    else:
        order.manual_seed(plan.seed)
    size = min(plan.batch_size, len(records))
    plain: DataLoader[Any] = DataLoader(records, batch_size=size, shuffle=True, generator=order)
    options: dict[str, Any] = {"total_information": max_information, "ledger": journal}
    if plan.channel_noise == "per_step":
        if secret is not None:
            raise ValueError("secret is for noise drawn once: per_step noise is always fresh")
        options["seed"] = plan.seed
    elif secret is None and plan.seed is not None:
        options["secret"] = hashlib.blake2b(f"{plan.seed}".encode(), digest_size=32).digest()
    else:
        options["secret"] = secret
    return channel.protect(plain, noise=plan.channel_noise, **options)


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


def _defence(plan: Plan, channel: Channel) -> dict[str, Any]:
    low, high = channel.noise_std_range
    parameters: dict[str, Any] = {"capacity": plan.capacity, "noise": plan.channel_noise}
    if plan.channel == "personalized":
        parameters["beta"] = "given" if plan.beta is not None else "centre 50:1"
        parameters["method"] = plan.channel_method
    return {
        "name": plan.defence,
        "parameters": parameters,
        "clipping": "none",
        "max_grad_norm": None,
        "sampling": "shuffled",
        "max_batch_size": None,
        "secure": True,
        "fitted_on": plan.channel_data or "the training records",
        "noise_std": {"min": low, "max": high},
    }


def _notes(plan: Plan, loader: Any) -> tuple[str, ...]:
    notes = list(_NOTES)
    if plan.channel_data is None:
        notes.append(_OWN_FIT)
    if plan.standardise:
        notes.append("pixel statistics come from the training records: not covered by the account")
    if loader.ledger.simulation:
        notes.insert(0, SIMULATION)
    if loader.budget_spent:
        notes.append(loader.ledger.message)
    return tuple(notes)


def _beta(plan: Plan, records: ImageSet) -> Any:
    if plan.beta is None:
        return centre_weights(records.shape)
    if not isinstance(plan.beta, str):
        return rectangle_weights(records.shape, **plan.beta)
    try:
        # Never unpickle: an object array from a stranger could run code.
        return np.load(plan.beta, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise ValueError(f"beta: {Path(plan.beta).name} is no plain .npy array") from None
