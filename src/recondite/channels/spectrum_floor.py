"""What the channels that shape noise like the data share: a floor under every variance."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from recondite.channels import _solve
from recondite.channels._records import Transform
from recondite.channels.base import Channel
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum

__all__ = ["FlooredChannel"]

F = TypeVar("F", bound="FlooredChannel")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class FlooredChannel(Channel):
    """A channel whose noise follows the spectrum.

    A direction without variance would get no noise, and would betray any record that does vary
    there. So variances below a floor count as the floor, the complement of a truncated spectrum
    as a bound on its variances, and the capacity is computed with those values: every one of the
    d directions gets noise.

    Attributes:
      floor: The least variance assumed, as a share of the mean variance of a direction.
    """

    floor: float

    @classmethod
    def fit(
        cls: type[F],
        data: Any,
        capacity: float,
        *,
        floor: float = 1e-6,
        transform: Transform | None = None,
        method: str = "auto",
        rank: int | None = None,
    ) -> F:
        """Returns the channel for these records.

        Args:
          data: The records, as in :meth:`Spectrum.of`.
          capacity: The capacity in nats: what one noisy copy of a record may tell of it.
          floor: The least variance assumed in any direction, as a share of the mean variance.
          transform: An encoder, as in :meth:`Spectrum.of`; the channel is then one for embeddings.
          method: How to find the spectrum, as in :meth:`Spectrum.of`.
          rank: As in :meth:`Spectrum.of`.
        """
        spectrum = Spectrum.of(data, transform=transform, method=method, rank=rank, vectors=True)
        return cls.from_spectrum(spectrum, capacity, floor=floor)

    @classmethod
    def from_spectrum(
        cls: type[F], spectrum: Spectrum, capacity: float, *, floor: float = 1e-6
    ) -> F:
        """Returns the channel for records of this covariance; arguments as in :meth:`fit`."""
        _solve.require_variance(spectrum.trace)
        inside, outside = _solve.floored(
            spectrum.eigenvalues, spectrum.dim, spectrum.trace, spectrum.discarded_bound, floor
        )
        values = np.append(inside, outside) if spectrum.discarded_dims else inside
        variances, ratios = cls._variances(values, spectrum, capacity)
        return cls(
            spectrum=spectrum,
            requested=float(capacity),
            capacity_nats=_solve.information(ratios, spectrum.counts),
            noise=Noise(
                dim=spectrum.dim,
                variance=float(variances[-1]),
                along=variances[: spectrum.rank],
                spectrum=spectrum,
            ),
            ratios=ratios,
            counts=spectrum.counts,
            floor=float(floor),
        )

    @staticmethod
    @abstractmethod
    def _variances(values: Array, spectrum: Spectrum, capacity: float) -> tuple[Array, Array]:
        """Noise variances along floored eigenvalues, and eigenvalue over noise for each."""
