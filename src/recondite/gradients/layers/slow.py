"""Any other module: every record runs through weights of its own, which are all the same.

The module is called on one record at a time, by ``torch.vmap`` where its operations allow that and
in a loop where not. Each record has its own view of the weights, so autograd itself sorts
their gradients by record: nothing is replayed, and dropout needs no care.

Cost: memory for one gradient of the module a record, and products that share no weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._pytree import tree_flatten, tree_unflatten

from recondite.gradients.forwards import WatchedForward
from recondite.gradients.layers.base import FormedRule, Grads
from recondite.gradients.tape import Entry, Tape, check_unshared, wide

__all__ = ["Expanded", "Formed", "SlowCalls", "SlowRule", "expand", "swapped"]


@dataclass(eq=False)
class Expanded(Entry):
    """A call whose gradients come record by record from autograd.

    ``backprop`` is a factor of every record's gradient, one until somebody scales it.
    """

    found: dict[nn.Parameter, torch.Tensor] = field(default_factory=dict)

    def rows(self, which: torch.Tensor) -> Entry:
        """The same call, as if it had been made with these records only."""
        assert self.backprop is not None
        found = {p: g[which] for p, g in self.found.items()}
        return Expanded(self.layer, self.activation[which], self.backprop[which], found=found)

    def arrived(self, parameter: nn.Parameter, grad: torch.Tensor) -> None:
        """Takes one parameter's gradients, a row a record, with the checks of every entry."""
        again = parameter in self.found
        self.backprop = None if not again else self.backprop
        self.keep(torch.ones(len(grad), device=grad.device, dtype=wide(grad).dtype))
        self.found[parameter] = grad.detach()


@dataclass(eq=False)
class Formed(Entry):
    """A layer within a module that ran record by record: its gradients are there already."""

    own: tuple[nn.Parameter, ...] = ()

    def arrived(self, parameter: nn.Parameter, grad: torch.Tensor) -> None:
        """Takes one parameter's gradients; those of others are zero until they come."""
        if self.gradients is None:
            self.keep(torch.ones(len(grad), device=grad.device, dtype=wide(grad).dtype))
            self.gradients = {}
        elif parameter in self.gradients:
            self.keep(grad)  # a second pass, which it refuses
        self.gradients[parameter] = wide(grad.detach())

    def whole(self) -> Entry:
        """With zeros for the parameters that the call did not use."""
        assert self.gradients is not None
        for parameter in self.own:
            if parameter not in self.gradients:
                zero = wide(parameter.detach()).new_zeros(())
                self.gradients[parameter] = zero.expand(len(self.activation), *parameter.shape)
        return self


class _Expand(torch.autograd.Function):
    """A parameter once for every record; its gradient goes to the tape and no further."""

    @staticmethod
    def forward(ctx: Any, parameter: Any, entry: Expanded, rows: int) -> torch.Tensor:
        ctx.entry, ctx.parameter = entry, parameter
        out: torch.Tensor = parameter.detach().expand(rows, *parameter.shape)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, None, None]:
        ctx.entry.arrived(ctx.parameter, grad)
        return None, None, None


expand: Callable[..., torch.Tensor] = _Expand.apply


