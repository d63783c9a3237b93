"""What the engine asks of a kind of layer; any other layer goes through Opacus's grad samplers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from recondite.gradients.layers import norms
from recondite.gradients.tape import Entry, Tape, record_detached, wide

__all__ = ["CHUNK", "FormedRule", "GenericRule", "Grads", "LayerRule", "samplers"]

Grads = dict[nn.Parameter, torch.Tensor]

# Elements that are held at a time where gradients are formed sample by sample (64 MB of float32).
CHUNK = 1 << 24


class LayerRule(ABC):
    """Norms and weighted sums of per-sample gradients, from what the tape holds.

    All gradients are of the sum over samples of their own losses: the mean's factor is undone by
    the caller.

    Guarantee: a squared norm is at least that of the gradient that ``weighted_sum`` adds for the
    sample, rounding of both included.

    Attributes:
      slow: Whether it forms every record's gradient where an ordinary pass would not.
      redraws: Whether random numbers (dropout) are others than in an ordinary pass.
      cost: What it takes, for the list of layers.
    """

    slow = False
    redraws = False
    cost = "about an ordinary backward pass"

    def parameters(self, layer: nn.Module) -> list[nn.Parameter]:
        """The trained parameters that it answers for: one column of the norms."""
        return [p for p in layer.parameters(recurse=False) if p.requires_grad]

    def members(self, layer: nn.Module) -> list[nn.Module]:
        """The modules that it records."""
        return [layer]

    @abstractmethod
    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Makes the layer write to the tape."""

    @abstractmethod
    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """Squared norm of every sample's gradient of all trainable parameters of the layer.

        In double precision, never below the true one; NaN where only ``settle`` can tell.
        """

    @abstractmethod
    def per_sample(self, entry: Entry) -> Grads:
        """Every sample's gradient, stacked on the first axis, by parameter."""

    @abstractmethod
    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Σ_i weights_i · gradient of sample i, by parameter, without forming the gradients."""

    def settle(self, entry: Entry, rows: torch.Tensor) -> torch.Tensor:
        """Squared norms of some samples, from their gradients, which are then also summed."""
        if entry.gradients is not None:
            return _sizes({p: g[rows] for p, g in entry.gradients.items()})
        parts = torch.split(rows, _chunk(entry))
        squared = torch.cat([_sizes(self.per_sample(entry.rows(part))) for part in parts])
        entry.apart = rows, squared
        return squared

    def weighted_sum(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Σ_i weights_i · gradient of sample i, by parameter: of the gradients that were measured.

        Args:
          entry: A call whose norms were asked for.
          weights: One a sample, in double precision.
        """
        assert entry.backprop is not None
        if entry.gradients is not None:
            return _added(entry.gradients, weights)
        narrow = entry.backprop.dtype if entry.backprop.dtype == torch.float64 else torch.float32
        if entry.apart is None:
            return self.product(entry, weights.to(narrow))
        rows, squared = entry.apart
        total = self.product(entry, weights.index_fill(0, rows, 0.0).to(narrow))
        size = _chunk(entry)
        for part, before in zip(torch.split(rows, size), torch.split(squared, size), strict=True):
            gradients = self.per_sample(entry.rows(part))
            # Formed again: should it come out larger than what was measured, it is scaled to that.
            again = (before / _sizes(gradients)).sqrt().nan_to_num(nan=0.0).clamp(max=1.0)
            for parameter, grad in _added(gradients, weights[part] * again).items():
                total[parameter] = total[parameter] + grad
        return total

    def write_per_sample(self, entry: Entry, places: Grads) -> None:
        """As ``per_sample``, into tensors of the right shape: views of one matrix."""
        for parameter, gradient in self.per_sample(entry).items():
            places[parameter].copy_(gradient)

    def inner(self, entry: Entry, vectors: Grads) -> torch.Tensor:
        """⟨gradient of sample i, vector k⟩, samples by vectors; vectors on the first axis."""
        gradients = self.per_sample(entry) if entry.gradients is None else entry.gradients
        parts = [
            gradients[p].reshape(len(gradients[p]), -1) @ vectors[p].reshape(len(vectors[p]), -1).mT
            for p in gradients
        ]
        return torch.stack(parts).sum(0)

    def cross(self, entry: Entry, some: torch.Tensor) -> torch.Tensor:
        """⟨gradient of sample i, gradient of sample j⟩, some samples by all."""
        made = entry.gradients
        own = (
            self.per_sample(entry.rows(some)) if made is None else {p: made[p][some] for p in made}
        )
        return self.inner(entry, own).mT

    def detach(self, layer: nn.Module) -> None:
        """Gives the layer its own forward function back."""
        layer.__dict__.pop("forward", None)


def trainable(layer: nn.Module, name: str) -> nn.Parameter | None:
    """A parameter of the layer if it exists and is trained."""
    parameter = getattr(layer, name, None)
    return parameter if isinstance(parameter, nn.Parameter) and parameter.requires_grad else None


def quick_sizes(gradients: Grads) -> torch.Tensor:
    """Squared norms of whole gradients; NaN where only ``settle`` can tell."""
    # A parameter whose part is zero (or too small to be told) makes all of the sample's unknown.
    return torch.stack([norms.sizes(g) for g in gradients.values()]).sum(0)


def _sizes(gradients: Grads) -> torch.Tensor:
    return torch.stack([norms.measured(g) for g in gradients.values()]).sum(0)


def _added(gradients: Grads, weights: torch.Tensor) -> Grads:
    found = {}
    for parameter, gradient in gradients.items():
        turned, places = norms.in_memory(gradient)
        row = weights.to(gradient.dtype)[None] @ turned.reshape(len(turned), -1)
        found[parameter] = row.view(1, *turned.shape[1:]).permute(places)[0]
    return found


def _chunk(entry: Entry) -> int:
    """Samples whose gradients are formed at a time."""
    own = sum(p.numel() for p in entry.layer.parameters(recurse=False) if p.requires_grad)
    return max(1, CHUNK // max(1, own))


def samplers() -> dict[type[nn.Module], Any]:
    """Opacus' functions from (layer, activations, backprops) to per-sample gradients."""
    try:
        from opacus.grad_sample import GradSampleModule
    except ImportError as error:
        raise ImportError("this layer needs Opacus: pip install 'recondite[train]'") from error
    found: dict[type[nn.Module], Any] = GradSampleModule.GRAD_SAMPLERS
    return found


class FormedRule(LayerRule):
    """A rule that knows no way around every record's gradient: norms and sums are of those."""

    cost = "one gradient a record in memory"

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """From the gradients themselves."""
        entry.gradients = self.per_sample(entry)
        return quick_sizes(entry.gradients)

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """From the gradients themselves."""
        return {p: torch.tensordot(weights, g, 1) for p, g in self.per_sample(entry).items()}


class GenericRule(FormedRule):
    """Per-sample gradients of small layers (normalisation), materialised."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape, out of autograd's sight."""
        layer.forward = record_detached(tape, layer)

    def per_sample(self, entry: Entry) -> Grads:
        """Opacus' formula for this kind of layer."""
        assert entry.backprop is not None
        activation = entry.activation
        if activation.is_floating_point():
            activation = wide(activation)
        sampler = samplers()[type(entry.layer)]
        found = sampler(entry.layer, [activation], wide(entry.backprop))
        return {p: g for p, g in found.items() if p.requires_grad}
