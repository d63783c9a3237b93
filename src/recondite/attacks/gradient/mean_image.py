"""One image from a batch's gradient: the mean of the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from recondite.attacks.gradient.attempts import inferred_note
from recondite.attacks.gradient.base import AttackProgress, Reconstruction
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.victims import Victims

__all__ = ["MeanImage"]


@dataclass(frozen=True)
class MeanImage(InvertingGradients):
    """Tan et al., "Defending against data reconstruction attacks …" (2024), Appendix D.

    Rebuilds one image from the gradient of a whole batch, with the batch's mixture of labels, and
    compares it with the batch's mean. The squared distance between the two means bounds the mean
    squared error of any set of reconstructions with that mean from below, and the task is equally
    hard for every batch size. Assumption: the paper does not say which label the one image has.
    """

    name: ClassVar[str] = "mean-image"
    paper: ClassVar[str] = "Tan et al., Defending against data reconstruction attacks (2024)"

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        labels = infer_labels(victims) if victims.labels is None else victims.labels
        if labels.ndim == 2:
            labels = functional.one_hot(labels, victims.classes).to(victims.dtype)
        mixture = labels.mean(1, keepdim=True)
        result = super()._attack(
            replace(victims, labels=mixture, batch_size=1), progress, time_limit
        )
        notes = [f"one image, to be compared with the mean of the {victims.batch_size} records"]
        if victims.labels is None:
            notes.append(inferred_note(victims))
        return replace(result, labels=None, notes=(*result.notes, *notes))

    @staticmethod
    def originals(images: Tensor) -> Tensor:
        """What the result is compared with: (victims, batch, …) to (victims, 1, …)."""
        return torch.as_tensor(images).mean(1, keepdim=True)
