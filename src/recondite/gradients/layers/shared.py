"""Operations of torch on what all records share: done for every record by itself.

A parameter, or what was made of parameters alone, goes through a module with a copy of it for every
record. Every operation that gets it is seen here. Together with records' tensors it is done record
by record (``torch.vmap``); with shared things only it makes another shared thing, or repeats one
for every record.

Guarantee: an operation counts as one of records only where it was one in a batch and on single
records (``seen``), by the length of its tensors' first axes; all else raises
:class:`ElsewhereError`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from recondite.gradients.layers.slow import Expanded

__all__ = ["ElsewhereError", "Pass", "is_shared", "shared"]

_RECORDS, _SHARED = "records", "shared"
# They draw numbers, or look at values of which a copy has none.
_NEVER = ("dropout", "rrelu", "multi_head_attention", "bernoulli", "rand", "scaled_dot_product")
_PLAIN = ("data", "detach", "new_zeros", "new_ones", "new_empty", "zeros_like", "ones_like")
# Results compared with the module's own call, relative to their size.
_SAME = 1e-4


class ElsewhereError(Exception):
    """The module needs the slow rule for this call."""


@dataclass(eq=False)
class Pass:
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
    _call: Pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves, spec = tree_flatten((args, kwargs))
        mine = [leaf for leaf in leaves if isinstance(leaf, _Shared)]
        with torch._C.DisableTorchFunctionSubclass():
            if not mine:
                return func(*args, **kwargs)
            return _done(mine[0]._call, func, leaves, spec)


def shared(values: torch.Tensor, copies: torch.Tensor, call: Pass) -> _Shared:
    """Values with their copies; whoever reaches the values otherwise is noticed as a stray."""
    out = values.as_subclass(_Shared)
    out._copies, out._call = copies, call
    return out


def _done(call: Pass, func: Any, leaves: list[Any], spec: Any) -> Any:
    """One operation that gets something shared."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":  # an attribute: a shape, a device, a transposed view
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or name.startswith("__i") or name in ("__set__", "__setitem__"):
        raise ElsewhereError
    if any(word in name for word in _NEVER):
        raise ElsewhereError
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
        raise ElsewhereError
    call.count += 1
    if others:
        return _with_records(call, key, func, leaves, spec, others, made)
    return _alone(call, key, func, leaves, spec, made)


def _values(leaf: Any) -> torch.Tensor:
    out: torch.Tensor = leaf.as_subclass(torch.Tensor)
    return out


def _with_records(
    call: Pass,
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
            raise ElsewhereError
    if made is not None and (made.dim() == 0 or len(made) != call.rows):
        raise ElsewhereError
    if call.seen is not None and call.seen.get(key) != _RECORDS and call.rows > 1:
        raise ElsewhereError
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
            raise ElsewhereError
        return out[0]

    out = _over(one, [leaves[at]._copies for at in ours], [leaves[at] for at in others])
    if call.seen is None and made is not None:
        call.probe += [leaves[at].detach() for at in others]
        _compare(out, made)
    call.found[key] = _RECORDS
    return out


def _alone(
    call: Pass, key: tuple[int, str], func: Any, leaves: list[Any], spec: Any, made: torch.Tensor
) -> torch.Tensor:
    """An operation of shared things only; it may repeat them for every record."""
    ours = [at for at, leaf in enumerate(leaves) if isinstance(leaf, _Shared)]
    numbers = [at for at, leaf in enumerate(leaves) if type(leaf) is int and leaf == call.rows]
    repeats = any(word in key[1] for word in ("expand", "repeat", "broadcast_to", "tile"))
    spread = repeats and bool(numbers) and made.dim() > 0 and len(made) == call.rows
    if call.seen is not None and call.rows > 1:
        known = call.seen.get(key)
        if known is None or (known == _RECORDS and not spread):
            raise ElsewhereError
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
            raise ElsewhereError
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
        raise ElsewhereError
    a, b = out.detach().double(), made.detach().double()
    if not torch.allclose(a, b, rtol=_SAME, atol=_SAME * float(b.abs().max()), equal_nan=True):
        raise ElsewhereError


def is_shared(value: object) -> bool:
    """Tells whether it is a shared thing."""
    return isinstance(value, _Shared)
