"""The natural channel: the same noise in every direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from recondite.channels import _solve
from recondite.channels._records import Transform
from recondite.channels.base import Channel
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum

__all__ = ["NaturalChannel"]

Natural = TypeVar("Natural", bound="NaturalChannel")


@dataclass(frozen=True, eq=False, kw_only=True)
class NaturalChannel(Channel):
    """Noise N(0, σI): directions in which the data varies most stay the most visible.

    Guarantee: that of :class:`Channel`, with ½ Σ ln(1 + λ_i/σ) = capacity; directions that the
    spectrum left out are counted by their bound.

    >>> import numpy as np
    >>> channel = NaturalChannel.from_spectrum(Spectrum.from_covariance(np.eye(4)), capacity=2.0)
    >>> round(channel.noise_variance, 6)
    0.581977
    """

    name: ClassVar[str] = "natural"

    @property
    def noise_variance(self) -> float:
        """The variance σ of the noise in every direction."""
        return self.noise.variance

    @classmethod
    def fit(
        cls: type[Natural],
        data: Any,
        capacity: float,
        *,
        transform: Transform | None = None,
        method: str = "auto",
        rank: int | None = None,
    ) -> Natural:
        """Returns the channel for these records.

        Args:
          data: The records, as in :meth:`Spectrum.of`.
          capacity: The capacity in nats: what one noisy copy of a record may tell of it.
          transform: An encoder, as in :meth:`Spectrum.of`; the channel is then one for embeddings.
          method: How to find the spectrum, as in :meth:`Spectrum.of`.
          rank: As in :meth:`Spectrum.of`.
        """
        spectrum = Spectrum.of(data, transform=transform, method=method, rank=rank)
        return cls.from_spectrum(spectrum, capacity)

    @classmethod
    def from_spectrum(cls: type[Natural], spectrum: Spectrum, capacity: float) -> Natural:
        """Returns the channel with this capacity in nats for records of this covariance."""
        values, counts = spectrum.values, spectrum.counts
        variance = _solve.isotropic_variance(values, counts, capacity)
        ratios = values / variance
        return cls(
            spectrum=spectrum,
            requested=float(capacity),
            capacity_nats=_solve.information(ratios, counts),
            noise=Noise(dim=spectrum.dim, variance=variance),
            ratios=ratios,
            counts=counts,
        )
