"""The white channel: every direction of the data keeps the same share of information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recondite.channels import _solve
from recondite.channels._records import Transform
from recondite.channels.base import Channel
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum

__all__ = ["WhiteChannel"]


@dataclass(frozen=True, eq=False, kw_only=True)
class WhiteChannel(Channel):
    """Noise of variance λ_i/(e^{2κ/d} − 1) along eigenvector i, shaped like the data itself.

    A direction without variance would get no noise, and would betray any record that does vary
    there. So variances below a floor count as the floor, the complement of a truncated spectrum
    as a bound on its variances, and the capacity is computed with those values: every one of the
    d directions gets noise.

    Guarantee: that of :class:`Channel`.

    Attributes:
      floor: The least variance assumed, as a share of the mean variance of a direction.
    """

    name: ClassVar[str] = "white"

    floor: float

    @classmethod
    def fit(
        cls,
        data: Any,
        capacity: float,
        *,
        floor: float = 1e-6,
        transform: Transform | None = None,
        method: str = "auto",
        rank: int | None = None,
    ) -> WhiteChannel:
        """Returns the channel for these records.

        Args:
          data: The records, as in :meth:`Spectrum.of`.
          capacity: The capacity in nats: what one noisy copy of a record may tell of it.
          floor: The least variance assumed in any direction, as a share of the mean variance.
          transform: An encoder, as in :meth:`Spectrum.of`; the channel is then one for embeddings.
          method: How to find the spectrum, as in :meth:`Spectrum.of`.
          rank: As in :meth:`Spectrum.of`.
        """
        spectrum = Spectrum.of(data, transform=transform, method=method, rank=rank)
        return cls.from_spectrum(spectrum, capacity, floor=floor)

    @classmethod
    def from_spectrum(
        cls, spectrum: Spectrum, capacity: float, *, floor: float = 1e-6
    ) -> WhiteChannel:
        """Returns the channel for records of this covariance; arguments as in :meth:`fit`."""
        _solve.require_variance(spectrum.trace)
        inside, outside = _solve.floored(
            spectrum.eigenvalues, spectrum.dim, spectrum.trace, spectrum.discarded_bound, floor
        )
        ratio = _solve.equal_ratio(spectrum.dim, capacity)
        variances = _solve.in_range(np.append(inside, outside) / ratio, capacity)
        ratios = np.full(spectrum.counts.size, ratio)
        return cls(
            spectrum=spectrum,
            requested=float(capacity),
            capacity_nats=_solve.information(ratios, spectrum.counts),
            noise=Noise(
                dim=spectrum.dim,
                variance=float(variances[-1]),
                along=variances[:-1],
                spectrum=spectrum,
            ),
            ratios=ratios,
            counts=spectrum.counts,
            floor=float(floor),
        )
