"""What a model says about records: logits, losses, confidences, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from recondite.records import Records as AnyRecords

__all__ = [
    "FloatArray",
    "LossFunction",
    "Records",
    "confidences",
    "device_of",
    "evaluation_mode",
    "logit_confidences",
    "logits_of",
    "losses_of",
    "records_of",
]

FloatArray = NDArray[np.float64]
LossFunction = Callable[[Tensor, Tensor], Tensor]
Records: TypeAlias = AnyRecords | Sequence[Tensor]
_BATCH = 512


def records_of(name: str, given: Any, least: int = 2) -> tuple[Tensor, Tensor]:
    """Images and labels of records or an (images, labels) pair, checked."""
    pair = given.tensors if isinstance(given, AnyRecords) else given
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
        raise ValueError(
            f"{name} must be an ImageSet or other records, or (images, labels), got {type(given)!r}"
        )
    images, labels = (torch.as_tensor(part) for part in pair)
    if not images.dtype.is_floating_point:
        raise ValueError(f"{name} must have images of floating point, got {images.dtype}")
    if labels.dtype.is_floating_point or labels.ndim != 1 or len(labels) != len(images):
        raise ValueError(
            f"{name} must have one whole number as the label of each of {len(images)} images, got "
            f"{labels.dtype} {tuple(labels.shape)}"
        )
    if len(images) < least:
        raise ValueError(f"{name} must hold {least} or more records, got {len(images)}")
    return images, labels.long()


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters are."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Puts every module into evaluation mode, and back as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def logits_of(model: nn.Module, images: Tensor, *, batch: int = _BATCH) -> Tensor:
    """Logits (n, classes) in evaluation mode, without gradients, on the model's device."""
    device, first = device_of(model), next(model.parameters(), images)
    out = []
    with evaluation_mode(model), torch.no_grad():
        for part in torch.split(images, batch):
            try:
                out.append(model(part.to(device, first.dtype)))
            except RuntimeError as error:
                size = "×".join(str(side) for side in images.shape[1:])
                line = str(error).splitlines()[0]
                raise ValueError(f"model cannot take images of {size}: {line}") from error
    logits = torch.cat(out)
    if logits.ndim != 2:
        raise ValueError(
            f"model must return one logit for each class, (n, classes), got {tuple(logits.shape)}"
        )
    return logits


def check_labels(name: str, logits: Tensor, labels: Tensor) -> None:
    """Refuses labels that the model has no logit for."""
    low, high = (int(value) for value in torch.aminmax(labels))
    if low < 0 or high >= logits.shape[-1]:
        raise ValueError(
            f"{name} must have labels from 0 to {logits.shape[-1] - 1}, as the model has "
            f"{logits.shape[-1]} logits, got {low} to {high}"
        )


def losses_of(
    name: str, logits: Tensor, labels: Tensor, loss_fn: LossFunction | None = None
) -> FloatArray:
    """One loss for each record, float64: cross-entropy, or ``loss_fn`` on each record alone.

    Args:
      name: What the records are called in an error.
      logits: (..., n, classes); further axes in front, such as models, share the labels.
      labels: (n,).
      loss_fn: Any loss of (logits, labels) on a batch, reduced or not.
    """
    check_labels(name, logits, labels)
    labels = labels.to(logits.device)
    flat = logits.detach().reshape(-1, logits.shape[-1]).double()
    repeated = labels.expand(logits.shape[:-1]).reshape(-1)
    if loss_fn is None:
        losses = functional.cross_entropy(flat, repeated, reduction="none")
    else:
        given = loss_fn
        losses = torch.func.vmap(lambda z, y: given(z[None], y[None]).mean())(flat, repeated)
    found = losses.reshape(logits.shape[:-1]).cpu().numpy().astype(np.float64)
    broken = int(np.count_nonzero(~np.isfinite(found)))
    if broken:
        raise ValueError(
            f"{name} has {broken} of {found.size} losses that are not finite: check the model's "
            "weights and the scale of the pixels"
        )
    return found


def logit_confidences(name: str, logits: Tensor, labels: Tensor) -> FloatArray:
    """log(p/(1 − p)) of the probability p of the true label, without cancellation, float64.

    Args:
      name: What the records are called in an error.
      logits: (..., n, classes).
      labels: (n,).
    """
    check_labels(name, logits, labels)
    values = logits.detach().double().cpu()
    index = labels.cpu().expand(values.shape[:-1])[..., None]
    own = values.gather(-1, index)[..., 0]
    others = values.scatter(-1, index, -torch.inf).logsumexp(-1)
    found: FloatArray = (own - others).numpy()
    if not np.isfinite(found).all():
        broken = int(np.count_nonzero(~np.isfinite(found)))
        raise ValueError(
            f"{name} has {broken} of {found.size} confidences that are not finite: check the "
            "model's weights and the scale of the pixels"
        )
    return found


def confidences(logit: FloatArray) -> FloatArray:
    """Probabilities of the true label from their logits."""
    positive = np.exp(-np.abs(logit))
    return np.where(logit >= 0, 1 / (1 + positive), positive / (1 + positive))
