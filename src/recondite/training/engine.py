"""Private training with any mechanism: the surface people know from Opacus."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from recondite import _validate
from recondite.accounting import epsilon as tight_epsilon
from recondite.accounting.schedules import Schedule
from recondite.gradients.clipping import Bound, bound_rule
from recondite.gradients.collector import Collector
from recondite.gradients.handover import Handover
from recondite.mechanisms import Mechanism, Setting, Units
from recondite.notions import Account, account
from recondite.notions.calibration import calibrate
from recondite.numerics.fork_safe import Renewed
from recondite.numerics.random import new_generator
from recondite.training.guard import Guard, refuse_distributed, refuse_private
from recondite.training.ledger import UNLABELLED, Ledger, runs_of
from recondite.training.limit import most_steps
from recondite.training.loss_check import LossCheck
from recondite.training.optimizers import check_optimizer, release_first
from recondite.training.sampling import Draw, PrivateLoader
from recondite.training.terms import check, terms

__all__ = ["BudgetSpentError", "PrivacyEngine"]

PER_RECORD = (
    "the loss is the {} over records of each record's own loss, and no layer or hook mixes the "
    "records of a batch"
)
PUBLIC_NUMBER = "the number of records is public: the sampling rate is the batch size over it"
SIMULATION = "simulation: no guarantee for this model (its noise follows from a seed)"


class BudgetSpentError(RuntimeError):
    """One step more would spend more than ``max_epsilon``."""


class PrivacyEngine:
    """Makes a model, an optimizer and a loader private, and keeps count of what was released.

    Nothing is wrapped: the model and the optimizer that come back are the ones that went in, with
    the model's layers writing to a tape and the optimizer's ``step`` releasing a noised gradient
    first. An ordinary training loop does the rest. :meth:`detach`, or leaving a ``with`` statement,
    gives both back as they were.

    Guarantee: the account of :meth:`report` covers every step that was, or may have been, taken.
    A step on anything but the next batch, the parameters that were made private and the model as it
    was then is refused (:mod:`recondite.training.guard` says what cannot be noticed).

    Attributes:
      max_epsilon: Training stops before this ε is exceeded (at ``delta``).
      delta: δ for ``max_epsilon``.
      seed: Makes a run repeatable, and worthless as protection: it is labelled a simulation.
      ledger: File in which steps are counted before they are taken. One with steps that were made
        otherwise (mechanism, sampling, batch size, number of records) is refused, and so is one
        that another engine has open (:class:`recondite.training.ledger.Ledger`).
      secure: Noise and batches come from a cryptographic generator, bit by bit, at the cost and
        with the limits that :mod:`recondite.numerics.secure` states.
    """

    def __init__(
        self,
        *,
        max_epsilon: float | None = None,
        delta: float | None = None,
        seed: int | None = None,
        ledger: str | os.PathLike[str] | None = None,
        secure: bool = False,
    ) -> None:
        self.max_epsilon = (
            None if max_epsilon is None else _validate.positive("max_epsilon", max_epsilon)
        )
        self.delta = None if delta is None else _validate.probability("delta", delta)
        if self.max_epsilon is not None and self.delta is None:
            raise ValueError("delta is needed with max_epsilon")
        if secure and seed is not None:
            raise ValueError("seed makes noise repeatable: leave it out in secure mode")
        self.seed = seed
        self.secure = secure
        self.ledger = Ledger(ledger)
        self._mechanism: Mechanism | None = None
        self._loader: PrivateLoader | None = None
        self._restore: Callable[[], None] | None = None
        self._most: int | None = None

    def make_private(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: DataLoader[Any],
        mechanism: Mechanism,
        max_grad_norm: float | tuple[float, ...] = 1.0,
        clipping: str | Bound = "flat",
        sampling: str | None = None,
        batch_size: int | None = None,
        max_batch_size: int | None = None,
        physical_batch_size: int | None = None,
        loss_reduction: str = "mean",
    ) -> tuple[nn.Module, Optimizer, PrivateLoader]:
        """Makes training private.

        Args:
          module: The model, in training mode.
          optimizer: Any torch optimizer over its trainable parameters.
          data_loader: A loader over a map-style dataset; its batch size is the expected one.
          mechanism: What is released at every step.
          max_grad_norm: C, the bound on one record's gradient (one a layer for per-layer).
          clipping: "flat", "per-layer", "automatic", "psac", "scale", "none", or a rule.
          sampling: "poisson" (the default), "shuffled" or "fixed-size" (the default where noise is
            drawn for each record).
          batch_size: The expected batch size, if not the loader's.
          max_batch_size: The sum of a larger Poisson batch is projected onto the ball that so
            many records can fill, which costs no sensitivity.
          physical_batch_size: Largest piece that goes through the model at once.
          loss_reduction: "mean" or "sum", as the training loop computes its loss from the records'
            own losses. What cross-entropies show of it is checked. "per-record" is a mean that is
            not checked: you vouch that each record's loss depends on that record alone, which the
            account then says.

        Returns:
          The same module, the same optimizer, and a private loader.

        Raises:
          ValueError: One line that names the argument and the remedy.
        """
        if self._mechanism is not None:
            raise ValueError("this engine is in use: make another PrivacyEngine for another model")
        _validate.choice("loss_reduction", loss_reduction, ("mean", "sum", "per-record"))
        refuse_distributed(module)
        refuse_private(module)
        if mechanism.stage == "update":
            raise ValueError(
                f"{mechanism.name} noises a client's whole update: hand it to "
                "recondite.federated.defend, or choose a mechanism for sums or records"
            )
        if not module.training:
            raise ValueError("module is in evaluation mode: call module.train() first")
        default = "fixed-size" if mechanism.stage == "record" else "poisson"
        loader = PrivateLoader(
            data_loader,
            sampling=sampling or default,
            batch_size=batch_size,
            max_batch_size=max_batch_size,
            physical_batch_size=physical_batch_size,
            seed=self.seed,
            secure=self.secure,
        )
        collector = Collector(module)
        check_optimizer(optimizer, collector.parameters)
        bound = bound_rule(clipping, max_grad_norm, len(collector.rules))
        if mechanism.stage != "record" and not math.isfinite(bound.norm):
            collector.detach()  # no record is bounded by itself: ordinary training, at its speed
        self._loader, self._collector, self._bound = loader, collector, bound
        self._mean, self._vouched = loss_reduction != "sum", loss_reduction == "per-record"
        sizes = (loader.batch_size, loader.max_batch_size)
        self._handover = Handover(mechanism, collector, bound, *sizes)
        self._mechanism = self._handover.mechanism
        self._handover.refuse_unbounded(self.schedule(1).neighbouring(self._mechanism))
        self._noise = Renewed(
            partial(new_generator, collector.parameters[0], self.seed, secure=self.secure),
            seeded=self.seed is not None,
        )
        self._sum: torch.Tensor | None = None
        self._records = 0
        self._limit()
        watched = collector.attached and not self._vouched
        self._loss_check = LossCheck(module, mean=self._mean) if watched else None
        self._guard = Guard(module, optimizer, loader, collector.parameters, collector.rules)
        loader.begin, loader.opened = self._begin, self._opened
        self.ledger.bind(self._terms(), simulation=self.seed is not None)
        self._restore = release_first(optimizer, self._step, self._guard.before_update)
        return module, optimizer, loader

    def detach(self) -> None:
        """Gives the model and the optimizer back as they were; the account stays.

        The model has its own forward functions and no gradients, the optimizer its own step, and
        the private loader no more batches.
        """
        if self._restore is None or self._loader is None:
            return
        self._restore()
        self._restore = None
        if self._loss_check is not None:
            self._loss_check.detach()
        self._collector.remove()
        self._forget()
        self._loader.begin = _refuse_detached

    def __enter__(self) -> PrivacyEngine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def make_private_with_epsilon(
        self,
        *,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        mechanism: Mechanism,
        data_loader: DataLoader[Any],
        **options: Any,
    ) -> tuple[nn.Module, Optimizer, PrivateLoader]:
        """As :meth:`make_private`, with the weakest noise that meets ε after so many epochs."""
        module: nn.Module = options["module"]
        default = "fixed-size" if mechanism.stage == "record" else "poisson"
        plan = PrivateLoader(
            data_loader,
            sampling=options.get("sampling") or default,
            batch_size=options.get("batch_size"),
            max_batch_size=options.get("max_batch_size"),
        )
        steps = _validate.at_least("epochs", epochs, 1) * plan.batches
        shapes = tuple(tuple(p.shape) for p in module.parameters() if p.requires_grad)
        setting = Setting(shapes, max_batch_size=plan.max_batch_size, batch_size=plan.batch_size)
        sized = mechanism.configured(setting)
        found = calibrate(
            sized, target_epsilon, "epsilon", plan.schedule(steps), delta=target_delta
        )
        return self.make_private(
            mechanism=mechanism.with_strength(found.value), data_loader=data_loader, **options
        )

    @property
    def steps(self) -> int:
        """Steps taken, or that may have been taken."""
        return self.ledger.taken

    @property
    def simulation(self) -> bool | None:
        """Whether noise of a counted step followed from a seed; None where 0.1.0 did not say."""
        return True if self.seed is not None else self.ledger.simulation

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism, configured for the model."""
        if self._mechanism is None:
            raise ValueError("nothing is private yet: call make_private first")
        return self._mechanism

    @property
    def units(self) -> Units:
        """What the mechanism's units are in the model's gradients."""
        if self._mechanism is None:
            raise ValueError("nothing is private yet: call make_private first")
        return self._handover.units

    @property
    def _generator(self) -> Any:
        return self._noise.current()

    def schedule(self, steps: int | None = None) -> Schedule:
        """The schedule of the steps taken, or of so many."""
        if self._loader is None:
            raise ValueError("nothing is private yet: call make_private first")
        if steps is None:
            return self._loader.schedule(self.steps, self.ledger.epochs)
        return self._loader.schedule(steps)

    def get_epsilon(self, delta: float) -> float:
        """Tight ε of the steps taken and the epochs begun, at δ: that of :meth:`report`."""
        return tight_epsilon(self.mechanism, self.schedule(), delta) if self.steps else 0.0

    def report(self, delta: float, **options: Any) -> Account:
        """Every notion of what was released; options as in :func:`recondite.account`."""
        if self.steps == 0:
            raise ValueError("nothing was released yet: train first")
        result = account(self.mechanism, self.schedule(), delta, **options)
        label = {True: (SIMULATION,), None: (UNLABELLED,), False: ()}[self.simulation]
        assumptions = (*label, *result.assumptions, *self._assumptions())
        return dataclasses.replace(result, assumptions=assumptions)

    def _assumptions(self) -> list[str]:
        """What the account rests on beside the mechanism and the schedule."""
        line = PER_RECORD.format("mean" if self._mean else "sum")
        if self._vouched:
            line += ' (vouched for by loss_reduction="per-record", not checked)'
        assert self._loader is not None
        return [line, PUBLIC_NUMBER] if self._loader.sampling == "poisson" else [line]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries: counts and parameters, never a seed or a generator.

        The state of a mechanism that keeps one is part of it, as it was after the last step.
        """
        return {
            "schema_version": 3,
            "steps": self.steps,
            "epochs": self.ledger.epochs,
            "runs": {name: list(count) for name, count in self.ledger.runs().items()},
            **self._terms(),
            "simulation": self.simulation,
            **self._handover.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Adds a checkpoint's releases to this engine's; it never lowers a count.

        None that its ledger knows already is counted again. A checkpoint of version 0.1.0 does not
        say whose releases it counts: all are added. A simulation makes this engine one too.

        Raises:
          ValueError: Its steps were made otherwise (mechanism, sampling, batch size, number of
            records), or it does not say how: under this engine's schedule they could cost less.
        """
        check("checkpoint", state, self._terms())
        self._handover.check_state(state)
        self.ledger.take_over(runs_of(state), state.get("simulation"))
        self._handover.load_state_dict(state)

    def _terms(self) -> dict[str, Any]:
        mechanism = self.mechanism
        assert self._loader is not None
        return terms(mechanism, self._loader, self._bound)

    def _limit(self) -> None:
        if self.max_epsilon is None or self.delta is None or self._loader is None:
            return  # the constructor asks for delta with max_epsilon
        self._most = most_steps(self.mechanism, self._loader, self.max_epsilon, self.delta)
        self._loader.allowed = self._may_step
        self._loader.may_begin = lambda: self._may_step(new_epoch=True)

    def _may_step(self, *, new_epoch: bool = False) -> bool:
        """Whether one step more, in this epoch or a new one, keeps within ``max_epsilon``."""
        if self._most is None or self._loader is None:
            return True
        planned = self._loader.schedule(self.steps + 1, self.ledger.epochs + new_epoch)
        return planned.steps <= self._most

    def _begin(self) -> None:
        """A pass over the records begins; a batch that was broken off is forgotten."""
        self._forget()
        self._guard.begin()
        self.ledger.before_epoch()

    def _opened(self) -> None:
        """A piece is handed out; passes from before it are none of it."""
        self._collector.tape.clear()
        if self._loss_check is not None:
            self._loss_check.clear()
        self._guard.opened()

    def _forget(self) -> None:
        """Drops what was collected and not released."""
        self._sum, self._records = None, 0
        self._collector.tape.clear()
        for parameter in self._collector.parameters:
            parameter.grad = None

    def _step(self) -> bool:
        """Releases the last backward pass, if all is as it was accounted; False within a batch."""
        assert self._loader is not None
        if not self._may_step():
            raise BudgetSpentError(f"max_epsilon {self.max_epsilon:g} is spent: stop training")
        try:
            draw = self._loader.take()
            self._guard.check()
            if self._loss_check is not None and draw.keep:
                self._loss_check.judge(draw.rows)
            return self._release(draw)
        except BaseException:
            self._forget()  # nothing of a refused batch reaches the next step
            raise

    @torch.no_grad()
    def _release(self, draw: Draw) -> bool:
        """Turns the last backward pass into gradients; False while a batch is incomplete."""
        assert self._loader is not None
        collector = self._collector
        whole = self._sum is None and draw.last and draw.keep
        if whole and not collector.attached and self._handover.plain:
            self.ledger.before_release()  # nothing is bounded or noised: no copy is needed
            collector.rescale((draw.rows if self._mean else 1) / self._loader.batch_size)
            return True
        piece = self._piece(draw.rows, draw.keep)
        self._sum = piece if self._sum is None else self._sum + piece
        self._records += draw.rows if draw.keep else 0
        if not draw.last:
            for parameter in collector.parameters:
                parameter.grad = None
            return False
        self.ledger.before_release()
        total, self._sum = self._sum, None
        records, self._records = self._records, 0
        if records > self._loader.max_batch_size and not self._handover.per_record:
            collector.project(total, self._bound, self._loader.max_batch_size)
        average = self._handover.gradient(total, self._generator)
        start = 0
        for parameter in collector.parameters:
            size = parameter.numel()
            parameter.grad = average[start : start + size].view_as(parameter).to(parameter.dtype)
            start += size
        return True

    def _piece(self, rows: int, keep: bool) -> torch.Tensor:
        collector = self._collector
        if not collector.attached:
            return collector.plain_sum(rows, mean=self._mean, keep=keep)
        if not self._handover.per_record:
            return collector.bounded_sum(self._bound, rows, mean=self._mean, keep=keep)
        gradients = collector.per_sample(rows, mean=self._mean)
        if not keep:
            return torch.zeros(collector.dim, device=gradients.device, dtype=gradients.dtype)
        return self._handover.rows(gradients, self._generator)


def _refuse_detached() -> None:
    raise ValueError("the engine of this private loader was detached: make another one")
