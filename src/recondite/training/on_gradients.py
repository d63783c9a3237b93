"""Noise on gradients, or none: a run through the privacy engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from recondite.configuration import TrainingConfig
from recondite.notions import Account
from recondite.training.checkpoint import Stateful
from recondite.training.engine import SIMULATION, PrivacyEngine
from recondite.training.ledger import UNLABELLED
from recondite.training.protection import Request, Run
from recondite.training.record import DefencePart
from recondite.training.sampling import PrivateLoader

if TYPE_CHECKING:
    from recondite.training.canary import CanaryResult

__all__ = ["OnGradients"]


class OnGradients:
    """Bounds gradients and adds a mechanism's noise, as :class:`PrivacyEngine` does.

    Guarantee: that of the engine; what it released is accounted for, by its ledger also after a
    crash.
    """

    loader: PrivateLoader

    def __init__(self, run: Run) -> None:
        asked, config = run.asked, run.config
        self._run = run
        self._noisy = bool(config.mechanism.parameter)
        self._epsilon: float | None = None
        self.engine = PrivacyEngine(
            seed=config.seed,
            max_epsilon=asked.max_epsilon,
            delta=run.delta if asked.max_epsilon is not None else None,
            ledger=None if run.folder is None else run.folder / "ledger.json",
            secure=config.secure,
        )
        self.state: Mapping[str, Stateful] = {"engine": self.engine}

    @staticmethod
    def check(config: TrainingConfig, asked: Request) -> None:
        """Refuses what belongs to noise on records, and an audit without noise."""
        if asked.max_information is not None or asked.secret is not None:
            raise ValueError("max_information and secret belong to a channel: leave them out")
        if asked.audit and not config.mechanism.parameter:
            raise ValueError("audit needs a mechanism with noise: leave it out")

    def __enter__(self) -> OnGradients:
        self.engine.ledger.__enter__()
        try:
            self.loader = self._private()
            if self._run.asked.recorder is not None:
                self._run.asked.recorder.watch(
                    self.engine,
                    self._run.model,
                    records=len(self._run.records),
                    steps=self._run.config.total_steps(len(self._run.records)),
                )
        except BaseException as error:
            self.engine.ledger.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self.engine.ledger.__exit__(*error)

    def _private(self) -> PrivateLoader:
        run, config = self._run, self._run.config
        size = min(config.batch_size, len(run.records))
        options: dict[str, Any] = {
            "module": run.model,
            "optimizer": run.optimizer,
            "data_loader": DataLoader(run.records, batch_size=size),
            "mechanism": config.mechanism,
            "clipping": config.clipping,
            "max_grad_norm": config.max_grad_norm,
            "sampling": config.sampling,
            "max_batch_size": config.max_batch_size,
            "physical_batch_size": config.physical_batch_size,
        }
        if run.asked.target_epsilon is None:
            return self.engine.make_private(**options)[2]
        return self.engine.make_private_with_epsilon(
            target_epsilon=run.asked.target_epsilon,
            target_delta=run.delta,
            epochs=config.passes(len(run.records)),
            **options,
        )[2]

    def resumed(self, epochs: int) -> None:
        """Nothing to do: the engine's state has its steps."""

    def stepped(self) -> bool:
        """Whether the piece was the last of its batch."""
        return bool(self.loader.draw.last)

    @property
    def steps(self) -> int:
        """Steps of the engine, those of an interrupted run too."""
        return self.engine.steps

    def spent(self) -> dict[str, float | None]:
        """ε so far, computed ten times an epoch."""
        every = max(1, self.loader.batches // 10)
        if self._run.asked.running_epsilon and self._noisy and self.engine.steps % every == 0:
            self._epsilon = self.engine.get_epsilon(self._run.delta)
        return {"epsilon": self._epsilon}

    def finish(self) -> None:
        """Closes the ledger."""
        self.engine.ledger.close()

    def defence(self) -> DefencePart:
        """The mechanism as the engine configured it, bounds and batches."""
        config = self._run.config
        return {
            "name": config.defence.name,
            "parameters": self.engine.mechanism.parameters(),
            "clipping": config.clipping,
            "max_grad_norm": config.max_grad_norm,
            "sampling": self.loader.sampling,
            "max_batch_size": self.loader.max_batch_size,
            "secure": config.secure,
        }

    def privacy(self) -> Account | None:
        """The engine's report."""
        if not self._run.asked.accounted or not self._noisy:
            return None
        return self.engine.report(self._run.delta)

    @property
    def simulation(self) -> bool:
        """Whether the engine, or the ledger it went on with, had a seed."""
        return bool(self.engine.simulation)

    def notes(self, shared: list[str]) -> list[str]:
        """What the account does not cover, and why a run ended."""
        run, engine = self._run, self.engine
        notes = ["results are computed without noise: they are not private", *shared]
        if not self._noisy:
            pass  # nothing was promised that a known seed could take back
        elif engine.simulation:
            notes.insert(0, SIMULATION)
        elif engine.simulation is None:
            notes.append(UNLABELLED)
        planned = run.config.total_steps(len(run.records))
        if engine.steps < planned and engine.max_epsilon is not None:
            notes.append(f"training stopped before epsilon {engine.max_epsilon:g} was exceeded")
        return notes

    def audit(self) -> CanaryResult | None:
        """Canaries through the mechanism as the engine releases it."""
        if not self._run.asked.audit:
            return None
        from recondite.training.canary import audit_run  # only where asked for

        config = self._run.config
        return audit_run(config.mechanism, self.engine.mechanism, seed=config.seed)
