"""One look at the first step: two records' gradients against those of an ordinary pass.

The rules say what every layer's gradient is; this asks autograd for the whole model. What the
outermost module was called with, and the gradient of what it returned, are kept from the first
pass over two records or more. The first and the last record then run alone through the model, as
it would be without recording, and autograd's gradients must be those of the rules. Where the pass
drew random numbers (dropout) the whole batch runs again from the same state instead.

What this cannot see: rules that are right for these two records and wrong for others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from recondite.gradients.layers import Grads, LayerRule
from recondite.gradients.layers.slow import swapped
from recondite.gradients.tape import Tape, wide

__all__ = ["FirstStep", "cut", "unsaved"]

# Differences that rounding explains, relative to a parameter's gradient, and to all of it.
_EACH, _ALL = (1e-2, 1e-1), (1e-4, 3e-2)


def unsaved() -> AbstractContextManager[None]:
    """Passes within it are nobody's who counts what others save for the backward pass.

    Activation checkpointing counts: it runs parts of the model again during the backward pass,
    where a part is the outermost call and would be looked at like a whole model.
    """
    hooks: AbstractContextManager[None] = torch.autograd.graph.saved_tensors_hooks(_same, _same)
    return hooks


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


@dataclass(eq=False)
class _Call:
    """One call of an outermost module, with what is needed to make it again."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    rows: int
    before: list[torch.Tensor]
    half: torch.dtype | None
    random: bool = False
    grads: dict[int, torch.Tensor] = field(default_factory=dict)

    def took(self, place: int) -> Callable[[torch.Tensor], None]:
        """A hook that keeps the gradient of one result."""

        def hook(grad: torch.Tensor) -> None:
            self.grads[place] = grad.detach()

        return hook

    @property
    def averaged(self) -> bool:
        """Whether it returned something of the whole batch, such as its mean loss."""
        return any(not g.dim() or len(g) != self.rows for g in self.grads.values())

    def slopes(self, row: int) -> list[torch.Tensor]:
        """The gradients of what it returned, of one record."""
        if not self.random:
            return [cut(grad, row, self.rows) for grad in self.grads.values()]
        kept = [torch.zeros_like(grad) for grad in self.grads.values()]
        for zeros, grad in zip(kept, self.grads.values(), strict=True):
            zeros[row] = grad[row]
        return kept


