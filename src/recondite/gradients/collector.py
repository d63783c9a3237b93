"""From a backward pass to the bounded sum of gradients, or to every sample's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from recondite.gradients.clipping import Bound, safe_factors
from recondite.gradients.layers import Grads, LayerRule, norms, note_slow, rules_for
from recondite.gradients.layers.base import quick_sizes
from recondite.gradients.layers.norms import measured, quick
from recondite.gradients.tape import Entry, Tape, wide
from recondite.gradients.watch import Watch

__all__ = ["Collector", "Products", "sizes_of"]


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of the bounded gradients of a pass, in units of one record's bound.

    Attributes:
      inner: With some vectors (samples, vectors).
      squared: With themselves (samples).
      cross: Of some samples with all (some, samples).
    """

    inner: torch.Tensor
    squared: torch.Tensor
    cross: torch.Tensor


class Collector:
    """Attaches to a model and reads what its backward passes leave on the tape.

    The model itself is not wrapped: its class, its ``state_dict`` and its parameters stay as they
    are. ``detach`` gives the layers back; what a forward pass stores is watched still.

    With ``recorded=False`` nothing is recorded, watched or refused, not even layers that mix
    records: for training that promises nothing.
    """

    def __init__(self, model: nn.Module, *, recorded: bool = True) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.rules: dict[nn.Module, LayerRule] = rules_for(model) if recorded else {}
        note_slow(model, self.rules)
        self.tape = Tape()
        for layer, rule in self.rules.items():
            rule.attach(self.tape, layer)
        self.dim = sum(p.numel() for p in self.parameters)
        self.attached = recorded
        self.recorded = [part for layer, rule in self.rules.items() for part in rule.members(layer)]
        self._watch = Watch(model, self.recorded, self.tape)
        self._stray: set[str] = set()
        self._hooks = self._watch_gradients(model) if recorded else []
        self._buffer: torch.Tensor | None = None

    @property
    def passes(self) -> list[list[torch.Tensor]]:
        """What each training pass was called with: the tensors with a row for every record."""
        return self._watch.inputs

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Trainable parameters of each layer, in the order of the norms' columns."""
        return sizes_of(self.rules)

    def detach(self) -> None:
        """Stops recording: what remains is the plain sum, which a backward pass leaves in ``grad``.

        What layers store is still watched, until :meth:`remove`.
        """
        self._watch.detach()
        for layer, rule in self.rules.items():
            rule.detach(layer)
        self._watch.storage_only()
        self._watch.attach()
        for hook in self._hooks:
            hook.remove()
        self.tape.clear()
        self._buffer = None
        self.attached = False

    def remove(self) -> None:
        """Leaves no trace on the model."""
        if self.attached:
            self.detach()
        self._watch.detach()

    def _watch_gradients(self, model: nn.Module) -> list[RemovableHandle]:
        """Notes every parameter to which autograd, which recorded layers keep away, finds a way."""

        def watched(name: str) -> Callable[[torch.Tensor | None], None]:
            def arrived(grad: torch.Tensor | None) -> None:  # None comes from recorded layers
                # In evaluation mode nothing is recorded, and nothing released.
                if grad is not None and any(layer.training for layer in self.recorded):
                    self._stray.add(name)

            return arrived

        return [
            parameter.register_hook(watched(name))  # type: ignore[no-untyped-call]
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]

    def check_unrecorded(self) -> None:
        """Refuses a backward pass that reached weights otherwise than through their layers.

        Raises:
          ValueError: Such a part of the loss (a weight used outside its layer, a penalty on
            weights) is not on the tape, and would be lost from the released gradient.
        """
        self._watch.reset()
        if not self._stray:
            self._watch.first_step.check(self.rules)
            return
        names, self._stray = ", ".join(sorted(self._stray)[:3]), set()
        raise ValueError(
            f"the loss reaches {names} otherwise than by a call of its layer in training mode: "
            "untie shared weights, and give penalties on weights to the optimizer (weight_decay)"
        )

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

    def bounded_sum(
        self,
        bound: Bound,
        rows: int,
        *,
        mean: bool,
        keep: bool,
        kept: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Σ_i factor_i·g_i over the samples of the last backward pass, as one vector.

        On a GPU nothing of this waits for the device.

        Args:
          bound: The rule that gives the factors.
          rows: Number of samples in the pass.
          mean: Whether the loss was averaged over them (its factor is undone).
          keep: False gives a zero sum: the pass was a placeholder for an empty batch.
          kept: Which samples count; the others, which fill up a batch, have factor exactly 0.
        """
        self.check_unrecorded()
        if not keep:
            self._calls(rows)
            self.tape.clear()
            return torch.zeros(self.dim, device=self.parameters[0].device)
        unseen = kept is not None or self.parameters[0].is_cuda
        with _no_autocast(self.parameters[0]), norms.unseen() if unseen else nullcontext():
            calls = self._one_call(rows)
            squared = self._squared_unseen(calls, kept) if unseen else self._squared(calls)
            factors = safe_factors(bound, squared, float(rows) if mean else 1.0)
            if kept is not None:
                factors = factors.masked_fill(~kept[:, None], 0.0)
            sums: Grads = {}
            with norms.full_precision():  # the norms are those of numbers that are summed as such
                for (layer, rule), column in zip(
                    self.rules.items(), factors.unbind(1), strict=True
                ):
                    sums.update(rule.weighted_sum(calls[layer][0], column))
        self.tape.clear()
        return torch.cat([sums[p].reshape(-1) for p in self.parameters])

    def products(
        self, bound: Bound, rows: int, vectors: torch.Tensor, some: torch.Tensor, *, mean: bool
    ) -> Products:
        """Inner products of bounded gradients, without forming them where their rules can.

        Everything is in units of one record's bound, as :func:`units_of` has them.

        Args:
          bound: The rule that gives the factors.
          rows: Number of samples in the last backward pass.
          vectors: (k, dim), in units.
          some: Places of the samples whose products with all others are wanted.
          mean: Whether the loss was averaged over the samples.
        """
        self.check_unrecorded()
        vectors = vectors.to(wide(self.parameters[0]).dtype)
        sizes = [p.numel() for p in self.parameters]
        pieces = dict(zip(self.parameters, torch.split(vectors, sizes, 1), strict=True))
        apart = bound.layer_norms() or (bound.norm if math.isfinite(bound.norm) else 1.0,) * len(
            self.rules
        )
        with _no_autocast(self.parameters[0]):
            calls = self._one_call(rows)
            squared = self._squared(calls)
            factors = safe_factors(bound, squared, float(rows) if mean else 1.0)
            factors = factors / torch.tensor(apart, device=factors.device, dtype=factors.dtype)
            inner = factors.new_zeros(rows, len(vectors))
            cross = factors.new_zeros(len(some), rows)
            for column, (layer, rule) in enumerate(self.rules.items()):
                entry, factor = calls[layer][0], factors[:, column]
                own = {p: pieces[p].reshape(len(vectors), *p.shape) for p in rule.parameters(layer)}
                inner += factor[:, None] * rule.inner(entry, own)
                if len(some):
                    cross += factor[some, None] * factor * rule.cross(entry, some)
        self.tape.clear()
        return Products(inner, (factors.square() * squared).sum(1), cross)

    def _one_call(self, rows: int) -> dict[nn.Module, list[Entry]]:
        """The calls of the last pass, every layer's as one."""
        calls = self._calls(rows)
        for layer, rule in self.rules.items():
            if len(calls.get(layer, [])) != 1:
                calls[layer] = [_together(layer, rule, calls.get(layer, []), rows)]
        return calls

    def _measured(self, calls: dict[nn.Module, list[Entry]]) -> torch.Tensor:
        columns = []
        for layer, rule in self.rules.items():
            entry = calls[layer][0]
            made = entry.gradients
            columns.append(rule.squared_norms(entry) if made is None else quick_sizes(made))
        return torch.stack(columns, 1)

    def _squared_unseen(
        self, calls: dict[nn.Module, list[Entry]], kept: torch.Tensor | None
    ) -> torch.Tensor:
        """As ``_squared``, without waiting to know: samples are zeroed whether or not there are."""
        squared = self._measured(calls)
        finite = torch.isfinite(squared).all(1)
        if kept is not None:
            finite &= kept
        self._silence(calls, finite)
        return squared.masked_fill(~finite[:, None], 0.0)

    def _squared(self, calls: dict[nn.Module, list[Entry]]) -> torch.Tensor:
        """Squared norms, rows are samples; a sample that has none is zeroed on the tape."""
        squared = self._measured(calls)
        # One number tells whether all are known; only where it is not are they looked at.
        if math.isfinite(float(squared.sum())):
            return squared
        for column, (layer, rule) in enumerate(self.rules.items()):
            unknown = (~torch.isfinite(squared[:, column])).nonzero().flatten()
            if len(unknown):
                squared[unknown, column] = rule.settle(calls[layer][0], unknown)
        finite = torch.isfinite(squared).all(1)
        if not bool(finite.all()):
            self._silence(calls, finite)
        return squared.masked_fill(~finite[:, None], 0.0)

    def project(self, total: torch.Tensor, bound: Bound, records: int) -> None:
        """Scales a sum, in place, into the ball that so many bounded gradients can fill.

        Projection onto a ball moves no two sums further apart: the sensitivity stays.
        """
        limits = bound.layer_norms()
        if limits is None:
            _into_ball([total], records * bound.norm)
            return
        places, start = {}, 0
        for parameter in self.parameters:
            places[parameter] = total[start : start + parameter.numel()]
            start += parameter.numel()
        for (layer, rule), norm in zip(self.rules.items(), limits, strict=True):
            own = [places[p] for p in rule.parameters(layer)]
            _into_ball(own, records * norm)

    def per_sample(self, rows: int, *, mean: bool) -> torch.Tensor:
        """Every sample's gradient as a row; rows that are not finite are zero.

        The matrix is the same memory at every call, and holds until the next: fresh memory of that
        size costs as much as what is computed into it.
        """
        self.check_unrecorded()
        with _no_autocast(self.parameters[0]):
            return self._rows(rows, mean=mean)

    def _rows(self, rows: int, *, mean: bool) -> torch.Tensor:
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
            together = _together(layer, rule, entries, rows).gradients
            for parameter, grad in (together or {}).items():
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
    def _silence(calls: dict[nn.Module, list[Entry]], finite: torch.Tensor) -> None:
        """Zeroes the samples whose gradient is not finite: zero times infinity is not zero."""
        for entries in calls.values():
            for entry in entries:
                assert entry.backprop is not None
                if entry.gradients is not None:
                    entry.gradients = {p: _zeroed(g, finite) for p, g in entry.gradients.items()}
                if entry.sums is not None:
                    entry.sums = entry.sums[0], _zeroed(entry.sums[1], finite)
                entry.backprop = _zeroed(entry.backprop, finite)
                if entry.activation.is_floating_point():
                    entry.activation = _zeroed(entry.activation, finite)


def sizes_of(rules: dict[nn.Module, LayerRule]) -> tuple[int, ...]:
    """Trainable parameters of each layer."""
    return tuple(sum(p.numel() for p in rule.parameters(layer)) for layer, rule in rules.items())


def _together(layer: nn.Module, rule: LayerRule, entries: list[Entry], rows: int) -> Entry:
    """A layer that was called several times, or not at all, in one pass, as one call."""
    total: Grads = {}
    for entry in entries:
        for parameter, grad in rule.per_sample(entry).items():
            total[parameter] = total[parameter] + grad if parameter in total else grad
    if not entries:
        for parameter in rule.parameters(layer):
            total[parameter] = wide(parameter.detach()).new_zeros((rows, *parameter.shape))
    nothing = next(iter(total.values())).new_zeros(rows)
    return Entry(layer, nothing, nothing, total)


def _into_ball(parts: list[torch.Tensor], radius: float) -> None:
    if not math.isfinite(radius):
        return
    squared = torch.stack([quick(part[None]) for part in parts]).sum()
    if not math.isfinite(float(squared)):  # zero, or too small or large to be told like this
        squared = torch.stack([measured(part[None]) for part in parts]).sum()
    factor = (radius / squared.sqrt()).clamp(max=1.0)
    for part in parts:
        part.mul_(factor)


def _zeroed(values: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    mask = keep.reshape(-1, *(1,) * (values.dim() - 1))
    return values.masked_fill(~mask, 0.0)


def _no_autocast(parameter: torch.Tensor) -> AbstractContextManager[object]:
    """Norms and sums stay in single precision where ``step`` is called within autocast."""
    kind = parameter.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()
