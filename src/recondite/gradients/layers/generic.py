"""Every other layer that Opacus can differentiate per sample, through its grad samplers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recondite.gradients.layers.base import Grads, LayerRule, quick_sizes
from recondite.gradients.tape import Entry, Tape, record_detached, wide

__all__ = ["GenericRule", "samplers"]


def samplers() -> dict[type[nn.Module], Any]:
    """Opacus' functions from (layer, activations, backprops) to per-sample gradients."""
    try:
        from opacus.grad_sample import GradSampleModule
    except ImportError as error:
        raise ImportError("this layer needs Opacus: pip install 'recondite[train]'") from error
    found: dict[type[nn.Module], Any] = GradSampleModule.GRAD_SAMPLERS
    return found


class GenericRule(LayerRule):
    """Per-sample gradients of small layers (normalisation, embeddings), materialised."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape, out of autograd's sight."""
        layer.forward = record_detached(tape, layer)

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """From the gradients themselves."""
        entry.gradients = self.per_sample(entry)
        return quick_sizes(entry.gradients)

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """From the gradients themselves."""
        return {
            parameter: torch.tensordot(weights, grad, dims=1)
            for parameter, grad in self.per_sample(entry).items()
        }

    def per_sample(self, entry: Entry) -> Grads:
        """Opacus' formula for this kind of layer."""
        assert entry.backprop is not None
        activation = entry.activation
        if activation.is_floating_point():
            activation = wide(activation)
        sampler = samplers()[type(entry.layer)]
        found = sampler(entry.layer, [activation], wide(entry.backprop))
        if isinstance(entry.layer, nn.Embedding) and entry.layer.padding_idx is not None:
            for gradient in found.values():  # the row of the padding is not trained
                gradient[:, entry.layer.padding_idx] = 0.0
        return {p: g for p, g in found.items() if p.requires_grad}
