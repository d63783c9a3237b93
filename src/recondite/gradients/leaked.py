"""What one step of a victim leaks: the gradients that its defence lets out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from recondite.gradients.clipping import Bound, bound_rule
from recondite.gradients.collector import Collector
from recondite.gradients.handover import Handover, Turn, bound_rows, directions_sum
from recondite.gradients.losses import usual_loss
from recondite.mechanisms import Mechanism, Observed
from recondite.mechanisms.none import hands_over
from recondite.mechanisms.releasing import draw
from recondite.numerics.random import new_generator

__all__ = ["Releases", "configured_for", "leaked_gradients"]


def leaked_gradients(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    mechanism: Mechanism | None = None,
    *,
    clipping: str = "flat",
    max_grad_norm: float = 1.0,
    loss_fn: Callable[[Tensor, Tensor], Tensor] | None = None,
    seed: int | None = None,
) -> dict[str, Tensor]:
    """The releases of many victims, one batch each, bounded and noised as the engine does.

    Args:
      model: The network before the step; it is not changed.
      images: (victims, batch, …): records of any shape.
      labels: (victims, batch).
      mechanism: The defence; None for the bare gradient.
      clipping: How each record's gradient is bounded, as in training.
      max_grad_norm: The bound.
      loss_fn: Averaged over the batch; :func:`~recondite.gradients.losses.usual_loss` by default.
      seed: For a repeatable simulation.

    Returns:
      Parameter name to (victims, *parameter): for directional noise a unit direction, for Gaussian
      noise the noisy average, as an observer sees them.
    """
    loss_fn = loss_fn or usual_loss
    if images.ndim < 3 or labels.shape[:2] != images.shape[:2]:
        raise ValueError(
            "images must be (victims, batch, …) and labels (victims, batch), got "
            f"{tuple(images.shape)} and {tuple(labels.shape)}"
        )
    if mechanism is None:
        return _bare(model, images, labels, loss_fn)
    own = copy.deepcopy(model).train()
    if clipping == "none" and hands_over(mechanism):
        return _bare(own, images, labels, loss_fn)  # nothing is bounded: no record stands alone
    collector = Collector(own)
    bound = bound_rule(clipping, max_grad_norm, len(collector.rules))
    size = images.shape[1]
    generator = new_generator(collector.parameters[0], seed)
    flat = []
    for batch, targets in zip(images, labels, strict=True):
        with torch.enable_grad():
            torch.autograd.backward(loss_fn(own(batch), targets))
        with torch.no_grad():
            handover = Handover(mechanism, collector, bound, size, size)
            flat.append(_released(collector, bound, handover, generator))
    return _by_name(model, torch.stack(flat))


class Releases:
    """Releases of batches of one model, in units, as the attacker of a proof sees them.

    Attributes:
      mechanism: Configured for batches of this size.
      units: What its units are in the model's gradients.
      bound: How each record's gradient is bounded.
    """

    def __init__(
        self,
        model: nn.Module,
        mechanism: Mechanism,
        *,
        batch_size: int,
        clipping: str = "flat",
        max_grad_norm: float = 1.0,
        seed: int | None = None,
    ) -> None:
        """Takes a copy of the model; arguments as for :func:`leaked_gradients`."""
        self._model = copy.deepcopy(model).train()
        self._collector = Collector(self._model)
        self.bound = bound_rule(clipping, max_grad_norm, len(self._collector.rules))
        self._handover = Handover(mechanism, self._collector, self.bound, batch_size, batch_size)
        self.mechanism, self.units = self._handover.mechanism, self._handover.units
        self._generator = new_generator(self._collector.parameters[0], seed)

    def rows(self, images: Tensor, labels: Tensor) -> Tensor:
        """Every record's gradient as its stage has it: bounded and in units, or bare."""
        with torch.enable_grad():
            loss = usual_loss(self._model(images), labels)
            torch.autograd.backward(loss)
        with torch.no_grad():
            made = self._collector.per_sample(len(images), mean=True)
            if self._handover.per_record:
                return made.clone()
            bounded: Tensor = self.units.of(bound_rows(made, self._collector, self.bound))
            return bounded.clone()

    def turn(self, rows: Tensor, records: Sequence[int]) -> Turn:
        """A release of a batch of such rows, whose records stand at these places."""
        with torch.no_grad():
            if self._handover.per_record:
                before = directions_sum(rows)
                return Turn(before, self._handover.rows(rows.clone(), self._generator), records)
            total = rows.sum(0)
            release = draw(self.mechanism, total, self._generator, self._handover.state)
            return Turn(total, release, records)


def configured_for(
    mechanism: Mechanism,
    model: nn.Module,
    batch_size: int,
    *,
    clipping: str = "flat",
    max_grad_norm: float = 1.0,
) -> Observed:
    """The mechanism as it releases a batch of this model: what an adaptive attacker knows.

    Its ``log_likelihood`` takes gradients in the model's numbers, as they are released.
    """
    collector = Collector(copy.deepcopy(model).train())
    bound = bound_rule(clipping, max_grad_norm, len(collector.rules))
    made = Handover(mechanism, collector, bound, batch_size, batch_size)
    return Observed(made.mechanism, made.units)


def _released(
    collector: Collector, bound: Bound, handover: Handover, generator: torch.Generator
) -> Tensor:
    rows = int(handover.units.batch_size)
    if handover.per_record:
        total = handover.rows(collector.per_sample(rows, mean=True), generator)
    else:
        total = collector.bounded_sum(bound, rows, mean=True, keep=True)
    return handover.gradient(total, generator)


def _bare(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found: dict[str, list[Tensor]] = {name: [] for name in named}
    for batch, targets in zip(images, labels, strict=True):
        with torch.enable_grad():
            loss = loss_fn(model(batch), targets)
        for name, value in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
            found[name].append(value)
    return {name: torch.stack(values) for name, values in found.items()}


def _by_name(model: nn.Module, flat: Tensor) -> dict[str, Tensor]:
    out, start = {}, 0
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            piece = flat[:, start : start + parameter.numel()]
            out[name] = piece.reshape(len(flat), *parameter.shape)
            start += parameter.numel()
    return out
