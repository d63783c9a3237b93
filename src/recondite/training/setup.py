"""From a configuration to data, a model and an optimizer; and what of them a record says."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from scipy.stats import rankdata
from torch import Tensor, nn

from recondite.configuration import TrainingConfig
from recondite.gradients.losses import usual_loss
from recondite.models import resolve
from recondite.records import Records
from recondite.records import load_records as load

__all__ = [
    "build_model",
    "build_optimizer",
    "described",
    "evaluate",
    "load_prepared",
    "load_records",
    "results",
    "scale_of",
    "shares",
    "told",
]

_TOP = (5, 10)
# Texts at a time, and the largest loss whose exponential is still a number.
_FEW, _HIGHEST = 16, 700.0
_GIVEN = ("module", "optimizer", "data_loader")
P = ParamSpec("P")
R = TypeVar("R")
Scale = tuple[tuple[float, ...], tuple[float, ...]]


def told(method: Callable[P, R]) -> Callable[P, R]:
    """A method of the engine that says in one line what it needs, and where noise is given."""

    @functools.wraps(method)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        missing = [name for name in _GIVEN if name not in given]
        if missing:
            raise TypeError(
                f"{method.__name__} needs {', '.join(missing)}, by name; the noise is a mechanism, "
                "for example mechanism=recondite.Gaussian(noise_multiplier)"
            )
        return method(*args, **given)

    return checked


def load_records(
    config: TrainingConfig, data_dir: str | os.PathLike[str] | None
) -> tuple[Records, Records]:
    """The training and the test records, scaled, on its device."""
    if not config.data:
        raise ValueError("data is needed: a data set's name, a folder, or sets of records")
    sets = [load_prepared(config, config.data, split, data_dir) for split in ("train", "test")]
    if config.records is not None:
        sets = [part.spread(n) for part, n in zip(sets, shares(config.records), strict=True)]
    scale = scale_of(config, sets[0])
    first, second = (
        (part if scale is None else part.normalised(*scale)).to(config.device) for part in sets
    )
    return first, second


def load_prepared(
    config: TrainingConfig, data: str, split: str, data_dir: str | os.PathLike[str] | None
) -> Records:
    """Records as the configured network has them, on their natural scale."""
    required = config.prepare is not None  # images are resized for a network, others stay
    return load(
        data,
        split,
        directory=data_dir,
        prepare=config.preparation,
        required=required,
        model=config.model,
        truncate=config.truncate,
    )


def scale_of(config: TrainingConfig, records: Records) -> Scale | None:
    """Mean and standard deviation to scale records by; None for those that stay as they are.

    Constants, which reveal nothing, unless ``standardise`` asks for the records' own.
    """
    if config.standardise:
        return records.statistics()
    if records.unit_range:
        return config.pixel_scale()
    if config.pixels != "published":
        raise ValueError(f"pixels is for images: {records.name} holds {records.kind}")
    return None


def shares(records: int) -> tuple[int, int]:
    """Training and held-out records of a run on part of the data."""
    return records, max(1, records // 5)


def build_model(config: TrainingConfig, records: Records) -> nn.Module:
    """The network, in training mode."""
    model = resolve(
        config.model,
        records.shape,
        records.outputs,
        norm=config.norm,
        seed=config.seed,
        weights=config.weights,
        adapter=config.adapter,
        one_hot=records.one_hot,
    ).to(config.device)
    return model.train()


def build_optimizer(config: TrainingConfig, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over the trainable parameters."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return config.make_optimizer(parameters)


@torch.no_grad()
def evaluate(
    model: nn.Module, records: Records, batch: int = 1024, top: tuple[int, ...] = ()
) -> dict[str, float]:
    """Accuracy (R² of amounts) and loss, in evaluation mode; also the share among ``top`` guesses.

    Of texts without a class the loss is a token's, and perplexity is what it is the log of.

    Not private.
    """
    training = model.training
    model.eval()
    language = not records.classes and not records.labels.is_floating_point()
    if language:  # a vocabulary of logits for every token
        batch = min(batch, _FEW)
    right, loss, among, outputs = 0, 0.0, dict.fromkeys(top, 0), []
    for start in range(0, len(records), batch):
        features, labels = (
            records.features[start : start + batch],
            records.labels[start : start + batch],
        )
        logits = model(features)
        right += int((logits.argmax(1) == labels).sum())
        loss += float(usual_loss(logits, labels, reduction="sum"))
        outputs.append(logits)
        for k in top:
            among[k] += int((logits.topk(k, 1).indices == labels[:, None]).sum())
    model.train(training)
    shares = {f"top{k}_accuracy": found / len(records) for k, found in among.items()}
    if language:
        mean = loss / len(records)
        return {"loss": mean, "perplexity": math.exp(min(mean, _HIGHEST))}
    if not records.classes:
        return {"r2": _determined(loss, records.labels), "loss": loss / len(records)}
    found = {"accuracy": right / len(records), "loss": loss / len(records), **shares}
    if len(records.classes) == 2:
        found["auc"] = _auc(torch.cat(outputs), records.labels)
    return found


def _determined(error: float, labels: Tensor) -> float:
    """R²: the share of the amounts' variance that is predicted; 0 for their mean."""
    spread = float((labels.double() - labels.double().mean()).square().sum())
    return 1.0 - error / spread if spread > 0 else 0.0


def _auc(logits: Tensor, labels: Tensor) -> float:
    """How often a record of the second class has the larger score than one of the first."""
    score = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
    second = (labels == 1).cpu().numpy()
    if second.all() or not second.any():
        return 0.5
    ranks = rankdata(score)  # ties share their rank: each counts one half
    places = ranks[second].sum() - second.sum() * (second.sum() + 1) / 2
    return float(places / (second.sum() * (~second).sum()))


def results(model: nn.Module, records: Records, test: Records, loss: float) -> dict[str, float]:
    """How the model does, as a record says it: accuracy, R² of amounts, or perplexity of texts.

    With two classes also AUC, with many also Top-5 and Top-10. Not private.
    """
    top = _TOP if len(test.classes) > max(_TOP) else ()
    held_out, seen = evaluate(model, test, top=top), evaluate(model, records)
    return {
        **{f"test_{key}": value for key, value in held_out.items()},
        **{f"train_{key}": value for key, value in seen.items()},
        "last_epoch_loss": loss,
    }


def described(config: TrainingConfig, records: Records, test: Records) -> dict[str, object]:
    """What the data are: no path of this machine, and no counts of anybody's classes."""
    left_out = ("source", "records_per_class")
    kept = {key: value for key, value in records.summary().items() if key not in left_out}
    return {**kept, "test_records": len(test), "preparation": config.preparation}
