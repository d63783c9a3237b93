"""What one backward pass leaves behind: each layer's input and the gradient of its output.

Supported layers are run through an autograd function of ours that passes gradients on to the
layer's input but computes none for its weights. The product of the two records *is* the weight's
gradient, sample by sample, and the clipped sum can be formed from them directly: no per-sample
gradient and no second backward pass are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from recondite.gradients.forwards import RecordedForward

__all__ = ["Entry", "Tape", "record", "record_detached", "wide"]


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
      gradients: Per-sample gradients by parameter, where computing the norms made them anyway.
      apart: Samples whose gradients must be formed one by one, with their squared norms: products
        over the batch would round them by more than they are large.
      sums: Of an embedding: each record's tokens, and the sum of the output's gradients over each.
    """

    layer: nn.Module
    activation: torch.Tensor
    backprop: torch.Tensor | None = None
    gradients: dict[nn.Parameter, torch.Tensor] | None = None
    apart: tuple[torch.Tensor, torch.Tensor] | None = None
    sums: tuple[torch.Tensor, torch.Tensor] | None = None

    def rows(self, which: torch.Tensor) -> Entry:
        """The same call, as if it had been made with these samples only."""
        assert self.backprop is not None
        return Entry(self.layer, self.activation[which], self.backprop[which])

    def keep(self, grad: torch.Tensor) -> None:
        """Takes the output's gradient, of one ordinary backward pass.

        Raises:
          ValueError: Gradients of gradients were asked for, or it is the second pass: neither
            would leave the gradient of the loss on the tape.
        """
        name = type(self.layer).__name__
        if torch.is_grad_enabled():
            raise ValueError(
                f"{name}: create_graph=True has no per-sample gradient here: leave terms with "
                "gradients of gradients out of the loss"
            )
        if self.backprop is not None:
            raise ValueError(
                f"{name}: a second backward pass through one forward pass: add the losses up and "
                "call backward once"
            )
        self.backprop = grad.detach()


class Tape:
    """Entries of the passes since the last step.

    Attributes:
      entries: Calls, in order.
      recording: Whether calls are written at all.
      rows: Records in the batch of the outermost call; None where nobody said.
      owners: The layer to which calls of a layer count that shares its weights.
      calls: Of the outermost modules, until the first step was checked.
      probe: Where inputs go while the watch compares them.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.recording = True
        self.rows: int | None = None
        self.owners: dict[nn.Module, nn.Module] = {}
        self.calls: list[Any] = []
        self.probe: list[tuple[nn.Module, torch.Tensor]] | None = None

    def clear(self) -> None:
        """Forgets everything recorded."""
        self.entries, self.calls = [], []

    def for_each_record(self, x: torch.Tensor) -> torch.Tensor:
        """An input that a layer sees once for the whole batch (positions), once a record."""
        once = self.rows is not None and self.rows > 1 and x.dim() > 1 and len(x) == 1
        # Whoever asked for one row of output broadcasts it: the first step's check would tell.
        seen = self.probe is not None or (self.recording and torch.is_grad_enabled())
        return x.expand(self.rows, *x.shape[1:]) if once and seen else x  # type: ignore[arg-type]

    def begin(self, layer: nn.Module, x: torch.Tensor) -> Entry | None:
        """A new entry, if the call is part of training; None where it is not."""
        if self.probe is not None:
            self.probe.append((layer, x.detach()))
        if not (self.recording and layer.training and torch.is_grad_enabled()):
            return None
        entry = Entry(layer, x.detach())
        self.entries.append(entry)
        return entry

    def finished(self) -> dict[nn.Module, list[Entry]]:
        """Calls whose backward pass has happened, by layer."""
        out: dict[nn.Module, list[Entry]] = {}
        for entry in self.entries:
            if entry.backprop is not None:
                layer = self.owners.get(entry.layer, entry.layer)
                out.setdefault(layer, []).append(entry)
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
        entry.keep(grad)
        passed = ctx.pull(grad, entry.activation) if ctx.needs_input_grad[0] else None
        return passed, None, None, None, None


class _Link(torch.autograd.Function):
    """Runs a layer whose input needs no gradient; its weight makes the output need one."""

    @staticmethod
    def forward(
        ctx: Any, weight: torch.Tensor, run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        return run(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return None, None, None


_run_recorded: Callable[..., torch.Tensor] = _Record.apply
_run_linked: Callable[..., torch.Tensor] = _Link.apply


def record(
    tape: Tape,
    layer: nn.Module,
    run: Callable[[torch.Tensor], torch.Tensor],
    pull: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    *,
    before: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A forward function for ``layer`` that writes to the tape while training.

    Args:
      tape: Where calls are written.
      layer: The layer.
      run: Its own forward function.
      pull: Maps the output's gradient and the input to the input's gradient.
      before: Applied to the input first; what comes out is recorded.
    """
    weight = next(p for p in layer.parameters(recurse=False) if p.requires_grad)

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = tape.for_each_record(x)
        if before is not None:
            x = before(x)
        entry = tape.begin(layer, x)
        return run(x) if entry is None else _run_recorded(x, weight, entry, run, pull)

    return RecordedForward(layer, forward)


def record_detached(tape: Tape, layer: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """A forward function for any layer: autograd passes through it, but not to its weights."""
    own = [(name, p) for name, p in layer._parameters.items() if p is not None and p.requires_grad]

    def run(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = type(layer).forward(layer, x)
        # Of a view that is changed in place afterwards autograd forgets what hangs on it.
        return out.clone() if out._is_view() else out

    def without_weights(x: torch.Tensor) -> torch.Tensor:
        places: dict[str, Any] = layer._parameters
        for name, parameter in own:
            places[name] = parameter.detach()
        try:
            return run(x)
        finally:
            places.update(own)

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = tape.for_each_record(x)
        entry = tape.begin(layer, x)
        if entry is None:
            return run(x)
        out = without_weights(x) if x.requires_grad else _run_linked(own[0][1], run, x)
        out.register_hook(entry.keep)  # type: ignore[no-untyped-call]  # torch gives it no types
        return out

    return RecordedForward(layer, forward)
