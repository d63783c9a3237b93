"""What a training released, step by step: what the attacker of the bounds' proofs sees.

Only simulations are recorded: a transcript holds sums without noise, which a mechanism is there to
hide. It serves attackers that replay the run; nothing in it is ever written to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from recondite.accounting.schedules import Schedule
from recondite.gradients.clipping import Bound
from recondite.gradients.handover import Turn
from recondite.mechanisms import Mechanism, Units

__all__ = ["LARGEST", "Recorder", "Step", "Transcript", "memory"]

LARGEST = 2 << 30  # bytes of a transcript in memory


@dataclass(frozen=True, eq=False)
class Step:
    """One step.

    Attributes:
      weights: The trainable parameters before it, joined.
      turn: The bounded sum, its release and the records of the batch, in units.
    """

    weights: Tensor
    turn: Turn


@dataclass(frozen=True, eq=False)
class Transcript:
    """Everything that a run released, and what it was made of.

    Attributes:
      steps: In their order, none missing.
      mechanism: As the run configured it.
      units: What its units are in the model's gradients.
      bound: How each record's gradient was bounded.
      schedule: How batches were drawn; an epoch that was begun counts as a whole one.
      taken: Steps that the run took.
      records: Size of the training set that batches' places refer to.
    """

    steps: Sequence[Step]
    mechanism: Mechanism
    units: Units
    bound: Bound
    schedule: Schedule
    taken: int
    records: int

    def __post_init__(self) -> None:
        if len(self.steps) != self.taken:
            raise ValueError(
                f"transcript has {len(self.steps)} steps where the run took {self.taken}: record "
                "the whole run, without a checkpoint to go on from"
            )
        dim = self.mechanism.required_dim()
        for place, step in enumerate(self.steps):
            sizes = {len(step.weights), len(step.turn.total), len(step.turn.release)}
            if sizes != {dim}:
                raise ValueError(
                    f"transcript's step {place} has {min(sizes - {dim})} numbers where the model "
                    f"has {dim} parameters: record the run it belongs to"
                )

    def load(self, model: nn.Module, step: Step) -> None:
        """Gives a model the weights that it had before a step."""
        torch.nn.utils.vector_to_parameters(
            step.weights, [p for p in model.parameters() if p.requires_grad]
        )


def memory(steps: int, model: nn.Module) -> int:
    """Bytes of a transcript: weights, sum and release of every step."""
    return (
        3 * steps * sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    )


class _Observable(Protocol):
    """What a recorder asks of a training engine."""

    @property
    def mechanism(self) -> Mechanism:
        """As it was configured for the model."""

    @property
    def units(self) -> Units:
        """Of the run."""

    @property
    def bound(self) -> Bound:
        """How a record's gradient is bounded."""

    @property
    def steps(self) -> int:
        """Steps taken."""

    def observe(self, callback: Callable[[Turn], None]) -> None:
        """Has a callback see every release."""

    def schedule(self) -> Schedule:
        """Of the steps taken."""


class Recorder:
    """Records a run from its first step to its last, in memory.

    ``train(…, recorder=recorder)`` has it watch; :meth:`transcript` then gives what it saw.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._engine: _Observable | None = None
        self._parameters: list[nn.Parameter] = []
        self._records = 0

    def watch(self, engine: _Observable, model: nn.Module, *, records: int, steps: int) -> None:
        """Begins to watch a run that has taken no step yet.

        Args:
          engine: Of the run, with a seed.
          model: That is trained.
          records: Size of its training set.
          steps: That it is going to take.

        Raises:
          ValueError: In one line, where the run is no simulation or takes too much memory.
        """
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        size = memory(steps, model)
        if size > LARGEST:
            raise ValueError(
                f"a transcript of {steps} steps would take {size / 2**30:.1f} GB of memory, more "
                f"than {LARGEST >> 30}: take fewer steps or a smaller model, or attack one update"
            )
        engine.observe(self._saw)
        self._engine, self._records = engine, records

    def _saw(self, turn: Turn) -> None:
        with torch.no_grad():
            weights = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        self._steps.append(Step(weights, turn))

    def transcript(self) -> Transcript | None:
        """What was seen; None of a run without an engine, whose noise is on records."""
        engine = self._engine
        if engine is None:
            return None
        return Transcript(
            tuple(self._steps),
            engine.mechanism,
            engine.units,
            engine.bound,
            engine.schedule(),
            engine.steps,
            self._records,
        )
