"""Every other layer that Opacus can differentiate per sample, through its grad samplers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recondite.training.layers.base import Grads, LayerRule
from recondite.training.tape import Entry, Tape, wide

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

    def __init__(self) -> None:
        self._handles: dict[nn.Module, Any] = {}

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Hooks the layer; its own weight gradients are computed too, and ignored."""

        def after(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if not (tape.recording and module.training and torch.is_grad_enabled()):
                return
            entry = Entry(module, inputs[0].detach())
            tape.entries.append(entry)

            def keep(grad: torch.Tensor) -> None:
                entry.backprop = grad.detach()

            output.register_hook(keep)

        self._handles[layer] = layer.register_forward_hook(after)

    def detach(self, layer: nn.Module) -> None:
        """Removes the hook."""
        self._handles.pop(layer).remove()

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """From the gradients themselves."""
        parts = [g.flatten(1).square().sum(1) for g in self.per_sample(entry).values()]
        return torch.stack(parts).sum(0)

    def weighted_sum(self, entry: Entry, weights: torch.Tensor) -> Grads:
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
        return {p: g for p, g in found.items() if p.requires_grad}
