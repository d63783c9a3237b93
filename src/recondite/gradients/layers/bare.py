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
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from recondite.gradients.forwards import WatchedForward
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

_RECORDS, _SHARED = "records", "shared"
# They draw numbers, or look at values of which a copy has none.
_NEVER = ("dropout", "rrelu", "multi_head_attention", "bernoulli", "rand", "scaled_dot_product")
_PLAIN = ("data", "detach", "new_zeros", "new_ones", "new_empty", "zeros_like", "ones_like")
# Results compared with the module's own call, relative to their size.
_SAME = 1e-4


class _ElsewhereError(Exception):
    """The module needs the slow rule for this call."""


class BareRule(SlowRule):
    """A module's own parameters, apart from its parts, where each operation can tell records apart.

    Attributes:
      fell: Whether the slow way had to be taken.
    """

    cost = "one copy of the module's own parameters a record, where they are used"

    def __init__(self, own: list[nn.Parameter]) -> None:
        """For one module, with the parameters that it uses itself."""
        self._own, self.fell = own, False

    slow = False  # type: ignore[assignment]

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


@dataclass(eq=False)
class _Pass:
    """One call of the module: its records, and what its operations were found to be.

    Attributes:
      rows: Records.
      entry: Where copies' gradients go; None where the watch looks.
      seen: What was found by the watch, by place and name; None where it looks now.
      before: What was found in the batch, while the watch looks at one record.
      found: What this call finds.
    """

    rows: int
    entry: Expanded | None
    seen: dict[tuple[int, str], str] | None
    before: dict[tuple[int, str], str] | None = None
    found: dict[tuple[int, str], str] = field(default_factory=dict)
    probe: list[torch.Tensor] = field(default_factory=list)
    count: int = 0


class _Shared(torch.Tensor):
    """A parameter, or what was made of parameters alone, with a copy for every record."""

    copies_of_records = True
    _copies: torch.Tensor
    _call: _Pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves, spec = tree_flatten((args, kwargs))
        mine = [leaf for leaf in leaves if isinstance(leaf, _Shared)]
        with torch._C.DisableTorchFunctionSubclass():
            if not mine:
                return func(*args, **kwargs)
            return _done(mine[0]._call, func, leaves, spec)


def shared(values: torch.Tensor, copies: torch.Tensor, call: _Pass) -> _Shared:
    """Values with their copies; whoever reaches the values otherwise is noticed as a stray."""
    out = values.as_subclass(_Shared)
    out._copies, out._call = copies, call
    return out


