"""A model, an optimizer and a loader once they are private: every step is checked and released."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from recondite.gradients.clipping import Bound
from recondite.gradients.collector import Collector
from recondite.gradients.handover import Handover, Turn, directions_sum
from recondite.mechanisms import Mechanism
from recondite.mechanisms.none import hands_over
from recondite.numerics.fork_safe import Renewed
from recondite.numerics.random import new_generator
from recondite.training.collating import refuse_mixing
from recondite.training.compiled import CompiledPass, Criterion
from recondite.training.distributed import (
    OtherProcessError,
    Ranks,
    records_digest,
    weights_digest,
)
from recondite.training.guard import Guard
from recondite.training.ledger import Ledger, LedgerError
from recondite.training.limit import Limit
from recondite.training.loss_check import LossCheck
from recondite.training.optimizers import check_optimizer, release_first
from recondite.training.reuse import Reuse
from recondite.training.sampling import Draw, LoaderEvents, PrivateLoader
from recondite.training.step_parameters import StepParameters, step_parameters

__all__ = ["HALVES", "PrivateRun"]

HALVES = (
    "in bfloat16 or float16 the mean over a batch rounds every gradient by the batch's size: one "
    "record more moves all others a little, which no account covers"
)


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
      compiled: The pass that a step takes by itself; None where the training loop does.
      ranks: The processes that train.
      rounded: Whether gradients were rounded to halves by a factor that the batch's size decides.
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
        criterion: Criterion | None = None,
        ranks: Ranks,
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
          criterion: The loss function of a step that takes its own passes; None without.
          ranks: The processes that train; the ledger of the first one is on disk.
        """
        self.loader, self._ledger, self.ranks = loader, ledger, ranks
        self.mean, self.vouched = loss_reduction != "sum", loss_reduction == "per-record"
        with ExitStack() as undo:
            promised = not _undefended(mechanism, bound)
            if promised:
                refuse_mixing(loader.dataset, loader.collate)
            collector = self._collector = Collector(module, recorded=promised)
            undo.callback(collector.remove)
            check_optimizer(optimizer, collector.parameters)
            self.bound = bound(len(collector.rules))
            if promised and mechanism.stage != "record" and not math.isfinite(self.bound.norm):
                collector.detach()  # no record is bounded by itself: ordinary training's speed
            sizes = (loader.batch_size, loader.max_batch_size)
            self.handover = Handover(mechanism, collector, self.bound, *sizes)
            made = self.handover.mechanism
            self.handover.refuse_unbounded(loader.schedule(1).neighbouring(made))
            if not ranks.alone and self.handover.per_record and made.stateful:
                raise ValueError(
                    f"{made.name} keeps a state over each process's records: train in one process"
                )
            self._noise = Renewed(
                partial(new_generator, collector.parameters[0], ranks.seed(seed), secure=secure),
                seeded=seed is not None,
            )
            self.limit = limit(made)
            self.compiled = None
            if criterion is not None:
                rows = loader.physical_batch_size or loader.batch_size
                given = (module, criterion, collector, self.bound, rows)
                self.compiled = CompiledPass(*given, mean=self.mean)
            self._reuse = Reuse() if promised and self.compiled is None else None
            watching = collector.attached and not self.vouched
            self._loss_check = LossCheck(module, mean=self.mean, watching=watching)
            undo.callback(self._loss_check.detach)
            parts = collector.parameters, collector.recorded, ranks, self.handover.late
            self._guard = Guard(module, optimizer, loader, *parts, stored=not promised)
            undo.callback(ranks.attach())
            self._agree(module, optimizer, seed=seed, secure=secure)
            guard = self._guard
            undo.callback(release_first(optimizer, self.step, guard.before_update, guard.updated))
            self._undo = undo.pop_all()
        self._observers: list[Callable[[Turn], None]] = []
        self._records: list[int] = []
        self._pieces = 0
        self.rounded = False
        self._sum, self._directions = torch.empty(0), torch.zeros(())
        loader.events = self

    def _agree(
        self, module: nn.Module, optimizer: Optimizer, *, seed: int | None, secure: bool
    ) -> None:
        """All processes do the same from here on, and know what the first one's ledger counts."""
        terms, ranks, ledger = self.step_parameters(), self.ranks, self._ledger
        if not ranks.alone:
            ranks.meet(0, 0)
            groups = [{**group, "params": len(group["params"])} for group in optimizer.param_groups]
            ranks.compare(
                {
                    "mechanism, sampling, batch_size, records or clipping": str(terms),
                    "max_batch_size": str(self.loader.max_batch_size),
                    "loss_reduction": str(self.mean),
                    "seed or secure": str((seed, secure)),
                    "max_epsilon or delta": str(self.limit.most),
                    "the optimizer and its options": f"{type(optimizer).__name__} {groups}",
                    "the records of data_loader": records_digest(self.loader.dataset),
                    "the model's weights": weights_digest(module),
                }
            )
        ledger.bind(terms, simulation=seed is not None)
        ranks.meet(0, 1)
        held = ranks.told(ledger.shared())
        if not ranks.first:
            ledger.follow(*held)

    def step_parameters(self) -> StepParameters:
        """What the cost of a step depends on."""
        return step_parameters(self.handover.mechanism, self.loader, self.bound)

    @property
    def generator(self) -> Any:
        """Where noise comes from."""
        return self._noise.current()

    def observe(self, callback: Callable[[Turn], None]) -> None:
        """Has a callback see every release, and what was released, before the weights change.

        Raises:
          ValueError: The sum of all is not here.
        """
        if not self.ranks.first:
            raise ValueError("observe sees the sum of all processes: call it in the first, rank 0")
        if not self.ranks.alone and self.handover.per_record:
            raise ValueError(
                f"observe does not see {self.handover.mechanism.name} over several processes, "
                "where noise is on each record: train in one"
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
        with self._stopping():
            with self.ranks.telling():
                self.ranks.check()
                self.forget()
                self.check_late()
                self._guard.begin()
                self._ledger.before_epoch()
            self.ranks.meet(1, self._ledger.epochs)

    def may_go_on(self) -> bool:
        """Whether the budget allows another step."""
        return self.limit.allows()

    def opened(self) -> None:
        """A piece is handed out; passes from before it are none of it."""
        self._collector.tape.clear()
        self._loss_check.clear()
        self._guard.opened()
        self._collector.passes.clear()
        if self._reuse is not None:
            self._reuse.opened(self.loader.batch)

    def check_late(self) -> None:
        """Waits for what a GPU has not answered yet: on releases, weights and rows."""
        self.handover.late.check(wait=True)
        if self._reuse is not None:
            self._reuse.check(wait=True)

    def forget(self) -> None:
        """Drops what was collected and not released."""
        self._clear()
        self._collector.tape.clear()
        self._collector.passes.clear()
        for parameter in self._collector.parameters:
            parameter.grad = None

    def step(self) -> bool:
        """Releases the last backward pass, if all is as it was accounted; False within a batch."""
        self.limit.check()
        try:
            with self._stopping():
                return self._release()
        except BaseException:
            self.forget()  # nothing of a refused batch reaches the next step
            raise

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Where another process stopped, nothing is released any more: the count is exact then."""
        try:
            yield
        except OtherProcessError:
            with suppress(LedgerError):
                self._ledger.close()
            raise

    @torch.no_grad()
    def _release(self) -> bool:
        """Turns the last backward pass into gradients; False while a batch is incomplete."""
        with self.ranks.telling():
            draw = self.loader.take()
            self._guard.check()
            if self._reuse is not None:
                self._reuse.judge(draw, self._collector.passes)
                self._collector.passes.clear()
            if draw.keep and self.compiled is None:
                self._loss_check.judge(draw.rows)
            if self._plain(draw):
                return True
            self._collect(draw)
        if not draw.last:
            return False
        steps = self._ledger.taken
        self.ranks.meet(3, steps)
        total, records, directions = self._sum, self._records, self._directions
        self._clear()
        if not self.ranks.first:
            self._ledger.before_release()
        make = partial(self._noised, records=records, directions=directions)
        average = self.ranks.released(total, make, steps)
        start = 0
        for parameter in self._collector.parameters:
            size = parameter.numel()
            parameter.grad = average[start : start + size].view_as(parameter).to(parameter.dtype)
            start += size
        return True

    def _plain(self, draw: Draw) -> bool:
        """Releases a whole batch of which nothing is bounded or noised, without a copy of it."""
        collector = self._collector
        whole = self._pieces == 0 and draw.last and draw.keep and self.ranks.alone
        if whole and not (collector.attached or self._observers) and self.handover.plain:
            self._ledger.before_release()
            collector.rescale((draw.rows if self.mean else 1) / self.loader.batch_size)
            return True
        return False

    def _collect(self, draw: Draw) -> None:
        """Adds a piece to the sum of its batch."""
        piece = self._piece(draw.rows, draw.keep) if self.compiled is None else self._passed(draw)
        self._note_rounding()
        self._sum = piece if self._pieces == 0 else self._sum + piece
        self._pieces += 1
        self._records += [*draw.records, *draw.elsewhere]
        if not draw.last:
            for parameter in self._collector.parameters:
                parameter.grad = None

    def _note_rounding(self) -> None:
        """Says once that a mean over a random number of records does not go with halves."""
        varies = self.mean and self.loader.sizes_vary and not self.loader.padded
        if self.rounded or not (varies and self._collector.tape.half):
            return
        self.rounded = math.isfinite(self.bound.norm)
        if self.rounded:
            warnings.warn(f'{HALVES}: sum the losses (loss_reduction="sum")', stacklevel=5)

    def _noised(self, total: Tensor, records: list[int], directions: Tensor) -> Tensor:
        """Counts a step, and releases the sum of a batch of these records."""
        self._ledger.before_release()
        if len(records) > self.loader.max_batch_size and not self.handover.per_record:
            self._collector.project(total, self.bound, self.loader.max_batch_size)
        seen_by = self._seen_by(records)
        for observer in seen_by if self.handover.per_record else ():
            observer(directions.to(total).expand_as(total), total)
        return self.handover.gradient(total, self.generator, seen_by)

    def _clear(self) -> None:
        self._pieces, self._sum = 0, torch.empty(0)
        self._records, self._directions = [], torch.zeros(())

    def _seen_by(self, records: list[int]) -> list[Callable[[Tensor, Tensor], None]]:
        def seen(observer: Callable[[Turn], None], total: Tensor, release: Tensor) -> None:
            with torch.enable_grad():  # as around optimizer.step
                observer(Turn(total.clone(), release.clone(), list(records)))

        return [partial(seen, observer) for observer in self._observers]

    def _passed(self, draw: Draw) -> Tensor:
        """The bounded sum of a piece that the step itself passes through the model."""
        assert self.compiled is not None
        total = self.compiled(self.loader.batch, len(draw.records))
        if draw.keep:
            self._loss_check.judge(draw.rows)
        self._loss_check.clear()
        return total if draw.last and self._pieces == 0 else total.clone()

    def _piece(self, rows: int, keep: bool) -> Tensor:
        collector = self._collector
        if not collector.attached:
            return collector.plain_sum(rows, mean=self.mean, keep=keep)
        if not self.handover.per_record:
            return collector.bounded_sum(self.bound, rows, mean=self.mean, keep=keep)
        gradients = collector.per_sample(rows, mean=self.mean)
        if not keep:
            return torch.zeros(collector.dim, device=gradients.device, dtype=gradients.dtype)
        if self._observers:
            self._directions = self._directions.to(gradients) + directions_sum(gradients)
        return self.handover.rows(gradients, self.generator)


def _undefended(mechanism: Mechanism, bound: Callable[[int], Bound]) -> bool:
    """Whether nothing is bounded and nothing noised: nothing can be broken then."""
    if mechanism.stage == "record" or not hands_over(mechanism):
        return False
    try:
        return not math.isfinite(bound(1).norm)
    except ValueError:  # norms for so many layers: a bound
        return False


class _Detached(LoaderEvents):
    def begin(self) -> None:
        """Refuses."""
        raise ValueError("the engine of this private loader was detached: make another one")
