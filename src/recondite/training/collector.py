"""From a backward pass to the bounded sum of gradients, or to every sample's own."""

from __future__ import annotations

import math

import torch
from torch import nn

from recondite.training.bounding import Bound
from recondite.training.layers import Grads, LayerRule, rules_for
from recondite.training.tape import Entry, Tape, wide

__all__ = ["Collector"]


class Collector:
    """Attaches to a model and reads what its backward passes leave on the tape.

    The model itself is not wrapped: its class, its ``state_dict`` and its parameters stay as they
    are. ``detach`` removes every trace.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.rules: dict[nn.Module, LayerRule] = rules_for(model)
        self.tape = Tape()
        for layer, rule in self.rules.items():
            rule.attach(self.tape, layer)
        self.dim = sum(p.numel() for p in self.parameters)
        self.attached = True
        self._buffer: torch.Tensor | None = None

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Trainable parameters of each layer, in the order of the norms' columns."""
        return tuple(
            sum(p.numel() for p in layer.parameters(recurse=False) if p.requires_grad)
            for layer in self.rules
        )

    def detach(self) -> None:
        """Gives every layer its own forward function back.

        What remains is the plain sum, which an ordinary backward pass leaves in ``grad``.
        """
        for layer, rule in self.rules.items():
            rule.detach(layer)
        self.tape.clear()
        self._buffer = None
        self.attached = False

    def plain_sum(self, rows: int, *, mean: bool, keep: bool) -> torch.Tensor:
        """Σ_i g_i of the last backward pass: what no bound changes. Arguments as below."""
        if not keep:
            return torch.zeros(self.dim, device=self.parameters[0].device)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        total = torch.cat([wide(grad).reshape(-1) for grad in grads])
        return total.mul_(rows) if mean else total

    def rescale(self, factor: float) -> None:
        """Multiplies the gradients of an ordinary backward pass, without a copy of them."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            elif factor != 1.0:
                parameter.grad.mul_(factor)

    def bounded_sum(self, bound: Bound, rows: int, *, mean: bool, keep: bool) -> torch.Tensor:
        """Σ_i factor_i·g_i over the samples of the last backward pass, as one vector.

        Args:
          bound: The rule that gives the factors.
          rows: Number of samples in the pass.
          mean: Whether the loss was averaged over them (its factor is undone).
          keep: False gives a zero sum: the pass was a placeholder for an empty batch.
        """
        calls = self._calls(rows)
        scale = float(rows) if mean else 1.0
        if not keep:
            self.tape.clear()
            return torch.zeros(self.dim, device=self.parameters[0].device)
        columns, cached = [], {}
        for layer, rule in self.rules.items():
            entries = calls.get(layer, [])
            if len(entries) == 1:
                columns.append(rule.squared_norms(entries[0]))
                continue
            cached[layer] = _together(layer, rule, entries, rows)
            parts = [g.flatten(1).square().sum(1) for g in cached[layer].values()]
            columns.append(torch.stack(parts).sum(0))
        squared = torch.stack(columns, 1)
        if scale != 1.0:
            squared *= scale**2
        # One number tells whether all are finite; only where it is not are they looked at.
        if not math.isfinite(float(squared.sum())):
            finite = torch.isfinite(squared).all(1)
            self._silence(calls, cached, finite)
            squared = torch.where(finite[:, None], squared, torch.zeros_like(squared))
        factors = bound.factors(squared)
        if scale != 1.0:
            factors = factors * scale
        sums: Grads = {}
        for column, (layer, rule) in enumerate(self.rules.items()):
            weights = factors[:, column]
            if layer in cached:
                sums.update({p: torch.tensordot(weights, g, 1) for p, g in cached[layer].items()})
            else:
                sums.update(rule.weighted_sum(calls[layer][0], weights))
        self.tape.clear()
        return torch.cat([sums[p].reshape(-1) for p in self.parameters])

    def project(self, total: torch.Tensor, bound: Bound, records: int) -> None:
        """Scales a sum, in place, into the ball that so many bounded gradients can fill.

        Projection onto a ball moves no two sums further apart: the sensitivity stays.
        """
        norms = bound.layer_norms()
        if norms is None:
            _into_ball([total], records * bound.norm)
            return
        places, start = {}, 0
        for parameter in self.parameters:
            places[parameter] = total[start : start + parameter.numel()]
            start += parameter.numel()
        for layer, norm in zip(self.rules, norms, strict=True):
            own = [places[p] for p in layer.parameters(recurse=False) if p in places]
            _into_ball(own, records * norm)

    def per_sample(self, rows: int, *, mean: bool) -> torch.Tensor:
        """Every sample's gradient as a row; rows that are not finite are zero.

        The matrix is the same memory at every call, and holds until the next: fresh memory of that
        size costs as much as what is computed into it.
        """
        calls = self._calls(rows)
        flat = self._matrix(rows)
        places, start = {}, 0
        for parameter in self.parameters:
            size = parameter.numel()
            places[parameter] = flat[:, start : start + size].view(rows, *parameter.shape)
            start += size
        for layer, rule in self.rules.items():
            entries = calls.get(layer, [])
            if mean:
                for entry in entries:
                    assert entry.backprop is not None
                    entry.backprop = wide(entry.backprop) * rows
            if len(entries) == 1:
                rule.write_per_sample(entries[0], places)
                continue
            for parameter, grad in _together(layer, rule, entries, rows).items():
                places[parameter].copy_(grad)
        self.tape.clear()
        # A sum is finite only if every number is, and quick; it may overflow, so look again.
        for row in (~torch.isfinite(flat.sum(1))).nonzero().flatten().tolist():
            if not bool(torch.isfinite(flat[row]).all()):
                flat[row] = 0.0
        return flat

    def _matrix(self, rows: int) -> torch.Tensor:
        first = self.parameters[0]
        if self._buffer is None or len(self._buffer) < rows:
            self._buffer = torch.empty(rows, self.dim, device=first.device, dtype=wide(first).dtype)
        return self._buffer[:rows]

    def _calls(self, rows: int) -> dict[nn.Module, list[Entry]]:
        calls = self.tape.finished()
        for layer, entries in calls.items():
            for entry in entries:
                if len(entry.activation) != rows:
                    raise ValueError(
                        f"{type(layer).__name__} saw {len(entry.activation)} rows where the batch "
                        f"has {rows}: use the private loader, and keep the batch on the first axis"
                    )
        return calls

    @staticmethod
    def _silence(
        calls: dict[nn.Module, list[Entry]],
        cached: dict[nn.Module, Grads],
        finite: torch.Tensor,
    ) -> None:
        """Zeroes the samples whose gradient is not finite: zero times infinity is not zero."""
        for entries in calls.values():
            for entry in entries:
                assert entry.backprop is not None
                entry.backprop = _zeroed(entry.backprop, finite)
                if entry.gradients is not None:
                    entry.gradients = _zeroed(entry.gradients, finite)
                if entry.activation.is_floating_point():
                    entry.activation = _zeroed(entry.activation, finite)
        for grads in cached.values():
            for parameter, grad in grads.items():
                grads[parameter] = _zeroed(grad, finite)


def _together(layer: nn.Module, rule: LayerRule, entries: list[Entry], rows: int) -> Grads:
    """Gradients of a layer that was called several times, or not at all, in one pass."""
    total: Grads = {}
    for entry in entries:
        for parameter, grad in rule.per_sample(entry).items():
            total[parameter] = total[parameter] + grad if parameter in total else grad
    if not entries:
        for parameter in layer.parameters(recurse=False):
            if parameter.requires_grad:
                total[parameter] = parameter.detach().new_zeros((rows, *parameter.shape))
    return total


def _into_ball(parts: list[torch.Tensor], radius: float) -> None:
    if not math.isfinite(radius):
        return
    norm = torch.stack([part.norm() for part in parts]).norm()
    factor = (radius / norm.clamp(min=1e-30)).clamp(max=1.0)
    for part in parts:
        part.mul_(factor)


def _zeroed(values: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    mask = keep.reshape(-1, *(1,) * (values.dim() - 1))
    return torch.where(mask, values, torch.zeros_like(values))
