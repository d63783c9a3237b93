"""Gradients of trial batches as differentiable functions of the images.

Two ways to the same numbers: one pass over all trials with shared weights where every layer can
be read (:mod:`recondite.attacks.gradient.tape`), and torch.func for everything else: weights of
each victim's own, batch norms in training mode, any layer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from recondite.attacks.gradient.bounded import Bounding
from recondite.attacks.gradient.norms import written_out
from recondite.attacks.gradient.tape import LayerTape, Rows, supports
from recondite.attacks.gradient.victims import Victims, refuse_unknown_mode

__all__ = ["Matcher"]

Loss = Callable[[Tensor, Tensor], Tensor]


class Matcher:
    """Compares trial batches with leaked gradients.

    Trials are numbered victim by victim: trial t belongs to victim ``t // restarts``.

    Attributes:
      victims: What leaked.
      restarts: Trials a victim.
      bounding: How the victim bounded each record's gradient.
    """

    def __init__(self, victims: Victims, restarts: int = 1, bounding: Bounding | None = None):
        self.victims, self.restarts = victims, restarts
        self.bounding = bounding or Bounding()
        model = victims.model
        refuse_unknown_mode(model)
        shared = victims.weights is None and supports(model) and _agrees(victims)
        self.tape = LayerTape(model, victims.loss_fn) if shared else None
        self._plain: nn.Module | None = None
        for parameter in model.parameters():
            # The tape differentiates in the images only; torch.func wants plain tensors.
            parameter.requires_grad_(shared and parameter.requires_grad)
        squares = [g.flatten(1).square().sum(1) for g in victims.gradients.values()]
        norms = torch.stack(squares).sum(0).clamp_min(1e-24).sqrt()
        self._leaked_norms = norms.repeat_interleave(restarts)

    def gradients(self, images: Tensor, labels: Tensor, rows: Tensor | None = None) -> list[Tensor]:
        """Gradients of trials, (trials, *parameter) in the order of the leaked ones.

        Args:
          images: (trials, batch, c, h, w).
          labels: (trials, batch) or (trials, batch, classes).
          rows: Numbers of these trials; all by default. Needed for weights of each victim's own.
        """
        if self.tape is None:
            return self._by_transform(images, labels, rows)
        found: dict[str, Tensor] = {}
        for layer in self._layers(images, labels):
            found.update(layer.gradients())
        return [found[name] for name in self.victims.gradients]

    def targets(self, rows: Tensor | None = None) -> list[Tensor]:
        """The leaked gradients, once a trial."""
        if rows is None and self.restarts == 1:
            return list(self.victims.gradients.values())
        if rows is None:
            return [g.repeat_interleave(self.restarts, 0) for g in self.victims.gradients.values()]
        return [g[rows // self.restarts] for g in self.victims.gradients.values()]

    def squared_distance(
        self, images: Tensor, labels: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        """‖gradient - leaked‖² of every trial, (trials,)."""
        total = images.new_zeros(len(images))
        for mine, target in zip(
            self.gradients(images, labels, rows), self.targets(rows), strict=True
        ):
            total = total + (mine - target).flatten(1).square().sum(1)
        return total

    def cosine_distance(self, images: Tensor, labels: Tensor) -> Tensor:
        """1 - cosine of the angle between gradient and leak, of every trial."""
        dot, norm = self.products(images, labels)
        return 1.0 - dot / (norm.clamp_min(1e-24).sqrt() * self._leaked_norms)

    def products(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Inner product with the leak and squared norm of every trial's gradient."""
        leaks = self.victims.gradients
        dot, norm = images.new_zeros(len(images)), images.new_zeros(len(images))
        if self.tape is None:
            pairs = dict(zip(leaks, self._by_transform(images, labels, None), strict=True))
        else:
            pairs = {}
            for layer in self._layers(images, labels):
                if layer.weight is not None and layer.cheaper_unwritten():
                    dot = dot + layer.dot(leaks[layer.weight])
                    norm = norm + layer.squared_norm()
                    if layer.bias is not None:
                        pairs[layer.bias] = layer.outputs.sum(1)
                else:
                    pairs.update(layer.gradients())
        for name, value in pairs.items():
            mine = value.reshape(len(leaks[name]), self.restarts, -1)
            dot = dot + (mine @ leaks[name].flatten(1).unsqueeze(2)).reshape(-1)
            norm = norm + value.flatten(1).square().sum(1)
        return dot, norm

    def _layers(self, images: Tensor, labels: Tensor) -> list[Rows]:
        assert self.tape is not None
        layers = self.tape.rows(images, labels)
        if self.bounding.rule == "none":
            return layers
        norms = torch.stack([layer.record_norms() for layer in layers]).sum(0)
        # Each record's own gradient, not its share of the mean.
        factors = self.bounding.factors(norms.clamp_min(1e-24).sqrt() * images.shape[1])
        return [layer.scaled(factors) for layer in layers]

    def _by_transform(self, images: Tensor, labels: Tensor, rows: Tensor | None) -> list[Tensor]:
        victims = self.victims
        if self._plain is None:
            self._plain = written_out(victims.model).requires_grad_(False)
        model = self._plain
        names = list(victims.gradients)
        own = dict(model.named_parameters())
        frozen = {n: p.detach() for n, p in own.items() if n not in victims.gradients}
        state = {**frozen, **dict(model.named_buffers())}

        def loss(weights: dict[str, Tensor], one: Tensor, targets: Tensor) -> Tensor:
            logits = functional_call(model, {**state, **weights}, (one,))
            return victims.loss_fn(logits, targets)

        def bounded(
            weights: dict[str, Tensor], batch: Tensor, targets: Tensor
        ) -> dict[str, Tensor]:
            if self.bounding.rule == "none":
                found: dict[str, Tensor] = grad(loss)(weights, batch, targets)
                return found
            each = vmap(grad(loss), in_dims=(None, 0, 0), randomness="same")(
                weights, batch.unsqueeze(1), targets.unsqueeze(1)
            )
            norms = torch.stack([g.flatten(1).square().sum(1) for g in each.values()]).sum(0)
            factors = self.bounding.factors(norms.clamp_min(1e-24).sqrt()) / len(batch)
            return {n: torch.tensordot(factors, g, dims=1) for n, g in each.items()}

        if victims.weights is None:
            weights = {name: own[name].detach() for name in names}
            axis = None
        else:
            number = torch.arange(len(images), device=images.device) if rows is None else rows
            weights = {name: victims.weights[name][number // self.restarts] for name in names}
            axis = 0
        found = vmap(bounded, in_dims=(axis, 0, 0), randomness="same")(weights, images, labels)
        return [found[name] for name in names]


def _agrees(victims: Victims) -> bool:
    """Whether the tape gives autograd's gradients, on two small batches of random images.

    Layers that run twice or outside their module, and losses that are not means, show here.
    """
    generator = torch.Generator(device=victims.device).manual_seed(0)
    images = torch.rand(
        2, 2, *victims.shape, generator=generator, device=victims.device, dtype=victims.dtype
    )
    labels = torch.tensor([[0, 1], [1, 1]], device=victims.device)
    if victims.classes == 1:  # amounts
        labels = labels.to(victims.dtype)
    named = dict(victims.model.named_parameters())
    try:
        layers = LayerTape(victims.model, victims.loss_fn).rows(images.requires_grad_(), labels)
        mine = {name: g.detach() for layer in layers for name, g in layer.gradients().items()}
        for trial in range(2):
            loss = victims.loss_fn(victims.model(images[trial]), labels[trial])
            wanted = torch.autograd.grad(loss, [named[name] for name in victims.gradients])
            size = torch.stack([g.norm() for g in wanted]).norm()
            for name, right in zip(victims.gradients, wanted, strict=True):
                if float((mine[name][trial] - right).norm()) > 1e-3 * right.norm() + 1e-5 * size:
                    return False
    except (RuntimeError, ValueError, TypeError, KeyError):
        return False
    return True
