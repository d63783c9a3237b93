"""What stands between records and weights in a training run: noise on gradients, or on records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from recondite.configuration import TrainingConfig
from recondite.records import Records

if TYPE_CHECKING:
    from recondite.attacks.transcript import Recorder
    from recondite.notions import Account
    from recondite.training.canary import CanaryResult
    from recondite.training.checkpoint import Stateful
    from recondite.training.record import DefencePart

__all__ = ["Progress", "Protection", "Request", "Run"]


@dataclass(frozen=True)
class Progress:
    """How far a run is. Loss and accuracy are not private.

    Attributes:
      epoch: Epochs finished.
      step: Steps finished, of this run.
      steps: Steps planned.
      loss: Average training loss of recent batches.
      epsilon: Tight ε so far; None without a δ or without noise.
      information: Nats told of a record so far, by a channel; None without one.
    """

    epoch: int
    step: int
    steps: int
    loss: float
    epsilon: float | None
    information: float | None = None


@dataclass(frozen=True)
class Request:
    """What a call of ``train`` asks for beside the configuration; fields as there."""

    data_dir: Any = None
    delta: float | None = None
    target_epsilon: float | None = None
    max_epsilon: float | None = None
    max_information: float | None = None
    secret: Any = None
    audit: bool = False
    running_epsilon: bool = True
    accounted: bool = True
    recorder: Recorder | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """What a protection is put on.

    Attributes:
      config: What is trained.
      asked: Limits and reports.
      folder: Where the run is written; None for nowhere.
      delta: δ.
      records: The training records, scaled.
      model: The network.
      optimizer: Its optimizer.
    """

    config: TrainingConfig
    asked: Request
    folder: Path | None
    delta: float
    records: Records
    model: nn.Module
    optimizer: torch.optim.Optimizer


class Protection(Protocol):
    """One way to protect a run; the loop is the same for all.

    Guarantee: ``privacy`` covers every step that the loop took on batches of ``loader``, those of
    an interrupted run too, and is an upper bound; None where nothing is promised or asked for.

    Attributes:
      state: By the name in a checkpoint: what else is stored there.
    """

    state: Mapping[str, Stateful]

    def __init__(self, run: Run) -> None: ...

    @property
    def loader(self) -> Iterable[Any]:
        """Batches or pieces of them, one pass at a time."""

    @staticmethod
    def check(config: TrainingConfig, asked: Request) -> None:
        """Refuses, before anything is read or written, what it cannot do."""

    def __enter__(self) -> Protection:
        """Puts it on the model or the records; holds its ledger until the end."""

    def __exit__(self, *error: object) -> None: ...

    def resumed(self, epochs: int) -> None:
        """Told, before the first step, how many epochs a checkpoint has behind it."""

    def stepped(self) -> bool:
        """Asked after every piece: whether it ended a step."""

    @property
    def steps(self) -> int:
        """Steps so far."""

    def spent(self) -> dict[str, float | None]:
        """What progress shows: fields of :class:`Progress`."""

    def finish(self) -> None:
        """Told after the last step."""

    def defence(self) -> DefencePart:
        """What a record says of the defence."""

    def privacy(self) -> Account | None:
        """The account."""

    @property
    def simulation(self) -> bool:
        """Whether the noise followed from a seed."""

    def notes(self, shared: list[str]) -> list[str]:
        """What a reader should know, with what holds for every run in its place."""

    def audit(self) -> CanaryResult | None:
        """A canary audit, where one was asked for."""
