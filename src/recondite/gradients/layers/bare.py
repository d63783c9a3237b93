"""Parameters that a module uses itself: positions, class tokens, scales, maps of one's own.

The module's parts keep their own rules. Only where an operation of torch gets such a parameter, or
what was made of parameters alone, does each record get a copy of it: the operation is done for
every record by itself (``torch.vmap``), and autograd sorts the copies' gradients by record.

Which operations are those of records, and which make something that all records share, is seen
where the watch runs the model on a batch and on single records (:mod:`recondite.gradients.watch`):
an operation counts as one of records only if its tensors' first axis follows the number of records
there, and if the records' results together are what the module's own call gives. Where anything
else happens (a part gets something that is shared, a parameter is returned or changed, an operation
comes that was not seen there) the module with all its parts runs record by record, as with the slow
rule; what is found for the parts' weights goes on their accounts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

from recondite.gradients.forwards import WatchedForward
from recondite.gradients.layers.shared import ElsewhereError, Pass, is_shared, shared
from recondite.gradients.layers.slow import (
    Expanded,
    Formed,
    SlowCalls,
    SlowRule,
    expand,
    swapped,
)
from recondite.gradients.tape import Tape, check_unshared

__all__ = ["BareRule"]


class BareRule(SlowRule):
    """A module's own parameters, apart from its parts, where each operation can tell records apart.

    Attributes:
      fell: Whether the slow way had to be taken.
    """

    cost = "one copy of the module's own parameters a record, where they are used"

    def __init__(self, own: list[nn.Parameter]) -> None:
        """For one module, with the parameters that it uses itself."""
        self._own, self.fell = own, False

    slow = False

    @property
    def redraws(self) -> bool:  # type: ignore[override]
        """Where it runs record by record."""
        return self.fell

    def parameters(self, layer: nn.Module) -> list[nn.Parameter]:
        """Those that the module uses itself."""
        return self._own

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the module through the tape while training."""
        plain = layer.forward
        layer.forward = WatchedForward(layer, _BareCalls(tape, layer, plain, self), plain)


class OwnParameters(nn.Module):
    """Stands for a module's own operations where the watch compares what layers get."""

    def __init__(self, of: nn.Module) -> None:
        super().__init__()
        self.of = (of,)  # in a tuple: no part of it


class _BareCalls(SlowCalls):
    """The forward function of one module."""

    rule: BareRule

    def __init__(self, tape: Tape, layer: nn.Module, plain: Any, rule: BareRule) -> None:
        super().__init__(tape, layer, plain, rule)
        self.own = {name: p for name, p in self.names.items() if any(p is o for o in rule._own)}
        self.seen: list[tuple[int, dict[tuple[int, str], str]]] = []
        self.slow = False
        self.operations = OwnParameters(layer)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tape = self.tape
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            check_unshared(tensor)
        rows = self._rows(tensors)
        training = self.layer.training and torch.is_grad_enabled()
        if tape.probe is not None:
            return self._look(args, kwargs, rows)
        if not (tape.recording and training):
            return self.plain(*args, **kwargs)
        agreed = self._agreed()
        if not self.slow and (rows == 1 or agreed):
            before = len(tape.entries)
            try:
                return self._fast(args, kwargs, rows, agreed)
            except Exception:
                # What is the module's own comes again.
                del tape.entries[before:]
        return self._slowly(args, kwargs, rows)

    def _fast(self, args: Any, kwargs: Any, rows: int, seen: dict[tuple[int, str], str]) -> Any:
        device = next(iter(self.own.values())).device
        entry = Expanded(self.layer, torch.zeros(rows, device=device))
        self.tape.entries.append(entry)
        return self._run(args, kwargs, Pass(rows, entry, seen))

    def _run(self, args: Any, kwargs: Any, call: Pass) -> Any:
        own: dict[str, torch.Tensor] = {}
        for name, p in self.own.items():
            copies = (
                p.detach().expand(call.rows, *p.shape)
                if call.entry is None
                else expand(p, call.entry, call.rows)
            )
            own[name] = shared(p, copies, call)
        with swapped(self.layer, own):
            out = self.plain(*args, **kwargs)
        for leaf in tree_flatten(out)[0]:
            if is_shared(leaf):
                raise ElsewhereError
            if isinstance(leaf, torch.Tensor) and leaf.dim() and len(leaf) == call.rows:
                call.probe.append(leaf.detach())
        return out

    def _look(self, args: Any, kwargs: Any, rows: int) -> Any:
        """What the watch sees: the operations of this call, and what they get."""
        probe = self.tape.probe
        assert probe is not None
        leaves, spec = tree_flatten((args, kwargs))
        self._probe(leaves, self._axes(leaves, spec, rows), rows)
        if not self.slow:
            first = self.seen[0][1] if self.seen and rows == 1 else None
            before, call = len(probe), Pass(rows, None, None, first)
            try:
                out = self._run(args, kwargs, call)
                if rows == 1:
                    self._check_ways(out)
            except Exception:
                del probe[before:]
                self._fall()
            else:
                self.seen.append((rows, call.found))
                if call.found != self.seen[0][1]:
                    self._fall()  # a length that happened to be the batch's, or another way
                probe += [(self.operations, value) for value in call.probe]
                return out
        return self.plain(*args, **kwargs)

    def _check_ways(self, out: Any) -> None:
        """Refuses results that hang on the parameters otherwise than by copies of them."""
        made = [leaf for leaf in tree_flatten(out)[0] if isinstance(leaf, torch.Tensor)]
        made = [leaf.sum() for leaf in made if leaf.requires_grad]
        if made:
            ways = torch.autograd.grad(
                made, list(self.own.values()), retain_graph=True, allow_unused=True
            )
            if any(way is not None for way in ways):
                raise ElsewhereError

    def _agreed(self) -> dict[tuple[int, str], str]:
        """What batches and single records agree on: a length that happens to fit is none of them.

        Empty until both were seen.
        """
        sizes = {rows for rows, _ in self.seen}
        if len(sizes) < 2:
            return {}
        return self.seen[0][1]

    def _fall(self) -> None:
        self.slow = self.rule.fell = True
        self.tape.dropped.add(self.operations)
        size = sum(p.numel() for p in self.names.values())
        warnings.warn(
            f"{type(self.layer).__name__} uses its own parameters in a way for which there is no "
            f"fast per-sample rule: it runs record by record, {size:,} numbers each",
            stacklevel=2,
        )

    def _slowly(self, args: Any, kwargs: Any, rows: int) -> Any:
        """Record by record with all its parts, whose gradients go on their own accounts."""
        self.rule.fell = True
        leaves, spec = tree_flatten((args, kwargs))
        axes = self._axes(leaves, spec, rows)
        with _unrecorded(self.tape):
            return self._recorded(args, kwargs, leaves, spec, axes, rows)

    def _entry_of(self, parameter: nn.Parameter, made: dict[nn.Module, Any], rows: int) -> Any:
        layer = self.tape.answering[parameter]
        if layer not in made:
            own = tuple(p for p, answers in self.tape.answering.items() if answers is layer)
            empty = torch.zeros(rows, device=parameter.device)
            made[layer] = Formed(layer, empty, own=own)
            self.tape.entries.append(made[layer])
        return made[layer]


@contextmanager
def _unrecorded(tape: Tape) -> Iterator[None]:
    before, tape.recording = tape.recording, False
    try:
        yield
    finally:
        tape.recording = before
