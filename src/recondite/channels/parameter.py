"""The controlled parameter channel: noise on gradients, solved anew at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from recondite import _validate as check
from recondite.channels.base import LIMITS
from recondite.channels.spectral import NaturalChannel
from recondite.channels.spectrum import Spectrum

__all__ = ["ControlledParameterChannel", "ParameterStep"]

_ESTIMATE = (
    "The covariance of the gradients is estimated from a sample at the current weights, and is "
    "itself a function of the private data: the capacity of a step is an estimate.",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ParameterStep(NaturalChannel):
    """The channel of one step: noise N(0, σI) on one gradient, at the weights of that step.

    ``capacity_nats`` is per step and per released gradient (of a batch: about the batch), and an
    estimate, for the covariance it is computed from is one.
    """

    name: ClassVar[str] = "parameter"

    @property
    def limits(self) -> tuple[str, ...]:
        """What the channel does not promise."""
        return _ESTIMATE + LIMITS


@dataclass(frozen=True)
class ControlledParameterChannel:
    """Re-solves f(σ) = capacity from the covariance of the gradients at each step (Eqs. 11, 15).

    A fixed noise on gradients does not keep a fixed capacity, for their covariance moves with the
    weights; noise on the records does. This channel follows the covariance instead. What it
    reports is an estimate, not a guarantee.

    Attributes:
      capacity: The capacity of each step, in nats.
      batch_size: The number B of independent records whose mean gradient is released; the
        covariance of one record's gradient is divided by it.

    >>> toy = ControlledParameterChannel(capacity=1.0)
    >>> step = toy.from_eigenvalues([16.0])  # the gradient 2WD of W²D at W = 2, D of variance 1
    >>> round(step.noise_variance, 6)        # 16/(e² − 1)
    2.504282
    """

    capacity: float
    batch_size: int = 1

    def __post_init__(self) -> None:
        check.positive("capacity", self.capacity)
        check.at_least("batch_size", self.batch_size, 1)

    def from_gradients(self, per_sample_gradients: Any) -> ParameterStep:
        """Returns the step for a sample of per-sample gradients (n, ...), at least 2 of them."""
        return self._step(Spectrum.of(per_sample_gradients))

    def from_covariance(self, matrix: ArrayLike) -> ParameterStep:
        """Returns the step for a covariance matrix of one record's gradient."""
        return self._step(Spectrum.from_covariance(matrix))

    def from_eigenvalues(self, eigenvalues: ArrayLike) -> ParameterStep:
        """Returns the step for the eigenvalues of that covariance."""
        return self._step(Spectrum.from_eigenvalues(eigenvalues))

    def _step(self, spectrum: Spectrum) -> ParameterStep:
        return ParameterStep.from_spectrum(spectrum.divided(self.batch_size), self.capacity)

    def total_information(self, steps: int) -> float:
        """Returns steps × capacity: what adaptive steps add up to at most, in nats (an estimate).

        No smaller total is known here: gradients at different weights are different functions of
        the same records, so the reuse formula of a channel in data space does not apply.
        """
        return check.at_least("steps", steps, 0) * self.capacity
