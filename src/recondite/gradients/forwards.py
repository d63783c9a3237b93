"""Forward functions that stand in for a module's own, and that no copy of the module carries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import nn

__all__ = ["RecordedForward", "WatchedForward", "given_back"]


class RecordedForward:
    """A layer's forward function while it is recorded; a copy of the layer gets its class's own.

    Without that a copied model would go on to use the weights of the one it was copied from, and
    a saved one would carry the tape.
    """

    def __init__(self, layer: nn.Module, forward: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._layer, self._forward = layer, forward

    def __call__(self, input: torch.Tensor) -> torch.Tensor:
        """The layer's output."""
        return self._forward(input)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        own = memo.get(id(self._layer))
        return self if own is None else MethodType(type(own).forward, own)

    def __reduce__(self) -> Any:
        # Reached through the layer, which a pickle rebuilds before what it holds: without a
        # forward function of its own it answers with that of its class.
        return getattr, (self._layer, "forward")


class WatchedForward(RecordedForward):
    """The forward function of a container, which takes any arguments; copied as a layer's is."""

    def __init__(
        self, layer: nn.Module, forward: Callable[..., Any], run: Callable[..., Any]
    ) -> None:
        super().__init__(layer, forward)
        functools.update_wrapper(self, run, updated=())  # tools read the arguments' names

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The container's output."""
        run: Callable[..., Any] = self._forward
        return run(*args, **kwargs)


def given_back(watched: list[tuple[nn.Module, Any]]) -> None:
    """Gives modules the forward functions they had, None for their class's own, and forgets them.

    Args:
      watched: Each with what it had; empty afterwards.
    """
    for module, held in watched:
        if held is None:
            module.__dict__.pop("forward", None)
        else:
            module.forward = held
    watched.clear()
