"""How a training function tells the mod what its engine released: within one call, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from recondite.federated.ledger import Drawn, Line
from recondite.federated.policy import StayOutError
from recondite.federated.update import Arrays

__all__ = ["TrainingReport", "listening", "only_trained", "reported", "trained_with"]


@dataclass(frozen=True)
class TrainingReport:
    """What one local training released.

    Attributes:
      mechanism: Name of the mechanism at every step.
      parameters: Its parameters, configured for the model.
      schedule: How batches were drawn: sampling, steps, passes begun, batch size, records.
      names: The parameters that were trained, and nothing else was.
      simulation: Whether the noise followed from a seed.
      counted: Called once the ledger holds it: steps of a round that stayed out count next time,
        for a model that goes on from them would release them too.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    schedule: Drawn
    names: tuple[str, ...]
    simulation: bool
    counted: Callable[[], None]


_REPORTS: ContextVar[list[TrainingReport] | None] = ContextVar("recondite_reports", default=None)


def trained_with(engine: Any, module: Any, *, passes: int | None = None) -> None:
    """Tells the mod what a local training with a private engine released.

    Call it at the end of a training function, before the reply is made. Steps are the engine's
    own count since the last call: nothing that it noised can be left out. Outside a defended
    round this does nothing.

    Args:
      engine: The :class:`~recondite.PrivacyEngine` that trained.
      module: The model it trained.
      passes: For seeded simulations only, where an epoch goes on over rounds: how many this round
        began. Otherwise the engine's own count.
    """
    reports = _REPORTS.get()
    if reports is None:
        return
    if passes is not None and engine.seed is None:
        raise ValueError("passes is for seeded simulations: the engine counts its own")
    earlier = getattr(engine, "_told_federation", (0, 0))
    now = (engine.steps, engine.ledger.epochs)
    steps, begun = engine.steps - earlier[0], engine.ledger.epochs - earlier[1]
    begun = begun if passes is None else passes
    schedule = engine.schedule(max(steps, 1)).to_dict()
    loader = engine.loader
    reports.append(
        TrainingReport(
            mechanism=engine.mechanism.name,
            parameters=engine.mechanism.parameters(),
            schedule={
                "sampling": schedule["sampling"],
                "steps": steps,
                "passes": begun,
                "batch_size": loader.batch_size,
                "records": loader.records,
            },
            names=tuple(name for name, p in module.named_parameters() if p.requires_grad),
            simulation=engine.seed is not None,
            counted=lambda: setattr(engine, "_told_federation", now),
        )
    )


@contextmanager
def listening() -> Iterator[list[TrainingReport]]:
    """Collects the reports of what runs inside."""
    reports: list[TrainingReport] = []
    token = _REPORTS.set(reports)
    try:
        yield reports
    finally:
        _REPORTS.reset(token)


def reported(report: TrainingReport) -> Line:
    """The part of a ledger's line that a training is."""
    return {
        "mechanism": report.mechanism,
        "parameters": report.parameters,
        "schedule": report.schedule,
    }


def only_trained(before: Arrays, after: Arrays, report: TrainingReport) -> Arrays:
    """What was trained privately, and the rest as it was received.

    Flower's older arrays have numbers for names: then only their order says which is which, and
    a model with buffers cannot be told apart from one without.
    """
    if all(name.isdigit() for name in before):
        if len(before) != len(report.names):
            raise StayOutError("arrays without names must be the trained parameters and no more")
        return after
    missing = [name for name in report.names if name not in before]
    if missing:
        raise StayOutError(f"{missing[0]} was trained and is not among the arrays received")
    names = set(report.names)
    return {name: after[name] if name in names else array for name, array in before.items()}
