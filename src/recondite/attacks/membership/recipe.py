"""How a victim was trained, so that reference models are trained alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite import _validate

__all__ = ["OPTIMIZERS", "PRESETS", "Recipe"]

OPTIMIZERS = ("sgd", "adam", "adamw")


@dataclass(frozen=True)
class Recipe:
    """Epochs, batches and optimizer of a training run without a defence.

    Attributes:
      epochs: Passes over the data.
      batch_size: Records a step; the last batch of an epoch may be smaller.
      optimizer: "sgd", "adam" or "adamw".
      learning_rate: Its step.
      momentum: Of "sgd".
      weight_decay: Of the optimizer.
    """

    epochs: int = 30
    batch_size: int = 64
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _validate.at_least("epochs", self.epochs, 1)
        _validate.at_least("batch_size", self.batch_size, 1)
        _validate.choice("optimizer", self.optimizer, OPTIMIZERS)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.probability("momentum", self.momentum, closed_at_zero=True)
        _validate.non_negative("weight_decay", self.weight_decay)

    def steps(self, records: int) -> int:
        """Steps of a whole run on so many records."""
        return self.epochs * -(-records // self.batch_size)

    def make_optimizer(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """The optimizer. All three act on each number alone, so they train stacked models too."""
        lr, decay = self.learning_rate, self.weight_decay
        if self.optimizer == "sgd":
            momentum = self.momentum
            return torch.optim.SGD(
                parameters, lr, momentum=momentum, weight_decay=decay, fused=True
            )
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
        return kind(parameters, lr, weight_decay=decay, fused=True)


# Faustini et al. (2023), Table 1, the rows marked for MIA-R. The paper does not say how many
# reference models it trained, nor on how many records.
PRESETS = {
    "faustini-lenet-cifar10": Recipe(60, 8, "adam", 0.01),
    "faustini-lenet-fashion-mnist": Recipe(10, 8, "adam", 0.001),
    "faustini-mlp-cifar10": Recipe(25, 256, "adam", 0.001),
    "faustini-mlp-fashion-mnist": Recipe(30, 8, "adam", 0.1),
}
