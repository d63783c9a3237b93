"""Numbers as a person reads them. A bound is never rounded to the side that flatters it."""

from __future__ import annotations

import math
from collections.abc import Callable

from recondite.notions.bounds import format_bound

__all__ = [
    "at_least",
    "at_most",
    "chance",
    "chance_at_most",
    "chance_ends",
    "figure",
    "in_ten",
    "in_ten_at_most",
    "in_ten_span",
    "percent",
    "score",
    "several",
    "span",
    "whole",
]


# What binary fractions cannot say is no excess: 0.3 is 3 in 10, not 3.1.
_SLACK = 1e-9


def figure(value: float | None, digits: int = 3) -> str:
    """A measured number, rounded to the nearest: – where there is none, ∞ where it is."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e7 or size < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa} × 10{_superscript(int(exponent))}".replace("-", "−")
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}".replace("-", "−")


def at_most(value: float | None, digits: int = 3) -> str:
    """An upper bound, rounded up."""
    return format_bound(value, digits, show=figure)


def at_least(value: float | None, digits: int = 3) -> str:
    """A lower bound, rounded down."""
    return format_bound(value, digits, "lower", show=figure)


def percent(value: float | None) -> str:
    """A share with one decimal."""
    return "–" if value is None else f"{100 * value:.1f}%".replace("-", "−")


def whole(value: float) -> str:
    """A share in whole percents; what rounds to nothing has no sign."""
    return f"{round(100 * value)}%".replace("-", "−")


def chance(value: float) -> str:
    """A measured probability in percent, as short as it can be said: 30%, 0.4%."""
    return f"{float(f'{100 * value:.2g}'):g}%" if value < 0.995 else f"{100 * value:.3g}%"


def chance_at_most(value: float) -> str:
    """A probability that is an upper bound, in percent, rounded up."""
    steps = 1000 if value >= 0.01 else 100_000  # tenths of a percent, thousandths of a small one
    return f"{100 * min(steps, math.ceil(steps * value)) / steps:.4g}%"


def chance_ends(low: float, high: float) -> tuple[str, str]:
    """The ends of an interval of chances in percent, the lower rounded down and the upper up."""
    return _outward(low, math.floor, _SLACK), _outward(high, math.ceil, -_SLACK)


def _outward(value: float, whole: Callable[[float], int], slack: float) -> str:
    """With the digits of :func:`chance`, rounded to one side."""
    share = 100 * value
    if share <= 0:
        return "0%"
    step = 10.0 ** (math.floor(math.log10(share)) - (1 if value < 0.995 else 2))
    return f"{min(100.0, whole(share / step + slack) * step):.3g}%"


def in_ten(value: float, count: int = 10) -> str:
    """A measured chance as a person says it: 3 in 10, 2.1 in 10; of a larger crowd 4 in 1,000."""
    return f"{_rounded(value, count, round):,g} in {count:,}"


def in_ten_at_most(value: float, count: int = 10) -> str:
    """A chance that is an upper bound, as a person says it, rounded up."""
    return f"{_rounded(min(1.0, value), count, math.ceil, -_SLACK):,g} in {count:,}"


def in_ten_span(low: float, high: float, count: int = 10) -> str:
    """The ends of an interval of chances, the lower rounded down and the upper up."""
    ends = _rounded(low, count, math.floor, _SLACK), _rounded(high, count, math.ceil, -_SLACK)
    return f"{ends[0]:,g} to {ends[1]:,g} in {count:,}"


def _rounded(value: float, count: int, whole: Callable[[float], int], slack: float = 0.0) -> float:
    """To a tenth of one in ten, to one in a larger crowd."""
    parts = 10 if count == 10 else 1
    return whole(parts * count * value + slack) / parts


def score(value: float | None) -> str:
    """A score on a fixed scale (SSIM, a correlation): two decimals, never minus zero."""
    if value is None:
        return "–"
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def span(low: float | None, high: float | None, *, share: bool = False) -> str:
    """An interval, or nothing where there is none."""
    if low is None or high is None:
        return ""
    ends = (percent(low), percent(high)) if share else (figure(low), figure(high))
    return f"[{ends[0]}, {ends[1]}]"


def several(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
