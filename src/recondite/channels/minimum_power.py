"""The minimum-power channel: the least noise, in total, that meets a capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recondite.channels import _solve
from recondite.channels._records import Transform
from recondite.channels.base import Channel
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum

__all__ = ["MinimumPowerChannel"]


@dataclass(frozen=True, eq=False, kw_only=True)
class MinimumPowerChannel(Channel):
    """Noise of variance mλ_i/(λ_i + √(λ_i² + 2mλ_i)) along eigenvector i.

    Among all Gaussian noises with the same capacity (with the floored variances) it has the
    smallest expected squared norm: it lies between the natural channel, which it nears where
    λ_i is large against m, and the square root of the white one, which it nears where λ_i is
    small. As in the white channel, every one of the d directions gets noise.

    Guarantee: that of :class:`Channel`.

    Attributes:
      floor: The least variance assumed, as a share of the mean variance of a direction.
    """

    name: ClassVar[str] = "minimum_power"

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
    ) -> MinimumPowerChannel:
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
    ) -> MinimumPowerChannel:
        """Returns the channel for records of this covariance; arguments as in :meth:`fit`."""
        _solve.require_variance(spectrum.trace)
        inside, outside = _solve.floored(
            spectrum.eigenvalues, spectrum.dim, spectrum.trace, spectrum.discarded_bound, floor
        )
        values = np.append(inside, outside) if spectrum.discarded_dims else inside
        variances = _solve.least_power_variances(values, spectrum.counts, capacity)
        ratios = values / variances
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
