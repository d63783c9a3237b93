"""A model, an optimizer and a loader once they are private: every step is checked and released."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from recondite.gradients.clipping import Bound
from recondite.gradients.collector import Collector
from recondite.gradients.handover import Handover, Turn
from recondite.mechanisms import Mechanism
from recondite.numerics.fork_safe import Renewed
from recondite.numerics.random import new_generator
from recondite.training.draws import Draw, LoaderEvents
from recondite.training.guard import Guard
from recondite.training.ledger import Ledger
from recondite.training.limit import Limit
from recondite.training.loss_check import LossCheck
from recondite.training.optimizers import check_optimizer, release_first
from recondite.training.sampling import PrivateLoader
from recondite.training.terms import terms

__all__ = ["PrivateRun"]


class PrivateRun(LoaderEvents):
    """What exists from ``make_private`` on; :class:`~recondite.PrivacyEngine` is its surface.

    Guarantee: as the engine's. A batch that is refused, or broken off, leaves nothing behind that
    the next step could release.

    Attributes:
      loader: The private loader, which asks and tells this run.
      mean: Whether the loss is the mean over records, rather than their sum.
      vouched: Whether a person vouches for the loss, so that it is not checked.
      bound: How each record's gradient is bounded.
      handover: The mechanism, configured for the model, and its units.
      limit: How many steps the budget allows.
    """

    def __init__(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        loader: PrivateLoader,
        mechanism: Mechanism,
        bound: Callable[[int], Bound],
        loss_reduction: str,
        limit: Callable[[Mechanism], Limit],
        ledger: Ledger,
        seed: int | None,
        secure: bool,
    ) -> None:
        """Makes the model and the optimizer private; where that is refused, they stay as they were.

        Args:
          module: The model, in training mode.
          optimizer: Over its trainable parameters.
          loader: Draws the batches.
          mechanism: What is released at every step.
          bound: Gives the bound on one record's gradient for so many layers.
          loss_reduction: "mean", "sum" or "per-record".
          limit: Gives the budget's limit for the mechanism that was configured for the model.
          ledger: Counts what is released.
          seed: Of the noise; None for operating-system entropy.
          secure: Whether noise comes from a cryptographic generator.
        """
        self.loader, self._ledger = loader, ledger
        self.mean, self.vouched = loss_reduction != "sum", loss_reduction == "per-record"
        with ExitStack() as undo:
            collector = self._collector = Collector(module)
            undo.callback(collector.remove)
            check_optimizer(optimizer, collector.parameters)
            self.bound = bound(len(collector.rules))
            if mechanism.stage != "record" and not math.isfinite(self.bound.norm):
                collector.detach()  # no record is bounded by itself: ordinary training's speed
            sizes = (loader.batch_size, loader.max_batch_size)
            self.handover = Handover(mechanism, collector, self.bound, *sizes)
            made = self.handover.mechanism
            self.handover.refuse_unbounded(loader.schedule(1).neighbouring(made))
            self._noise = Renewed(
                partial(new_generator, collector.parameters[0], seed, secure=secure),
                seeded=seed is not None,
            )
            self.limit = limit(made)
            watching = collector.attached and not self.vouched
            self._loss_check = LossCheck(module, mean=self.mean, watching=watching)
            undo.callback(self._loss_check.detach)
            self._guard = Guard(module, optimizer, loader, collector.parameters, collector.rules)
            ledger.bind(self.terms(), simulation=seed is not None)
            undo.callback(release_first(optimizer, self.step, self._guard.before_update))
            self._undo = undo.pop_all()
        self._observers: list[Callable[[Turn], None]] = []
        self._records: list[int] = []
        self._pieces = 0
        self._sum = torch.empty(0)
        loader.events = self

    def terms(self) -> dict[str, Any]:
        """What the cost of a step depends on."""
        return terms(self.handover.mechanism, self.loader, self.bound)

    @property
    def generator(self) -> Any:
        """Where noise comes from."""
        return self._noise.current()

    def observe(self, callback: Callable[[Turn], None]) -> None:
        """Has a callback see every release, and what was released, before the weights change."""
        if self.handover.per_record:
            raise ValueError(
                f"{self.handover.mechanism.name} noises each record, and no sum: what is observed "
                "is the sum of a batch; choose a mechanism for sums"
            )
        self._observers.append(callback)

    def detach(self) -> None:
        """Gives the model and the optimizer back as they were; the loader has no more batches."""
        self._undo.close()
        self.forget()
        self.loader.events = _Detached()

    def may_begin(self) -> bool:
        """Whether the budget allows another epoch, with a step in it."""
        return self.limit.allows(new_epoch=True)

    def begin(self) -> None:
        """A pass over the records begins; a batch that was broken off is forgotten."""
        self.forget()
        self._guard.begin()
        self._ledger.before_epoch()

    def may_go_on(self) -> bool:
        """Whether the budget allows another step."""
        return self.limit.allows()

    def opened(self) -> None:
        """A piece is handed out; passes from before it are none of it."""
        self._collector.tape.clear()
        self._loss_check.clear()
        self._guard.opened()

    def forget(self) -> None:
        """Drops what was collected and not released."""
        self._clear()
        self._collector.tape.clear()
        for parameter in self._collector.parameters:
            parameter.grad = None

    def step(self) -> bool:
        """Releases the last backward pass, if all is as it was accounted; False within a batch."""
        self.limit.check()
        try:
            draw = self.loader.take()
            self._guard.check()
            if draw.keep:
                self._loss_check.judge(draw.rows)
            return self._release(draw)
        except BaseException:
            self.forget()  # nothing of a refused batch reaches the next step
            raise

    @torch.no_grad()
    def _release(self, draw: Draw) -> bool:
        """Turns the last backward pass into gradients; False while a batch is incomplete."""
        collector = self._collector
        whole = self._pieces == 0 and draw.last and draw.keep
        if whole and not (collector.attached or self._observers) and self.handover.plain:
            self._ledger.before_release()  # nothing is bounded or noised: no copy is needed
            collector.rescale((draw.rows if self.mean else 1) / self.loader.batch_size)
            return True
        piece = self._piece(draw.rows, draw.keep)
        self._sum = piece if self._pieces == 0 else self._sum + piece
        self._pieces += 1
        self._records += draw.records
        if not draw.last:
            for parameter in collector.parameters:
                parameter.grad = None
            return False
        self._ledger.before_release()
        total, records = self._sum, self._records
        self._clear()
        if len(records) > self.loader.max_batch_size and not self.handover.per_record:
            collector.project(total, self.bound, self.loader.max_batch_size)
        average = self.handover.gradient(total, self.generator, self._seen_by(records))
        start = 0
        for parameter in collector.parameters:
            size = parameter.numel()
            parameter.grad = average[start : start + size].view_as(parameter).to(parameter.dtype)
            start += size
        return True

    def _clear(self) -> None:
        self._pieces, self._records, self._sum = 0, [], torch.empty(0)

    def _seen_by(self, records: list[int]) -> list[Callable[[Tensor, Tensor], None]]:
        def seen(observer: Callable[[Turn], None], total: Tensor, release: Tensor) -> None:
            with torch.enable_grad():  # as around optimizer.step
                observer(Turn(total.clone(), release.clone(), list(records)))

        return [partial(seen, observer) for observer in self._observers]

    def _piece(self, rows: int, keep: bool) -> Tensor:
        collector = self._collector
        if not collector.attached:
            return collector.plain_sum(rows, mean=self.mean, keep=keep)
        if not self.handover.per_record:
            return collector.bounded_sum(self.bound, rows, mean=self.mean, keep=keep)
        gradients = collector.per_sample(rows, mean=self.mean)
        if not keep:
            return torch.zeros(collector.dim, device=gradients.device, dtype=gradients.dtype)
        return self.handover.rows(gradients, self.generator)


class _Detached(LoaderEvents):
    def begin(self) -> None:
        """Refuses."""
        raise ValueError("the engine of this private loader was detached: make another one")
