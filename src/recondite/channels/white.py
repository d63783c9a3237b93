"""The white channel: every direction of the data keeps the same share of information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recondite.channels import _solve
from recondite.channels.spectrum import Spectrum
from recondite.channels.spectrum_floor import Array, FlooredChannel

__all__ = ["WhiteChannel"]


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
