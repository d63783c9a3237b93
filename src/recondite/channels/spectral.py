"""Channels whose noise follows from the spectrum of the records: natural, white, minimum-power."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from recondite.channels import _solve
from recondite.channels._records import Transform
from recondite.channels.base import Channel
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum

__all__ = ["FlooredChannel", "MinimumPowerChannel", "NaturalChannel", "WhiteChannel"]

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


@dataclass(frozen=True, eq=False, kw_only=True)
class WhiteChannel(FlooredChannel):
    """Noise of variance λ_i/(e^{2κ/d} − 1) along eigenvector i, shaped like the data itself.

    Guarantee: that of :class:`Channel`; every direction gets noise (:class:`FlooredChannel`).
    """

    name: ClassVar[str] = "white"

    @staticmethod
    def _variances(values: Array, spectrum: Spectrum, capacity: float) -> tuple[Array, Array]:
        ratio = _solve.equal_ratio(spectrum.dim, capacity)
        variances = _solve.in_range(values / ratio, capacity)
        return variances, np.full(spectrum.counts.size, ratio)


@dataclass(frozen=True, eq=False, kw_only=True)
class MinimumPowerChannel(FlooredChannel):
    """Noise of variance mλ_i/(λ_i + √(λ_i² + 2mλ_i)) along eigenvector i.

    Among all Gaussian noises with the same capacity (with the floored variances) it has the
    smallest expected squared norm: it lies between the natural channel, which it nears where
    λ_i is large against m, and the square root of the white one, which it nears where λ_i is
    small.

    Guarantee: that of :class:`Channel`; every direction gets noise (:class:`FlooredChannel`).
    """

    name: ClassVar[str] = "minimum-power"

    @staticmethod
    def _variances(values: Array, spectrum: Spectrum, capacity: float) -> tuple[Array, Array]:
        variances = _solve.least_power_variances(values, spectrum.counts, capacity)
        return variances, values / variances
