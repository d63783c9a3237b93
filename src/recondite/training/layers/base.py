"""What the engine asks of a kind of layer."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

from recondite.training.tape import Entry, Tape

__all__ = ["Grads", "LayerRule"]

Grads = dict[nn.Parameter, torch.Tensor]


class LayerRule(ABC):
    """Norms and weighted sums of per-sample gradients, from what the tape holds.

    All gradients are of the sum over samples of their own losses: the mean's factor is undone by
    the caller.
    """

    @abstractmethod
    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Makes the layer write to the tape."""

    @abstractmethod
    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """Squared norm of every sample's gradient of all trainable parameters of the layer."""

    @abstractmethod
    def weighted_sum(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Σ_i weights_i · gradient of sample i, by parameter."""

    @abstractmethod
    def per_sample(self, entry: Entry) -> Grads:
        """Every sample's gradient, stacked on the first axis, by parameter."""

    def write_per_sample(self, entry: Entry, places: Grads) -> None:
        """As ``per_sample``, into tensors of the right shape: views of one matrix."""
        for parameter, gradient in self.per_sample(entry).items():
            places[parameter].copy_(gradient)

    def detach(self, layer: nn.Module) -> None:
        """Gives the layer its own forward function back."""
        layer.__dict__.pop("forward", None)


def trainable(layer: nn.Module, name: str) -> nn.Parameter | None:
    """A parameter of the layer if it exists and is trained."""
    parameter = getattr(layer, name, None)
    return parameter if isinstance(parameter, nn.Parameter) and parameter.requires_grad else None
