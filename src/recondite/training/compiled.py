"""A pass over a batch of fixed size (forward, backward, bounds); on a GPU one CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from recondite.gradients.clipping import Bound
from recondite.gradients.collector import Collector
from recondite.training.loss_check import FIRST

__all__ = ["CompiledPass"]

Criterion = Callable[[Any, Any], Tensor]


class CompiledPass:
    """Turns a physical batch into the bounded sum of the records that count.

    Guarantee: that of :meth:`Collector.bounded_sum`. Rows that fill up a batch have factor exactly
    0, whatever is in them. Each call copies its batch into the memory that the graph reads: a
    replay cannot see an earlier batch. The graph has no noise in it.

    The first passes are ordinary ones, so that all that is looked at while training is seen: layers
    that mix records, and the loss, whose form cannot change from then on.

    Args:
      module: The model.
      criterion: Gives the loss from the model's output and the labels.
      collector: Attached to the model.
      bound: On each record's gradient.
      rows: Of every physical batch.
      mean: Whether the loss is the mean over them.

    Attributes:
      loss: Of the last pass, rows that fill it up included.
    """

    def __init__(
        self,
        module: nn.Module,
        criterion: Criterion,
        collector: Collector,
        bound: Bound,
        rows: int,
        *,
        mean: bool,
    ) -> None:
        if not collector.attached:
            raise ValueError(
                "compile needs records that are bounded one by one: choose another clipping, or "
                "leave compile out"
            )
        self._module, self._criterion, self._collector = module, criterion, collector
        self._bound, self._rows, self._mean = bound, rows, mean
        self._device = collector.parameters[0].device
        self._places = torch.arange(rows, device=self._device)
        self._kept = torch.zeros(rows, dtype=torch.bool, device=self._device)
        self._held: tuple[Tensor, Tensor] | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._total, self.loss = torch.empty(0), torch.empty(0)
        self._passes = 0

    def __call__(self, batch: Any, records: int) -> Tensor:
        """The sum over the first ``records`` rows; the memory is that of the next call too."""
        if not self._module.training:
            raise ValueError("module is in evaluation mode: call module.train() before the step")
        self._take(batch)
        torch.lt(self._places, records, out=self._kept)
        if self._graph is None and self._passes == FIRST + 1 and self._device.type == "cuda":
            self._capture()
        self._passes += 1
        if self._graph is None:
            self.loss, self._total = self._run()
        else:
            self._graph.replay()
        return self._total

    def _take(self, batch: Any) -> None:
        """Copies a batch to where the graph reads it."""
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise ValueError("compile needs batches of inputs and labels: leave it out for others")
        if any(not isinstance(part, Tensor) or len(part) != self._rows for part in batch):
            raise ValueError(f"compile needs batches of two tensors of {self._rows} rows")
        if self._held is None:
            inputs, labels = (torch.empty_like(part, device=self._device) for part in batch)
            self._held = inputs, labels
        for held, part in zip(self._held, batch, strict=True):
            if held.shape != part.shape or held.dtype != part.dtype:
                raise ValueError(
                    "compile needs batches of one shape and dtype: leave it out for others"
                )
            held.copy_(part, non_blocking=True)

    def _run(self) -> tuple[Tensor, Tensor]:
        assert self._held is not None
        self._collector.tape.clear()  # nobody else's passes
        with torch.enable_grad():
            loss = self._criterion(self._module(self._held[0]), self._held[1])
            loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        with torch.no_grad():
            total = self._collector.bounded_sum(
                self._bound, self._rows, mean=self._mean, keep=True, kept=self._kept
            )
        return loss.detach(), total

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        # An older graph that the collector came to meanwhile would give its memory back: that is
        # an error while another is captured. What other threads do (loaders') is not.
        gc.collect()
        collecting = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.loss, self._total = self._run()
        except RuntimeError as error:
            raise ValueError(
                f"the step cannot be captured ({str(error).splitlines()[0]}): leave compile out"
            ) from error
        finally:
            if collecting:
                gc.enable()
        self._graph = graph
