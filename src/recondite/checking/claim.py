"""A claim, and what it asks of one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from recondite import _validate
from recondite.accounting import FixedSize, Poisson, Schedule, epsilon
from recondite.checking.displacement import displacement
from recondite.mechanisms import Gaussian, Mechanism, Neighbouring
from recondite.notions.calibration import calibrate

__all__ = ["PrivacyClaim", "allowed"]

_MOST_NUMBERS = 20_000_000  # of a simulation
# δ at which one step is played: a few thousand releases resolve it.
GAME_DELTA = 0.02


@dataclass(frozen=True)
class PrivacyClaim:
    """(ε, δ) of a run, how its batches are said to be drawn, and with what kind of noise.

    Attributes:
      epsilon: ε of the whole run.
      delta: δ of the whole run.
      schedule: Sampling and steps, as told.
      mechanism: The kind of noise that is told; its strength does not matter.
    """

    epsilon: float
    delta: float
    schedule: Schedule
    mechanism: Mechanism = field(default_factory=partial(Gaussian, 1.0))

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        _validate.probability("delta", self.delta)
        if self.mechanism.stage != "sum":
            raise ValueError(
                f"mechanism must be one for sums: {self.mechanism.name} noises each record or a "
                "whole update, which a check does not know"
            )

    def __str__(self) -> str:
        told = ", ".join(
            f"{key.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in self.schedule.to_dict().items()
            if key != "sampling" and value is not None
        )
        kind = self.mechanism.title or self.mechanism.name
        return (
            f"ε = {self.epsilon:g} at δ = {self.delta:g}, {kind} noise, "
            f"{self.schedule.sampling} batches ({told})"
        )

    @property
    def replaced(self) -> bool:
        """Whether the claim compares data sets in which a record is replaced, not left out."""
        return self.schedule.neighbouring(self.mechanism) is Neighbouring.REPLACE

    def needed(self, dim: int) -> Mechanism:
        """The weakest noise of this kind that meets the claim, for so many coordinates."""
        return calibrate(
            self.mechanism.with_dim(dim),
            self.epsilon,
            "epsilon",
            self.schedule,
            relative=1e-4,
            delta=self.delta,
        ).mechanism

    def one_step(self, needed: Mechanism, *, replaced: bool) -> float:
        """ε at ``GAME_DELTA`` of one step that a record takes part in for certain."""
        once = FixedSize(1, 1, 1) if replaced else Poisson(1.0, 1)
        return epsilon(needed, once, GAME_DELTA)

    @cached_property
    def rate(self) -> float:
        """With what probability a record is in a batch."""
        times, chance = self.schedule.participations()
        return chance * times / self.schedule.steps


def allowed(needed: Mechanism, distance: int, rng: np.random.Generator) -> float:
    """How far so many records may move a release, in standard deviations of its noise.

    Noise of σ on sums: a record moves them by 1. A release without scale moves by no more than
    from one direction to the opposite, whatever the records; how far that is, is simulated.

    Args:
      needed: The noise that the claim needs.
      distance: Records added and removed.
      rng: For the simulation.
    """
    if not needed.scale_free:
        return distance / needed.strength
    dim = needed.required_dim()
    direction = np.ones(dim) / dim**0.5
    count = max(200, min(20_000, _MOST_NUMBERS // dim))
    sides = [
        needed.release(np.broadcast_to(sign * direction, (count, dim)).copy(), rng)
        for sign in (1.0, -1.0)
    ]
    total, start = 0.0, 0
    # Parts with directions of their own are independent: squared distances add.
    for size in needed.likelihood_blocks() or (dim,):
        place = slice(start, start + size)
        moved = displacement(sides[0][:, place].sum(1), sides[1][:, place].sum(1), 0.5)
        # Four standard errors up: a limit too low by chance would contradict what is right.
        high = moved.estimate * (1 + 4 / float(np.sqrt(4 * count))) + 4 * float(np.sqrt(2 / count))
        total, start = total + high**2, start + size
    return float(np.sqrt(total))
