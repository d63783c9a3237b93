"""Whether a layer keeps what it sees in plain attributes: tensors, numbers, lists of them.

Buffers and parameters are watched by their versions. A plain attribute has none, and real layers
keep much in them that is no data: caches of positions, masks by length, counters. So it is tried:
the model runs on one record alone, on another, and on the first again, from the same state, without
a trace. What is left in an attribute may be anything, as long as it is the same for both records.
"""

from __future__ import annotations

import dataclasses
import types
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["data_kept"]

_OWN = frozenset(vars(nn.Module())) | {"forward", "_flat_weights", "_flat_weight_refs"}
_DEPTH, _MOST = 4, 4096  # how deep, and how many values, are looked at
_PLAIN = (bool, int, float, complex, str, bytes)
_CLOSED = (nn.Module, type, types.ModuleType, types.FunctionType, types.MethodType)


def data_kept(model: nn.Module, runs: tuple[Callable[[], object], ...]) -> str | None:
    """The name of an attribute that differs after two runs, and not after the first one again.

    Args:
      model: Its modules' attributes are looked at, and put back as they were after each run.
      runs: Two passes, each over a record alone, from the same random state.

    Returns:
      None where nothing depends on the record. What is kept elsewhere (in a global name, a hook's
      closure), or is only kept later on, is not seen.
    """
    before = [(part, dict(vars(part))) for part in model.modules()]
    kept = [_Contents(value) for _, held in before for value in _own(held).values()]
    found: list[dict[str, object]] = []
    for run in (*runs, runs[0]):
        try:
            run()
            found.append(dict(_all_leaves(model)))
        finally:
            for part, held in before:
                vars(part).clear()
                vars(part).update(held)
            for contents in kept:
                contents.restore()
    first, second, again = found
    for name in sorted({*first, *second}):
        if not _same(first.get(name), second.get(name)) and _same(first.get(name), again.get(name)):
            return name
    return None


class _Contents:
    """What a container, or a person's own object, holds; put back in place."""

    def __init__(self, value: Any, depth: int = 0) -> None:
        self._value, self._copy, self._inner = value, _held(value), []
        if self._copy is not None and depth < _DEPTH:
            items = self._copy.values() if isinstance(self._copy, dict) else self._copy
            self._inner = [_Contents(item, depth + 1) for item in list(items)[:_MOST]]

    def restore(self) -> None:
        value: Any = self._value
        if self._copy is None:
            return
        if _unchanged(_held(value), self._copy):
            pass  # others, such as a logger's thread, may be using it
        elif isinstance(value, list):
            value[:] = self._copy
        elif isinstance(value, dict | set):
            value.clear()
            value.update(self._copy)
        elif isinstance(value, deque):
            value.clear()
            value.extend(self._copy)
        elif not isinstance(value, tuple):
            vars(value).clear()
            vars(value).update(self._copy)
        for inner in self._inner:
            inner.restore()


def _unchanged(now: Any, then: Any) -> bool:
    if isinstance(then, set):
        return {id(item) for item in now} == {id(item) for item in then}
    if isinstance(then, dict):
        return list(now) == list(then) and all(now[key] is then[key] for key in then)
    return len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True))


def _held(value: Any) -> Any:
    """A shallow copy of what a value holds; None where it holds nothing, or is not looked into."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple | deque):
        return list(value)
    if isinstance(value, set):
        return set(value)
    closed = isinstance(value, (torch.Tensor, np.ndarray, *_PLAIN, *_CLOSED))
    if closed or (dataclasses.is_dataclass(value) and not hasattr(value, "__dict__")):
        return None
    inner = getattr(value, "__dict__", None)
    return dict(inner) if type(inner) is dict else None


def _own(held: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in held.items() if key not in _OWN}


def _all_leaves(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, part in model.named_modules():
        dot = f"{name}." if name else ""
        for key, value in _own(vars(part)).items():
            for path, leaf in islice(_leaves(value, 0), _MOST):
                yield dot + key + path, leaf


def _leaves(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Values as they are now: a tensor that is written to later is copied."""
    if isinstance(value, torch.Tensor):
        if not isinstance(value, nn.Parameter):
            yield "", value.detach().clone()
    elif isinstance(value, np.ndarray):
        yield "", value.copy()
    elif isinstance(value, _PLAIN):
        yield "", value
    elif depth < _DEPTH:
        inner = _held(value)
        if inner is None:
            return
        if isinstance(value, set):  # without an order, and tensors in it are told by identity
            inner = sorted((leaf for leaf in inner if isinstance(leaf, _PLAIN)), key=repr)
        if not isinstance(inner, dict):
            yield ".len()", len(inner)
        items = inner.items() if isinstance(inner, dict) else enumerate(inner)
        for key, part in items:
            for path, leaf in _leaves(part, depth + 1):
                yield f"[{key!r}]{path}", leaf


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
            return False
        return torch.equal(one, other) or torch.equal(one.nan_to_num(), other.nan_to_num())
    if isinstance(one, np.ndarray):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and bool(one.tobytes() == other.tobytes())
    return repr(one) == repr(other)
