"""From a configuration to data, a model and an optimizer; and what of them a record says."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from recondite.configuration import TrainingConfig
from recondite.models import resolve
from recondite.records import ImageSet, load

__all__ = [
    "build_model",
    "build_optimizer",
    "described",
    "evaluate",
    "load_records",
    "results",
    "shares",
]

_TOP = (5, 10)


def load_records(
    config: TrainingConfig, data_dir: str | os.PathLike[str] | None
) -> tuple[ImageSet, ImageSet]:
    """The training and the test records, scaled, on its device."""
    if not config.data:
        raise ValueError("data is needed: a data set's name, a folder, or sets of records")
    sets = [
        load(config.data, split, directory=data_dir, prepare=config.preparation)
        for split in ("train", "test")
    ]
    if config.records is not None:
        sets = [part.spread(n) for part, n in zip(sets, shares(config.records), strict=True)]
    mean, std = sets[0].statistics() if config.standardise else config.pixel_scale()
    first, second = (part.normalised(mean, std).to(config.device) for part in sets)
    return first, second


def shares(records: int) -> tuple[int, int]:
    """Training and held-out records of a run on part of the data."""
    return records, max(1, records // 5)


def build_model(config: TrainingConfig, records: ImageSet) -> nn.Module:
    """The network, in training mode."""
    model = resolve(
        config.model,
        records.shape,
        len(records.classes),
        norm=config.norm,
        seed=config.seed,
        weights=config.weights,
    ).to(config.device)
    return model.train()


def build_optimizer(config: TrainingConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over the trainable parameters."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return config.make_optimizer(parameters)


@torch.no_grad()
def evaluate(
    model: nn.Module, records: ImageSet, batch: int = 1024, top: tuple[int, ...] = ()
) -> dict[str, float]:
    """Accuracy and loss, in evaluation mode, and the share right among the best ``top`` guesses.

    Not private.
    """
    training = model.training
    model.eval()
    right, loss, among = 0, 0.0, dict.fromkeys(top, 0)
    for start in range(0, len(records), batch):
        images, labels = (
            records.images[start : start + batch],
            records.labels[start : start + batch],
        )
        logits = model(images)
        right += int((logits.argmax(1) == labels).sum())
        loss += float(nn.functional.cross_entropy(logits, labels, reduction="sum"))
        for k in top:
            among[k] += int((logits.topk(k, 1).indices == labels[:, None]).sum())
    model.train(training)
    shares = {f"top{k}_accuracy": found / len(records) for k, found in among.items()}
    return {"accuracy": right / len(records), "loss": loss / len(records), **shares}


def results(model: nn.Module, records: ImageSet, test: ImageSet, loss: float) -> dict[str, Any]:
    """How the model does, as a record says it; with many classes also Top-5 and Top-10.

    Not private.
    """
    top = _TOP if len(test.classes) > max(_TOP) else ()
    held_out, seen = evaluate(model, test, top=top), evaluate(model, records)
    return {
        "test_accuracy": held_out["accuracy"],
        "test_loss": held_out["loss"],
        "train_accuracy": seen["accuracy"],
        "train_loss": seen["loss"],
        "last_epoch_loss": loss,
        **{f"test_top{k}_accuracy": held_out[f"top{k}_accuracy"] for k in top},
    }


def described(config: TrainingConfig, records: ImageSet, test: ImageSet) -> dict[str, Any]:
    """What the data are: no path of this machine, and no counts of anybody's classes."""
    kept = ("name", "records", "shape", "classes", "pixel_scale", "mean", "std")
    summary = records.summary()
    known = {key: summary[key] for key in kept}
    return {**known, "test_records": len(test), "preparation": config.preparation}
