"""How far a run is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Progress"]


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
