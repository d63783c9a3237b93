"""What one backward pass leaves behind: each layer's input and the gradient of its output.

Supported layers are run through an autograd function of ours that passes gradients on to the
layer's input but computes none for its weights. The product of the two records *is* the weight's
gradient, sample by sample, and the clipped sum can be formed from them directly: no per-sample
gradient and no second backward pass are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import nn

__all__ = ["Entry", "Tape", "record", "wide"]


def wide(values: torch.Tensor) -> torch.Tensor:
    """At least single precision: norms and sums of half-precision values are not safe in it."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


@dataclass(eq=False)
class Entry:
    """One call of one layer.

    Attributes:
      layer: The module.
      activation: Its input, batch first.
      backprop: The gradient of the loss with respect to its output; None before the backward pass.
      gradients: Per-sample weight gradients, where computing the norms made them anyway.
    """

    layer: nn.Module
    activation: torch.Tensor
    backprop: torch.Tensor | None = None
    gradients: torch.Tensor | None = None


class Tape:
    """Entries of the passes since the last step."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.recording = True

    def clear(self) -> None:
        """Forgets everything recorded."""
        self.entries = []

    def finished(self) -> dict[nn.Module, list[Entry]]:
        """Calls whose backward pass has happened, by layer."""
        out: dict[nn.Module, list[Entry]] = {}
        for entry in self.entries:
            if entry.backprop is not None:
                out.setdefault(entry.layer, []).append(entry)
        return out


class _Record(torch.autograd.Function):
    """Runs a layer; its backward records the output's gradient and returns the input's."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        entry: Entry,
        run: Callable[[torch.Tensor], torch.Tensor],
        pull: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        ctx.entry, ctx.pull = entry, pull
        return run(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        entry = ctx.entry
        entry.backprop = grad.detach()
        passed = ctx.pull(grad, entry.activation) if ctx.needs_input_grad[0] else None
        return passed, None, None, None, None


_run_recorded: Callable[..., torch.Tensor] = _Record.apply


def record(
    tape: Tape,
    layer: nn.Module,
    run: Callable[[torch.Tensor], torch.Tensor],
    pull: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A forward function for ``layer`` that writes to the tape while training.

    Args:
      tape: Where calls are written.
      layer: The layer.
      run: Its own forward function.
      pull: Maps the output's gradient and the input to the input's gradient.
    """
    weight = next(p for p in layer.parameters(recurse=False) if p.requires_grad)

    def forward(x: torch.Tensor) -> torch.Tensor:
        if not (tape.recording and layer.training and torch.is_grad_enabled()):
            return run(x)
        entry = Entry(layer, x.detach())
        tape.entries.append(entry)
        return _run_recorded(x, weight, entry, run, pull)

    return _Recorded(layer, forward)


class _Recorded:
    """A layer's forward function while it is recorded; a copy of the layer gets its class's own.

    Without that a copied model would go on to use the weights of the one it was copied from, and
    a saved one would carry the tape.
    """

    def __init__(self, layer: nn.Module, forward: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._layer, self._forward = layer, forward

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(x)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        own = memo.get(id(self._layer))
        return self if own is None else MethodType(type(own).forward, own)

    def __reduce__(self) -> Any:
        # Reached through the layer, which a pickle rebuilds before what it holds: without a
        # forward function of its own it answers with that of its class.
        return getattr, (self._layer, "forward")
