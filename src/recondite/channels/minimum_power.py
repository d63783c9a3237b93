"""The minimum-power channel: the least noise, in total, for a given capacity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from recondite.channels import _solve
from recondite.channels.spectrum import Spectrum
from recondite.channels.spectrum_floor import Array, FlooredChannel

__all__ = ["MinimumPowerChannel"]


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
