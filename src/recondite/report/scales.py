"""Axes of the static charts: linear or logarithmic, with readable ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recondite.report.words import figure

__all__ = ["Scale", "scale"]


@dataclass(frozen=True)
class Scale:
    """Maps values to the unit interval."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        """Where a value lies between both ends, 0 to 1."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (
                math.log10(self.high) - math.log10(self.low)
            )
        return (value - self.low) / (self.high - self.low)

    def name(self, tick: float) -> str:
        """A tick's label, without zeros that say nothing."""
        if tick != 0 and not 1e-4 <= abs(tick) < 1e5:
            power = round(math.log10(abs(tick)))
            if math.isclose(abs(tick), 10.0**power):
                return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
            return figure(tick, 2)
        return f"{tick:.6g}".replace("-", "−")


def scale(values: Sequence[float], *, log: bool) -> Scale:
    """A scale over all finite values; logarithmic only where every value is positive."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Scale(0.0, 1.0, False, (0.0, 0.5, 1.0))
    low, high = min(finite), max(finite)
    if log and low > 0 and high / low > 5:
        return _logarithmic(low, high)
    return _linear(low, high)


def _linear(low: float, high: float) -> Scale:
    if high - low < 1e-9 * max(1.0, abs(high)):
        pad = 0.5 * abs(high) or 0.5
        low, high = low - pad, high + pad
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough * 0.999)
    pad = 0.06 * (high - low)
    low, high = low - pad, high + pad
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(first, last + 1))
    return Scale(low, high, False, ticks)


def _logarithmic(low: float, high: float) -> Scale:
    pad = (high / low) ** 0.06
    low, high = low / pad, high * pad
    decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    stride = max(1, math.ceil(len(decades) / 6))
    ticks = [10.0**d for d in decades if d % stride == 0]
    if len(ticks) < 3:
        wide = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [m * 10.0**d for d in wide for m in (1, 2, 5) if low <= m * 10.0**d <= high]
    return Scale(low, high, True, tuple(ticks))
