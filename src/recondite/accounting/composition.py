"""A whole run as data: which laws were released, and how often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recondite.laws import LossLaw

__all__ = ["Composition"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Composition:
    """Adaptive composition of independent releases: the pairs multiply, the losses add.

    Attributes:
      parts: Each law with the number of times it was released.
    """

    parts: tuple[tuple[LossLaw, int], ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[LossLaw, int]]) -> Composition:
        """Joins parts that share a law and drops those that were never released."""
        counts: dict[LossLaw, int] = {}
        for law, count in parts:
            if count:
                counts[law] = counts.get(law, 0) + count
        return cls(tuple(counts.items()))

    def __add__(self, other: Composition) -> Composition:
        return Composition.of([*self.parts, *other.parts])

    @property
    def releases(self) -> int:
        """The number of releases composed."""
        return sum(count for _, count in self.parts)

    @property
    def supremum(self) -> float:
        """Pure ε of the run."""
        return sum(count * law.supremum for law, count in self.parts)

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Rényi divergence of the run."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        total = np.zeros_like(alpha)
        for law, count in self.parts:
            total += count * law.renyi(alpha)
        return total
