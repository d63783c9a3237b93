"""Numbers as a person reads them. A bound is never rounded to the side that flatters it."""

from __future__ import annotations

import math

from recondite.notions.bounds import format_bound

__all__ = ["at_least", "at_most", "figure", "percent", "score", "several", "span"]


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
    return f"{value:,.{decimals}f}".replace("-", "−").replace(",", "\u202f")


def at_most(value: float | None, digits: int = 3) -> str:
    """An upper bound, rounded up."""
    return format_bound(value, digits, show=figure)


def at_least(value: float | None, digits: int = 3) -> str:
    """A lower bound, rounded down."""
    return format_bound(value, digits, "lower", show=figure)


def percent(value: float | None) -> str:
    """A share with one decimal."""
    return "–" if value is None else f"{100 * value:.1f} %".replace("-", "−")


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
    return f"{count:,} {one if count == 1 else many or one + 's'}".replace(",", "\u202f")


def _superscript(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
