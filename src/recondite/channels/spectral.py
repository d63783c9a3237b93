"""Channels whose noise follows from the spectrum of the records: natural, white, minimum-power."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from recondite import _validate as check
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
Directions = int | Literal["auto"] | None
_SPARED = 0.1  # the share of its power by which noise that is alike in a tail may differ
_VARIANCE = 0.05  # the share of the records' variance that may lie there


@dataclass(frozen=True, eq=False)
class Variances:
    """Variances, none below the floor, that noise may follow one by one or by their mean.

    Attributes:
      values: Retained variances, descending, and the mean of the discarded ones last, if any.
      counts: How many directions share each.
      rank: How many are retained.
    """

    values: Array
    counts: Array
    rank: int

    @classmethod
    def of(cls, spectrum: Spectrum, floor: float) -> Variances:
        """The variances of a spectrum.

        The discarded ones count as their mean, or as the floor: of all variances with a total, the
        logarithm of 1 + λ/σ being concave, equal ones tell most.
        """
        values = spectrum.values
        _, least = _solve.floored(values, spectrum.dim, spectrum.trace, 0.0, floor)
        return cls(np.maximum(values, least), spectrum.counts, spectrum.rank)

    def collapsed(self, followed: int) -> Array:
        """The first variances, and the mean of all others."""
        if followed == self.values.size:
            return self.values
        rest = np.average(self.values[followed:], weights=self.counts[followed:])
        return np.append(self.values[:followed], rest)

    def varied(self, share: float) -> int:
        """How many directions it takes for a share of the variance: one at least."""
        held = np.cumsum((self.counts * self.values)[: self.rank])
        total = float(self.counts @ self.values)
        return min(int(np.searchsorted(held, share * total)) + 1, self.rank)

    def over_all(self, variances: Array) -> Array:
        """Noise variances along some directions, repeated for all others that have the last one."""
        if variances.size >= self.values.size:
            return variances
        others = self.values.size - (variances.size - 1)
        return np.concatenate([variances[:-1], np.full(others, variances[-1])])


@dataclass(frozen=True, eq=False, kw_only=True)
class FlooredChannel(Channel):
    """A channel whose noise follows the spectrum.

    A direction without variance would get no noise, and would betray any record that does vary
    there. So variances below a floor count as the floor, the complement of a truncated spectrum
    as a bound on its variances, and the capacity is computed with those values: every one of the
    d directions gets noise.

    Noise along all d eigenvectors takes products with a d×d matrix. With ``directions`` = r it
    follows the r leading ones, and is alike in the d − r others: there the rule is asked for
    the mean of their variances, and what it answers is scaled, together with the noise along the
    leading ones, until the information of *that* noise is the capacity, the sum running over the
    variances as they are. A draw then takes O(d·r), and the guarantee is the same.

    Attributes:
      floor: The least variance assumed, as a share of the mean variance of a direction.
      directions: How many leading eigenvectors the noise follows; None for all.
    """

    floor: float
    directions: int | None = None

    @classmethod
    def fit(
        cls: type[F],
        data: Any,
        capacity: float,
        *,
        floor: float = 1e-6,
        directions: Directions = None,
        transform: Transform | None = None,
        method: str = "auto",
        rank: int | None = None,
    ) -> F:
        """Returns the channel for these records.

        Args:
          data: The records, as in :meth:`Spectrum.of`.
          capacity: The capacity in nats: what one noisy copy of a record may tell of it.
          floor: The least variance assumed in any direction, as a share of the mean variance.
          directions: As in :meth:`from_spectrum`.
          transform: An encoder, as in :meth:`Spectrum.of`; the channel is then one for embeddings.
          method: How to find the spectrum, as in :meth:`Spectrum.of`.
          rank: As in :meth:`Spectrum.of`.
        """
        spectrum = Spectrum.of(data, transform=transform, method=method, rank=rank, vectors=True)
        return cls.from_spectrum(spectrum, capacity, floor=floor, directions=directions)

    @classmethod
    def from_spectrum(
        cls: type[F],
        spectrum: Spectrum,
        capacity: float,
        *,
        floor: float = 1e-6,
        directions: Directions = None,
    ) -> F:
        """Returns the channel for records of this covariance.

        Args:
          spectrum: That of the records.
          capacity: As in :meth:`fit`.
          floor: As in :meth:`fit`.
          directions: How many leading eigenvectors the noise follows. None follows all that the
            spectrum has. "auto" follows as few as hold 95% of the variance and leave the power of
            the noise within 10% of what it would be, and all where that takes more than half.
        """
        _solve.require_variance(spectrum.trace)
        if directions is not None:
            made = cls._following(spectrum, capacity, floor, directions)
            if made is not None:
                return made
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

    def following(self, directions: Directions = "auto") -> FlooredChannel:
        """Returns the channel of this spectrum and capacity with noise along fewer directions.

        Args:
          directions: As in :meth:`from_spectrum`.
        """
        made: FlooredChannel = type(self).from_spectrum(
            self.spectrum, self.requested, floor=self.floor, directions=directions
        )
        return made

    @classmethod
    def _following(
        cls: type[F], spectrum: Spectrum, capacity: float, floor: float, directions: Directions
    ) -> F | None:
        """The channel whose noise follows some directions only; None where it follows all."""
        split = Variances.of(spectrum, floor)
        if directions == "auto":
            followed = cls._enough(split, capacity)
            if 2 * followed > spectrum.rank:
                return None
        else:
            followed = check.at_least("directions", directions, 1)
            if followed > spectrum.rank:
                raise ValueError(
                    f"directions must be at most {spectrum.rank}, the eigenvectors that the "
                    f"spectrum has, got {followed}"
                )
        if followed == spectrum.rank:
            return None
        variances = cls._alike_outside(split, followed, capacity)
        ratios = split.values / split.over_all(variances)
        return cls(
            spectrum=spectrum,
            requested=float(capacity),
            capacity_nats=_solve.information(ratios, split.counts),
            noise=Noise(
                dim=spectrum.dim,
                variance=float(variances[-1]),
                along=variances[:-1],
                spectrum=spectrum,
            ),
            ratios=ratios,
            counts=split.counts,
            floor=float(floor),
            directions=followed,
        )

    @classmethod
    def _alike_outside(cls, split: Variances, followed: int, capacity: float) -> Array:
        """Noise variances along ``followed`` directions, and the one of all others last."""
        shares = split.collapsed(followed) / float(split.values[0])
        relative = split.values / float(split.values[0])

        def nats(multiplier: float) -> float:
            with np.errstate(over="ignore"):
                ratios = relative / split.over_all(cls._rule(shares, multiplier))
            return _solve.information(ratios, split.counts)

        multiplier = _solve.met(nats, capacity)
        variances = float(split.values[0]) * cls._rule(shares, multiplier)
        return _solve.in_range(variances, capacity)

    @staticmethod
    @abstractmethod
    def _rule(values: Array, multiplier: float) -> Array:
        """Noise variances along variances, growing with a multiplier."""

    @classmethod
    def _enough(cls, split: Variances, capacity: float) -> int:
        """How many directions the noise has to follow to be nearly what it would be."""
        whole = cls._power(split, split.rank, capacity)
        low, high = split.varied(1 - _VARIANCE) - 1, split.rank  # all are enough
        while high - low > 1:
            middle = (low + high) // 2
            enough = abs(cls._power(split, middle, capacity) - whole) <= _SPARED * whole
            low, high = (low, middle) if enough else (middle, high)
        return high

    @classmethod
    def _power(cls, split: Variances, followed: int, capacity: float) -> float:
        variances = split.over_all(cls._alike_outside(split, followed, capacity))
        return float(split.counts @ variances)

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

    @staticmethod
    def _rule(values: Array, multiplier: float) -> Array:
        return values * multiplier


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

    @staticmethod
    def _rule(values: Array, multiplier: float) -> Array:
        return _solve.least_power(values, multiplier)