class FirstStep:
    """Watches until one step was checked; then it costs nothing."""

    def __init__(self, names: dict[nn.Parameter, str], tape: Tape) -> None:
        self.done = False
        self._names, self._tape = names, tape
        self._kind = next((p.device.type for p in names), "cpu")
        self._devices: list[int] = sorted({p.device.index or 0 for p in names if p.is_cuda})

    def enter(self, module: nn.Module, args: Any, kwargs: Any, rows: int) -> None:
        """An outermost call of the training begins."""
        if rows < 2 or self.done:
            return
        args, kwargs = tree_map(_apart, (args, kwargs))
        autocast = torch.is_autocast_enabled(self._kind)
        half = torch.get_autocast_dtype(self._kind) if autocast else None
        self._tape.calls.append(_Call(module, args, kwargs, rows, self._state(), half))

    def leave(self, module: nn.Module, out: Any) -> Any:
        """It ended: what it returned will have gradients. Returns the same."""
        call = self._tape.calls[-1] if self._tape.calls else None
        if self.done or call is None or call.module is not module:
            return out
        after = self._state()
        call.random = any(not torch.equal(a, b) for a, b in zip(call.before, after, strict=True))
        leaves, spec = tree_flatten(out)
        places = [
            place
            for place, leaf in enumerate(leaves)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]
        for place in places:
            if len(places) > 1:
                # One result may be made of another: what reaches that one through it is no
                # gradient of the loss by that one itself.
                leaves[place] = leaves[place].view_as(leaves[place])
            leaves[place].register_hook(call.took(place))
        return tree_unflatten(leaves, spec) if len(places) > 1 else out

    def check(self, rules: dict[nn.Module, LayerRule]) -> None:
        """Compares, at the first step that has something to compare.

        Raises:
          ValueError: The gradients of a record differ: one line that names the parameter.
        """
        calls = [call for call in self._tape.calls if call.grads]
        if self.done or not calls:
            return
        rows = calls[0].rows
        seen = [call.rows for call in calls] + [len(e.activation) for e in self._tape.entries]
        if any(each != rows for each in seen):
            return  # rows that are not those of the batch are refused elsewhere
        reason = self._cannot(calls, rules)
        for row in (0, rows - 1) if reason is None else ():
            found = self._by_rules(rules, row)
            try:
                expected = self._by_autograd(calls, row, list(found))
            except Exception as error:  # a person's own model may refuse a batch of one as it likes
                told = str(error).splitlines()[0] if str(error) else type(error).__name__
                reason = f"the model does not run again on one record ({told})"
                break
            self._compare(found, expected, calls)
        if reason is not None:
            warnings.warn(f"the first step's gradients were not checked: {reason}", stacklevel=6)
        self.done = True

    @staticmethod
    def _cannot(calls: list[_Call], rules: dict[nn.Module, LayerRule]) -> str | None:
        """Why there is nothing to compare with, if so."""
        random = any(call.random for call in calls)
        if random and any(rule.redraws for rule in rules.values()):
            return "layers with the slow rule, or stacked recurrent ones, draw their own dropout"
        if random and any(call.averaged for call in calls):
            return "the model draws random numbers and returns the loss of the whole batch"
        if any(hasattr(call.module, "_orig_mod") for call in calls):
            return "the model is compiled"
        return None

    def _state(self) -> list[torch.Tensor]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in self._devices)]

    def _by_rules(self, rules: dict[nn.Module, LayerRule], row: int) -> Grads:
        total: Grads = {}
        for layer, entries in self._tape.finished().items():
            for entry in entries:
                one = entry.rows(torch.tensor([row], device=entry.activation.device))
                made = one.gradients
                for parameter, grad in (
                    rules[layer].per_sample(one) if made is None else made
                ).items():
                    known = total.get(parameter)
                    total[parameter] = grad[0] if known is None else known + grad[0]
        return total

    def _by_autograd(self, calls: list[_Call], row: int, parameters: list[nn.Parameter]) -> Grads:
        total = {p: torch.zeros_like(wide(p.detach())) for p in parameters}
        for call in calls:
            again = torch.autocast(self._kind, call.half, enabled=call.half is not None)
            with self._aside(call), torch.enable_grad():
                args, kwargs = call.args, call.kwargs
                if not call.random:
                    args, kwargs = cut((args, kwargs), row, call.rows)
                # Weights without anybody's hooks on them.
                names = {p: name for name, p in call.module.named_parameters() if p in total}
                bare = {p: p.detach().requires_grad_() for p in names}
                with again, swapped(call.module, {names[p]: bare[p] for p in names}):
                    leaves = tree_flatten(call.module(*args, **kwargs))[0]
                results = [leaves[place] for place in call.grads]
                found = torch.autograd.grad(
                    results, list(bare.values()), call.slopes(row), allow_unused=True
                )
            for parameter, value in zip(names, found, strict=True):
                if value is not None:
                    total[parameter] += wide(value)
        return total

    @contextmanager
    def _aside(self, call: _Call) -> Iterator[None]:
        """Without a trace on the tape or in the generators, from the call's own random state."""
        recording, self._tape.recording = self._tape.recording, False
        try:
            with torch.random.fork_rng(self._devices), unsaved():
                torch.set_rng_state(call.before[0])
                for device, state in zip(self._devices, call.before[1:], strict=True):
                    torch.cuda.set_rng_state(state, device)
                yield
        finally:
            self._tape.recording = recording

    def _compare(self, found: Grads, expected: Grads, calls: list[_Call]) -> None:
        half = any(call.half is not None for call in calls) or any(
            p.element_size() < 4 for p in found
        )
        whole = _inner(expected, expected).sqrt()
        if not bool(torch.isfinite(whole) & torch.isfinite(_inner(found, found))):
            return  # such a record is zeroed
        factor = 1.0
        if any(call.averaged for call in calls):  # the mean over one record is not that over all
            factor = float(_inner(found, expected) / _inner(found, found).clamp(min=1e-300))
        for parameter, value in found.items():
            known = expected[parameter].double()
            gap = (factor * value.double() - known).norm()
            limit = torch.maximum(_EACH[half] * known.norm(), _ALL[half] * whole)
            if factor <= 0 < float(whole) or not bool(gap <= limit):
                name = self._names.get(parameter, "a parameter")
                raise ValueError(
                    f"the per-sample gradient of {name} is not that of its record's own loss (off "
                    f"by {float(gap):.2g} of {float(known.norm()):.2g}): keep records apart, and "
                    "call every layer by itself"
                )


def cut(values: Any, row: int, rows: int) -> Any:
    """The same arguments with one record: every tensor with as many rows as the batch is cut."""
    if isinstance(values, torch.Tensor):
        return values[row : row + 1] if values.dim() and len(values) == rows else values
    if isinstance(values, dict):
        return {key: cut(value, row, rows) for key, value in values.items()}
    if isinstance(values, list | tuple):
        parts = [cut(value, row, rows) for value in values]
        return type(values)(*parts) if hasattr(values, "_fields") else type(values)(parts)
    return values


def _apart(value: Any) -> Any:
    """Without the graph that led to it, through which weights would be reached again."""
    return value.detach() if isinstance(value, torch.Tensor) else value


def _inner(one: Grads, other: Grads) -> torch.Tensor:
    return torch.stack([(one[p].double() * other[p].double()).sum() for p in one]).sum()
