"""From bounded gradients to units of one record's bound, and from releases back.

Mechanisms work in these units only: whatever the clipping norm C and the divisor L of a run are,
one record moves what a mechanism gets by at most 1 (by √m with m layers bounded apart). This is
the one place that multiplies by C/L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recondite import _validate
from recondite.mechanisms.base import Mechanism
from recondite.numerics.random import is_torch

__all__ = ["Observed", "Units"]


@dataclass(frozen=True)
class Units:
    """What one unit is in the model's own numbers; NumPy arrays and torch tensors alike.

    Attributes:
      norms: C; or the bound of each part of the vector, where layers are bounded apart.
      batch_size: L, the public constant by which sums are divided.
      sizes: Coordinates of each part, in the order of the vector; None with one bound.
      length: What one unit of a release without scale becomes: a public constant.
    """

    norms: tuple[float, ...] = (1.0,)
    batch_size: float = 1.0
    sizes: tuple[int, ...] | None = None
    length: float = 1.0

    def __post_init__(self) -> None:
        for norm in self.norms:
            _validate.positive("norms", norm)
        _validate.positive("batch_size", self.batch_size)
        _validate.positive("length", self.length)
        parts = 1 if self.sizes is None else len(self.sizes)
        if len(self.norms) != parts:
            raise ValueError(f"norms must have {parts} values, one a part, got {len(self.norms)}")

    def of(self, bounded: Any, *, reuse: bool = False) -> Any:
        """Bounded gradients (a sum, or one row a record) in units of one record's bound.

        Args:
          bounded: In the model's numbers, coordinates on the last axis.
          reuse: Whether its memory may be written over.
        """
        return self._scaled(bounded, [1.0 / norm for norm in self.norms], reuse=reuse)

    def released(self, release: Any, mechanism: Mechanism) -> Any:
        """A release in the model's numbers: times C/L; a release without scale has its length.

        Args:
          release: What the mechanism made of a sum; or, at stage "record", the sum over records
            of what it made of them.
          mechanism: Whose release it is.
        """
        return self._scaled(release, self._factors(mechanism))

    def observed(self, gradient: Any, mechanism: Mechanism) -> Any:
        """What the mechanism released, from the gradient that an attacker sees.

        At stage "record" that is an average over records, of a batch of ``batch_size``.
        """
        share = self.batch_size if mechanism.stage == "record" else 1.0
        factors = [1.0 / (factor * share) for factor in self._factors(mechanism)]
        return self._scaled(gradient, factors)

    def expected(self, gradient: Any, mechanism: Mechanism) -> Any:
        """What the mechanism would get, from a bounded gradient as training averages it.

        Args:
          gradient: Sum over L of bounded gradients; one bounded row a record at stage "record".
          mechanism: Who gets it.
        """
        share = 1.0 if mechanism.stage == "record" else self.batch_size
        return self._scaled(gradient, [share / norm for norm in self.norms])

    def _factors(self, mechanism: Mechanism) -> list[float]:
        if not mechanism.scale_free:
            return [norm / self.batch_size for norm in self.norms]
        # A direction has its length whatever the batch; directions of records are averaged.
        share = self.batch_size if mechanism.stage == "record" else 1.0
        return [self.length / share] * len(self.norms)

    def _scaled(self, vector: Any, factors: list[float], *, reuse: bool = False) -> Any:
        if len(set(factors)) == 1:
            factor = factors[0]
            if factor == 1.0:
                return vector
            if not reuse:
                return vector * factor
            vector *= factor
            return vector
        assert self.sizes is not None
        if vector.shape[-1] != sum(self.sizes):
            raise ValueError(
                f"gradient must have {sum(self.sizes)} coordinates, got {vector.shape[-1]}"
            )
        if not reuse:
            vector = vector.clone() if is_torch(vector) else vector.copy()
        start = 0
        for size, factor in zip(self.sizes, factors, strict=True):
            vector[..., start : start + size] *= factor
            start += size
        return vector


@dataclass(frozen=True)
class Observed:
    """A mechanism as an attacker sees it: likelihoods of gradients in the model's numbers.

    Attributes:
      mechanism: Configured for the model.
      units: Of the run.
    """

    mechanism: Mechanism
    units: Units

    @property
    def per_record(self) -> bool:
        """Whether ``log_likelihood`` wants every record's gradient as a row."""
        return self.mechanism.stage == "record"

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Log-density of what was observed given bounded gradients, up to a constant.

        Args:
          release: The gradient that was seen.
          gradient: The batch's averaged bounded gradient, or one bounded row a record.
        """
        made, units = self.mechanism, self.units
        return made.log_likelihood(units.observed(release, made), units.expected(gradient, made))