class SlowRule(FormedRule):
    """A module with all its parts, through per-record weights.

    Guarantee: gradients are those of each record's own call. A module that mixes records, or keeps
    something of them, is none that this makes private: those are refused before.
    """

    slow = redraws = True
    cost = "one gradient a record in memory, products without shared weights"

    def parameters(self, layer: nn.Module) -> list[nn.Parameter]:
        """Of the module and of everything in it."""
        return [p for p in layer.parameters() if p.requires_grad]

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the module record by record while training."""
        plain = layer.forward
        layer.forward = WatchedForward(layer, SlowCalls(tape, layer, plain, self), plain)

    def per_sample(self, entry: Entry) -> Grads:
        """What autograd found; zeros for parameters that the call did not use."""
        assert isinstance(entry, Expanded)
        assert entry.backprop is not None
        factor, out = entry.backprop, {}
        for p in self.parameters(entry.layer):
            if p in entry.found:
                grad = wide(entry.found[p])
                out[p] = grad * factor.to(grad.dtype).reshape(-1, *(1,) * p.dim())
            else:
                out[p] = wide(p.detach()).new_zeros((len(factor), *p.shape))
        return out


class SlowCalls:
    """The forward function of one module: what it was called with, and which axes are records."""

    def __init__(self, tape: Tape, layer: nn.Module, plain: Any, rule: SlowRule) -> None:
        self.tape, self.layer, self.plain, self.rule = tape, layer, plain, rule
        self.names: dict[str, nn.Parameter] = {
            name: p for name, p in layer.named_parameters() if p.requires_grad
        }
        self.vectorised = not isinstance(layer, nn.RNNBase)
        self.taken: dict[str, tuple[int | None, ...]] = {}
        self.given: dict[str, tuple[int | None, ...]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's results, for all records or record by record."""
        leaves, spec = tree_flatten((args, kwargs))
        if any(isinstance(value, nn.utils.rnn.PackedSequence) for value in (*args, *leaves)):
            raise ValueError(
                f"{type(self.layer).__name__}: a PackedSequence has no batch axis: pad the "
                "sequences instead"
            )
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            check_unshared(tensor)
        rows = self._rows(tensors)
        axes = self._axes(leaves, spec, rows)
        if self.tape.probe is not None:
            self._probe(leaves, axes, rows)
        training = self.layer.training and torch.is_grad_enabled()
        if not (self.tape.recording and training):
            return self.plain(*args, **kwargs)
        return self._recorded(args, kwargs, leaves, spec, axes, rows)

    def _entry_of(self, parameter: nn.Parameter, made: dict[nn.Module, Any], rows: int) -> Any:
        """Where a parameter's gradients go; new ones are put on the tape."""
        if self.layer not in made:
            made[self.layer] = Expanded(self.layer, torch.zeros(rows, device=parameter.device))
            self.tape.entries.append(made[self.layer])
        return made[self.layer]

    def _recorded(
        self,
        args: Any,
        kwargs: Any,
        leaves: list[Any],
        spec: Any,
        axes: tuple[int | None, ...],
        rows: int,
    ) -> Any:
        made: dict[nn.Module, Any] = {}
        own = {
            name: expand(p, self._entry_of(p, made, rows), rows) for name, p in self._once().items()
        }
        if rows == 1:
            with swapped(self.layer, {name: each[0] for name, each in own.items()}):
                return self.plain(*args, **kwargs)
        return self._record_by_record(leaves, spec, axes, own, rows)

    def _once(self) -> dict[str, nn.Parameter]:
        """Every parameter under one of its names, as the module has them now."""
        return {name: p for name, p in self.layer.named_parameters() if p.requires_grad}

    def _rows(self, tensors: list[torch.Tensor]) -> int:
        if self.tape.rows is not None:
            return self.tape.rows
        if isinstance(self.layer, nn.RNNBase) and tensors and tensors[0].dim() == 3:
            return tensors[0].shape[0 if self.layer.batch_first else 1]
        return next((len(t) for t in tensors if t.dim()), 1)

    def _axes(self, leaves: list[Any], spec: Any, rows: int) -> tuple[int | None, ...]:
        """The axis of the records in every argument; None for what all records share."""
        key = str(spec)
        if key in self.taken:
            return self.taken[key]
        found: list[int | None] = []
        recurrent = isinstance(self.layer, nn.RNNBase)
        for place, leaf in enumerate(leaves):
            # Recurrent layers have records second, in states always and in sequences by default.
            second = recurrent and (place > 0 or not self.layer.batch_first)
            axis = 1 if second else 0
            tensor = isinstance(leaf, torch.Tensor) and leaf.dim() > axis
            found.append(axis if tensor and leaf.shape[axis] == rows else None)
        if rows > 1:
            # Kept: at a later batch another argument may happen to be as long as the batch.
            self.taken[key] = tuple(found)
        return tuple(found)

    def _probe(self, leaves: list[Any], axes: tuple[int | None, ...], rows: int) -> None:
        """Shows every argument to the watch, records first."""
        assert self.tape.probe is not None
        for leaf, axis in zip(leaves, axes, strict=True):
            if isinstance(leaf, torch.Tensor):
                value = leaf.detach()
                if axis is not None and value.shape[axis] == rows:
                    value = value.movedim(axis, 0)
                elif not (value.dim() and len(value) == 1):
                    value = value[None]
                self.tape.probe.append((self.layer, value.expand(rows, *value.shape[1:])))

    def _record_by_record(
        self,
        leaves: list[Any],
        spec: Any,
        axes: tuple[int | None, ...],
        own: dict[str, torch.Tensor],
        rows: int,
    ) -> Any:
        batched = [place for place, axis in enumerate(axes) if axis is not None]
        for place in batched:
            if leaves[place].shape[axes[place]] != rows:
                raise ValueError(
                    f"{self._place()} saw {leaves[place].shape[axes[place]]} rows where the batch "
                    f"has {rows}: keep the batch on the first axis of its arguments"
                )
        inputs = [leaves[place] for place in batched]
        dims = [axis for axis in axes if axis is not None]
        shape: list[Any] = []

        def one(
            weights: list[torch.Tensor], values: list[torch.Tensor]
        ) -> tuple[torch.Tensor, ...]:
            mine = list(leaves)
            for place, axis, value in zip(batched, dims, values, strict=True):
                mine[place] = value.unsqueeze(axis)
            args, kwargs = tree_unflatten(mine, spec)
            named = dict(zip(own, weights, strict=True))
            with swapped(self.layer, named):
                out, out_spec = tree_flatten(self.plain(*args, **kwargs))
            shape[:] = [out, out_spec]
            return tuple(leaf for leaf in out if isinstance(leaf, torch.Tensor))

        weights = list(own.values())
        made: list[torch.Tensor] | None = None
        if self.vectorised:
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".*batching rule.*")
                    over = torch.vmap(one, in_dims=(0, dims or 0), randomness="different")
                    made = (
                        list(over(weights, inputs))
                        if dims
                        else list(torch.vmap(lambda w: one(w, []), randomness="different")(weights))
                    )
            except Exception:
                # Operations that have no rule there, or that look at values: one by one, then. An
                # error of the module itself comes again.
                self.vectorised = False
        if made is None:
            apart = [v.unbind(d) for v, d in zip(inputs, dims, strict=True)]
            alone = [weight.unbind(0) for weight in weights]
            each = [
                one([weight[row] for weight in alone], [value[row] for value in apart])
                for row in range(rows)
            ]
            made = [torch.stack(parts) for parts in zip(*each, strict=True)]
        out, out_spec = shape
        places = [at for at, leaf in enumerate(out) if isinstance(leaf, torch.Tensor)]
        given = self._given(made, leaves, spec, out_spec, rows)
        for at, value, axis in zip(places, made, given, strict=True):
            out[at] = value[0] if axis is None else value.squeeze(axis + 1).movedim(0, axis)
        return tree_unflatten(out, out_spec)

    def _given(
        self, made: list[torch.Tensor], leaves: list[Any], spec: Any, out_spec: Any, rows: int
    ) -> tuple[int | None, ...]:
        """The axis of the records in every result, as the module itself puts it: asked once."""
        key = f"{spec} {out_spec}"
        if key in self.given:
            return self.given[key]
        args, kwargs = tree_unflatten(leaves, spec)
        weight = next(iter(self.names.values()))
        with torch.no_grad(), torch.random.fork_rng([weight.device] if weight.is_cuda else []):
            together = [
                leaf
                for leaf in tree_flatten(self.plain(*args, **kwargs))[0]
                if isinstance(leaf, torch.Tensor)
            ]
        found: list[int | None] = []
        for whole, value in zip(together, made, strict=True):
            alone = value.shape[1:]
            differ = [
                axis for axis, (a, b) in enumerate(zip(whole.shape, alone, strict=False)) if a != b
            ]
            fits = len(whole.shape) == len(alone)
            if (
                fits
                and len(differ) == 1
                and alone[differ[0]] == 1
                and whole.shape[differ[0]] == rows
            ):
                found.append(differ[0])
            elif fits and not differ and (not value.requires_grad):
                found.append(None)  # a constant
            elif fits and not differ and alone[:1] == (1,):
                found.append(0)  # the same for all records, and theirs to broadcast
            else:
                raise ValueError(
                    f"{self._place()} returns {tuple(whole.shape)} for the batch and "
                    f"{tuple(alone)} for one record: no axis of it holds the records, so it has no "
                    "per-sample gradient; freeze it or return one row a record"
                )
        self.given[key] = tuple(found)
        return self.given[key]

    def _place(self) -> str:
        return f"layer {type(self.layer).__name__}"


@contextmanager
def swapped(layer: nn.Module, weights: dict[str, torch.Tensor]) -> Iterator[None]:
    """The module with other weights for a while, wherever it holds them."""
    try:
        with _reparametrize_module(layer, weights, tie_weights=True):
            yield
    finally:
        for part in layer.modules():
            if isinstance(part, nn.RNNBase):  # it holds them twice
                part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
