"""Linear layers: norms without gradients, sums by one matrix product."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recondite.gradients.layers import norms
from recondite.gradients.layers.base import Grads, LayerRule, quick_sizes, trainable
from recondite.gradients.tape import Entry, Tape, record, wide

__all__ = ["LinearRule", "by_products"]


class LinearRule(LayerRule):
    """``nn.Linear``, on vectors or on sequences of any number of axes."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape."""
        linear: Any = layer

        def run(x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = functional.linear(x, linear.weight, linear.bias)
            return out

        def pull(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = (grad @ linear.weight.to(grad.dtype)).to(x.dtype)
            return out

        layer.forward = record(tape, layer, run, pull)

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """‖b‖²‖a‖² for vectors; for sequences ⟨aaᵀ, bbᵀ⟩ or the gradient itself, if smaller."""
        a, b = _flat(entry)
        layer = entry.layer
        weight, bias = trainable(layer, "weight"), trainable(layer, "bias")
        if a.dim() == 2:
            size = norms.sizes(b)
            factor: Any = norms.sizes(a) if weight is not None else 0.0
            out: torch.Tensor = size * (factor + (1.0 if bias is not None else 0.0))
            return out
        if weight is None or not by_products(a.shape[1], a.shape[2], b.shape[2]):
            # No larger than the input or the output's gradient, which the tape holds.
            entry.gradients = self.per_sample(entry)
            return quick_sizes(entry.gradients)
        total = norms.gram(a, b)
        return total if bias is None else total + norms.measured(b.sum(1))

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """(w·b)ᵀa."""
        a, b = _flat(entry)
        out: Grads = {}
        weight, bias = trainable(entry.layer, "weight"), trainable(entry.layer, "bias")
        with norms.full_precision():
            if weight is not None and b.dim() == 2:
                out[weight] = (b * weights[:, None]).mT @ a
            elif weight is not None:
                scaled = b * weights.reshape(-1, *(1,) * (b.dim() - 1))
                out[weight] = scaled.reshape(-1, b.shape[-1]).mT @ a.reshape(-1, a.shape[-1])
            if bias is not None:
                out[bias] = weights @ (b if b.dim() == 2 else b.sum(1))
        return out

    def per_sample(self, entry: Entry) -> Grads:
        """Outer products."""
        a, b = _flat(entry)
        if a.dim() == 2:
            a, b = a[:, None], b[:, None]
        out: Grads = {}
        weight, bias = trainable(entry.layer, "weight"), trainable(entry.layer, "bias")
        if weight is not None:
            out[weight] = b.mT @ a
        if bias is not None:
            out[bias] = b.sum(1)
        return out

    def inner(self, entry: Entry, vectors: Grads) -> torch.Tensor:
        """bᵀVa, without the gradients."""
        a, b = _flat(entry)
        if entry.gradients is not None or a.dim() != 2:
            return super().inner(entry, vectors)
        weight, bias = trainable(entry.layer, "weight"), trainable(entry.layer, "bias")
        total = b.new_zeros(len(b), len(next(iter(vectors.values()))))
        if weight is not None:
            columns = [((b @ vector) * a).sum(1) for vector in vectors[weight]]
            total = torch.stack(columns, 1)
        return total if bias is None else total + b @ vectors[bias].mT

    def cross(self, entry: Entry, some: torch.Tensor) -> torch.Tensor:
        """⟨a, a'⟩⟨b, b'⟩."""
        a, b = _flat(entry)
        if entry.gradients is not None or a.dim() != 2:
            return super().cross(entry, some)
        weight, bias = trainable(entry.layer, "weight"), trainable(entry.layer, "bias")
        alike: Any = a[some] @ a.mT if weight is not None else 0.0
        out: torch.Tensor = (b[some] @ b.mT) * (alike + (1.0 if bias is not None else 0.0))
        return out

    def write_per_sample(self, entry: Entry, places: Grads) -> None:
        """Outer products, without a copy."""
        a, b = _flat(entry)
        weight, bias = trainable(entry.layer, "weight"), trainable(entry.layer, "bias")
        if a.dim() != 2:
            super().write_per_sample(entry, places)
            return
        if weight is not None:
            torch.mul(b[:, :, None], a[:, None, :], out=places[weight])
        if bias is not None:
            places[bias].copy_(b)


def by_products(positions: int, inputs: int, outputs: int) -> bool:
    """Whether norms come from products of positions, not from gradients: what is less work."""
    return positions**2 <= inputs * outputs


def _flat(entry: Entry) -> tuple[torch.Tensor, torch.Tensor]:
    """Activation and backprop in single precision, with one axis of positions at most."""
    assert entry.backprop is not None
    a, b = wide(entry.activation), wide(entry.backprop)
    if a.dim() > 3:
        a, b = a.flatten(1, -2), b.flatten(1, -2)
    return a, b
