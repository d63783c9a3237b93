"""Private training with any mechanism: the surface people know from Opacus."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from recondite import _validate
from recondite.accounting import epsilon as tight_epsilon
from recondite.accounting.schedules import Schedule
from recondite.gradients.clipping import Bound, bound_rule
from recondite.gradients.handover import Turn, planned_setting
from recondite.mechanisms import Mechanism, Units
from recondite.notions import Account, account
from recondite.notions.calibration import calibrate
from recondite.training.distributed import OtherProcessError, join
from recondite.training.guard import refuse_private
from recondite.training.ledger import UNLABELLED, Ledger, runs_of
from recondite.training.limit import BudgetSpentError, Limit, most_steps
from recondite.training.private_run import HALVES, PrivateRun
from recondite.training.sampling import PrivateLoader, usual_sampling
from recondite.training.setup import told
from recondite.training.step_parameters import check

__all__ = ["BudgetSpentError", "OtherProcessError", "PrivacyEngine"]

PER_RECORD = (
    "the loss is the {} over records of each record's own loss, and nothing mixes the records of a "
    "batch: no layer, hook or collate_fn"
)
_PUBLIC = {
    "poisson": ("the number of records is public: the sampling rate is the batch size over it",),
    "allocation": ("the number of records is public: it gives the number of batches",),
}
SAME_RECORDS = (
    "every process holds the same records in the same order, and nobody listens between them"
)
SIMULATION = "simulation: no guarantee for this model (its noise follows from a seed)"


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
        self._made: PrivateRun | None = None

    @told
    def make_private(
        self,
        *,
        module: nn.Module,
        optimizer: Optimizer,
        data_loader: DataLoader[Any],
        mechanism: Mechanism | None = None,
        max_grad_norm: float | tuple[float, ...] = 1.0,
        clipping: str | Bound = "flat",
        sampling: str | None = None,
        batch_size: int | None = None,
        max_batch_size: int | None = None,
        physical_batch_size: int | None = None,
        loss_reduction: str = "mean",
        compile: Callable[[Any, Any], Tensor] | None = None,
        **others: Any,
    ) -> tuple[nn.Module, Optimizer, PrivateLoader]:
        """Makes training private.

        Args:
          module: The model, in training mode; a ``DistributedDataParallel`` trains over all its
            processes (:mod:`recondite.training.distributed`).
          optimizer: Any torch optimizer over its trainable parameters.
          data_loader: A loader over a map-style dataset; its batch size is the expected one.
          mechanism: What is released at every step; needed.
          max_grad_norm: C, the bound on one record's gradient (one a layer for per-layer).
          clipping: "flat", "per-layer", "automatic", "psac", "scale", "none", or a rule.
          sampling: "poisson" (the default), "allocation", "shuffled" or "fixed-size" (the default
            where noise is drawn for each record).
          batch_size: The expected batch size, if not the loader's.
          max_batch_size: The sum of a larger batch, where their sizes vary, is projected onto the
            ball that so many records can fill, which costs no sensitivity.
          physical_batch_size: Largest piece that goes through the model at once.
          loss_reduction: "mean" or "sum", as the training loop computes its loss from the records'
            own losses. What cross-entropies show of it is checked. "per-record" is a mean that is
            not checked: you vouch that each record's loss depends on that record alone, which the
            account then says.
          compile: The loss function of the model's output and the labels. ``optimizer.step()`` then
            takes its own forward and backward pass over the batch in hand, on a GPU as one CUDA
            graph, and :attr:`loss` is its loss: ``for _ in loader: optimizer.step()`` is the whole
            loop. Batches are padded to ``physical_batch_size`` rows (what is larger goes into
            another pass; what fills up counts with weight exactly 0). Not for noise on each record.
          **others: None: what is typed from another library gets a pointer.

        Returns:
          The same module, the same optimizer, and a private loader.

        Raises:
          ValueError: One line that names the argument and the remedy.
          TypeError: An argument that there is not, or no mechanism.
        """
        if others or mechanism is None:
            what = f"takes no {min(others)}" if others else "needs a mechanism"
            raise TypeError(
                f"make_private {what}: give mechanism=recondite.Gaussian(noise_multiplier) for the "
                "noise, or another of recondite.mechanisms"
            )
        if self._made is not None:
            raise ValueError("this engine is in use: make another PrivacyEngine for another model")
        _validate.choice("loss_reduction", loss_reduction, ("mean", "sum", "per-record"))
        model, ranks = join(module)
        with ranks.telling():
            refuse_private(model)
            if mechanism.stage == "update":
                raise ValueError(
                    f"{mechanism.name} noises a client's whole update: hand it to "
                    "recondite.federated.defend, or choose a mechanism for sums or records"
                )
            if not model.training:
                raise ValueError("module is in evaluation mode: call module.train() first")
            if compile is not None and mechanism.stage == "record":
                raise ValueError(f"compile is not for {mechanism.name}, which noises each record")
            loader = PrivateLoader(
                data_loader,
                sampling=sampling or usual_sampling(mechanism),
                batch_size=batch_size,
                max_batch_size=max_batch_size,
                physical_batch_size=physical_batch_size,
                seed=self.seed,
                secure=self.secure,
                padded=compile is not None,
                ranks=ranks,
            )
            if not ranks.first:
                self.ledger = Ledger()  # the first process keeps the file
            self._made = PrivateRun(
                module=model,
                optimizer=optimizer,
                loader=loader,
                mechanism=mechanism,
                bound=partial(bound_rule, clipping, max_grad_norm),
                loss_reduction=loss_reduction,
                limit=partial(self._limit, loader),
                ledger=self.ledger,
                seed=self.seed,
                secure=self.secure,
                criterion=compile,
                ranks=ranks,
            )
        return module, optimizer, loader

    def _limit(self, loader: PrivateLoader, mechanism: Mechanism) -> Limit:
        if self.max_epsilon is None or self.delta is None:
            return Limit(loader, self.ledger)  # the constructor asks for delta with max_epsilon
        most = most_steps(mechanism, loader, self.max_epsilon, self.delta)
        return Limit(loader, self.ledger, self.max_epsilon, most)

    @property
    def _run(self) -> PrivateRun:
        if self._made is None:
            raise ValueError("nothing is private yet: call make_private first")
        return self._made

    def detach(self) -> None:
        """Gives the model and the optimizer back as they were; the account stays.

        The model has its own forward functions and no gradients, the optimizer its own step, and
        the private loader no more batches.
        """
        if self._made is not None:
            self._made.detach()

    def observe(self, callback: Callable[[Turn], None]) -> None:
        """Has a callback see what every step releases, and from what, before the weights change.

        For audits: the sum before noise is what a mechanism is there to hide. Call it after
        :meth:`make_private`.

        Args:
          callback: Gets the bounded sum in units of one record's bound, its release, and the
            places of the batch's records in the loader's data set. What it gets are copies. Where
            noise is on each record, the sums are of unit directions and of what became of them.

        Raises:
          ValueError: The engine has no seed, so that this training is no simulation; or the sum
            of all is not here: of several processes the first one has it.
        """
        run = self._run
        if self.seed is None:
            raise ValueError(
                "observe hands out sums without noise, in simulations only: give the engine a seed"
            )
        run.observe(callback)

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
        plan = PrivateLoader(
            data_loader,
            sampling=options.get("sampling") or usual_sampling(mechanism),
            batch_size=options.get("batch_size"),
            max_batch_size=options.get("max_batch_size"),
        )
        steps = _validate.at_least("epochs", epochs, 1) * plan.batches
        rule = partial(
            bound_rule, options.get("clipping", "flat"), options.get("max_grad_norm", 1.0)
        )
        sized = mechanism.configured(
            planned_setting(module, rule, plan.batch_size, plan.max_batch_size)
        )
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
        return self._run.handover.mechanism

    @property
    def units(self) -> Units:
        """What the mechanism's units are in the model's gradients."""
        return self._run.handover.units

    @property
    def loss(self) -> Tensor | None:
        """Loss of the last compiled pass, over its padding too; it is not private. None without."""
        compiled = self._run.compiled
        return None if compiled is None else compiled.loss

    @property
    def bound(self) -> Bound:
        """How each record's gradient is bounded."""
        return self._run.bound

    @property
    def loader(self) -> PrivateLoader:
        """The private loader."""
        return self._run.loader

    @property
    def generator(self) -> Any:
        """Where noise comes from: a seeded simulation goes on elsewhere with its state."""
        return self._run.generator

    def schedule(self, steps: int | None = None) -> Schedule:
        """The schedule of the steps taken, or of so many."""
        if steps is None:
            return self.loader.schedule(self.steps, self.ledger.epochs)
        return self.loader.schedule(steps)

    def get_epsilon(self, delta: float) -> float:
        """Tight ε of the steps taken and the epochs begun, at δ: that of :meth:`report`."""
        return tight_epsilon(self.mechanism, self.schedule(), delta) if self.steps else 0.0

    def report(self, delta: float, **options: Any) -> Account:
        """Every notion of what was released; options as in :func:`recondite.account`."""
        if self.steps == 0:
            raise ValueError("nothing was released yet: train first")
        self._run.check_late()
        result = account(self.mechanism, self.schedule(), delta, **options)
        label = {True: (SIMULATION,), None: (UNLABELLED,), False: ()}[self.simulation]
        assumptions = (*label, *result.assumptions, *self._assumptions())
        return dataclasses.replace(result, assumptions=assumptions)

    def _assumptions(self) -> list[str]:
        """What the account rests on beside the mechanism and the schedule."""
        line = PER_RECORD.format("mean" if self._run.mean else "sum")
        if self._run.vouched:
            line += ' (vouched for by loss_reduction="per-record", not checked)'
        several = () if self._run.ranks.alone else (SAME_RECORDS,)
        rounded = (HALVES,) if self._run.rounded else ()
        return [line, *_PUBLIC.get(self.loader.sampling, ()), *several, *rounded]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries: counts and parameters, never a seed or a generator.

        The state of a mechanism that keeps one is part of it, as it was after the last step; of
        several processes the first one has it.
        """
        if not self._run.ranks.first and self.mechanism.stateful:
            raise ValueError(
                f"the state of {self.mechanism.name} is kept by the first process: save its "
                "checkpoint there (rank 0), and load it in all"
            )
        return {
            "schema_version": 3,
            "steps": self.steps,
            "epochs": self.ledger.epochs,
            "runs": {name: list(count) for name, count in self.ledger.runs().items()},
            **self._run.step_parameters(),
            "simulation": self.simulation,
            **self._run.handover.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Adds a checkpoint's releases to this engine's; it never lowers a count.

        None that its ledger knows already is counted again. A checkpoint of version 0.1.0 does not
        say whose releases it counts: all are added. A simulation makes this engine one too.

        Raises:
          ValueError: Its steps were made otherwise (mechanism, sampling, batch size, number of
            records), or it does not say how: under this engine's schedule they could cost less.
        """
        run = self._run
        check("checkpoint", state, run.step_parameters())
        run.handover.check_state(state)
        since = self.ledger.since(runs_of(state))
        if since and run.handover.state is not None:
            raise ValueError(
                f"checkpoint is older than {since} steps that the ledger counts (some of which may "
                f"not have happened): what {self.mechanism.name} remembers there was used in their "
                "noise already; start a new run"
            )
        self.ledger.take_over(runs_of(state), state.get("simulation"))
        run.handover.load_state_dict(state)