def _done(call: _Pass, func: Any, leaves: list[Any], spec: Any) -> Any:
    """One operation that gets something shared."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":  # an attribute: a shape, a device, a transposed view
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or name.startswith("__i") or name in ("__set__", "__setitem__"):
        raise _ElsewhereError
    if any(word in name for word in _NEVER):
        raise _ElsewhereError
    plain = [_values(leaf) if isinstance(leaf, _Shared) else leaf for leaf in leaves]
    args, kwargs = tree_unflatten(plain, spec)
    others = [
        at
        for at, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, _Shared)
    ]
    key = (call.count, name)
    if others and call.rows > 1 and (call.seen or {}).get(key) == _RECORDS:
        call.count += 1
        return _with_records(call, key, func, leaves, spec, others, None)
    with torch.no_grad():
        made = func(*args, **kwargs)
    tensors = any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(made)[0])
    if not tensors or name in _PLAIN:
        return made  # a size, a flag, or what has no gradient
    if not isinstance(made, torch.Tensor):
        raise _ElsewhereError
    call.count += 1
    if others:
        return _with_records(call, key, func, leaves, spec, others, made)
    return _alone(call, key, func, leaves, spec, made)


def _values(leaf: Any) -> torch.Tensor:
    out: torch.Tensor = leaf.as_subclass(torch.Tensor)
    return out


def _with_records(
    call: _Pass,
    key: tuple[int, str],
    func: Any,
    leaves: list[Any],
    spec: Any,
    others: list[int],
    made: torch.Tensor | None,
) -> torch.Tensor:
    """An operation of shared things and records: done record by record."""
    for at in others:
        if not leaves[at].dim() or len(leaves[at]) != call.rows:
            raise _ElsewhereError
    if made is not None and (made.dim() == 0 or len(made) != call.rows):
        raise _ElsewhereError
    if call.seen is not None and call.seen.get(key) != _RECORDS and call.rows > 1:
        raise _ElsewhereError
    ours = [at for at, leaf in enumerate(leaves) if isinstance(leaf, _Shared)]

    def one(copies: list[torch.Tensor], rows: list[torch.Tensor]) -> torch.Tensor:
        mine = list(leaves)
        for at, copy in zip(ours, copies, strict=True):
            mine[at] = copy
        for at, row in zip(others, rows, strict=True):
            mine[at] = row[None]
        args, kwargs = tree_unflatten(mine, spec)
        out: torch.Tensor = func(*args, **kwargs)
        if out.dim() == 0 or len(out) != 1:
            raise _ElsewhereError
        return out[0]

    out = _over(one, [leaves[at]._copies for at in ours], [leaves[at] for at in others])
    if call.seen is None and made is not None:
        call.probe += [leaves[at].detach() for at in others]
        _compare(out, made)
    call.found[key] = _RECORDS
    return out


def _alone(
    call: _Pass, key: tuple[int, str], func: Any, leaves: list[Any], spec: Any, made: torch.Tensor
) -> torch.Tensor:
    """An operation of shared things only; it may repeat them for every record."""
    ours = [at for at, leaf in enumerate(leaves) if isinstance(leaf, _Shared)]
    numbers = [at for at, leaf in enumerate(leaves) if type(leaf) is int and leaf == call.rows]
    repeats = any(word in key[1] for word in ("expand", "repeat", "broadcast_to", "tile"))
    spread = repeats and bool(numbers) and made.dim() > 0 and len(made) == call.rows
    if call.seen is not None and call.rows > 1:
        known = call.seen.get(key)
        if known is None or (known == _RECORDS and not spread):
            raise _ElsewhereError
        spread = known == _RECORDS
    elif call.rows == 1 and call.before is not None:  # every 1 looks like the number of records
        spread = spread and call.before.get(key) == _RECORDS

    def one(copies: list[torch.Tensor], rows: list[torch.Tensor]) -> torch.Tensor:
        del rows
        mine = list(leaves)
        for at, copy in zip(ours, copies, strict=True):
            mine[at] = copy
        if spread:
            mine[numbers[0]] = 1
        args, kwargs = tree_unflatten(mine, spec)
        out: torch.Tensor = func(*args, **kwargs)
        if spread and len(out) != 1:
            raise _ElsewhereError
        return out[0] if spread else out

    out = _over(one, [leaves[at]._copies for at in ours], [])
    if call.seen is None:
        _compare(out, made if spread else made.expand(call.rows, *made.shape))
        if spread:
            call.probe.append(out.detach())
    call.found[key] = _RECORDS if spread else _SHARED
    if spread:
        return out
    args, kwargs = tree_unflatten(
        [_values(leaf) if isinstance(leaf, _Shared) else leaf for leaf in leaves], spec
    )
    return shared(func(*args, **kwargs), out, call)


def _over(one: Any, copies: list[torch.Tensor], rows: list[torch.Tensor]) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*batching rule.*")
        out: torch.Tensor = (
            torch.vmap(one)(copies, rows)
            if rows
            else torch.vmap(lambda each: one(each, []))(copies)
        )
    return out


def _compare(out: torch.Tensor, made: torch.Tensor) -> None:
    """Refuses, where the watch looks, records' results that are not those of the batch."""
    if out.shape != made.shape or out.dtype != made.dtype:
        raise _ElsewhereError
    a, b = out.detach().double(), made.detach().double()
    if not torch.allclose(a, b, rtol=_SAME, atol=_SAME * float(b.abs().max()), equal_nan=True):
        raise _ElsewhereError


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
        return self._run(args, kwargs, _Pass(rows, entry, seen))

    def _run(self, args: Any, kwargs: Any, call: _Pass) -> Any:
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
            if isinstance(leaf, _Shared):
                raise _ElsewhereError
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
            before, call = len(probe), _Pass(rows, None, None, first)
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
                raise _ElsewhereError

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
