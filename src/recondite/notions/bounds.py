"""Bounds as people read them: never rounded to the side that flatters them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Literal

__all__ = ["Direction", "format_bound", "plain_figure", "round_bound"]

Direction = Literal["upper", "lower"]

_TOWARDS = {"upper": ROUND_CEILING, "lower": ROUND_FLOOR}


def round_bound(value: float, digits: int = 4, direction: Direction = "upper") -> float:
    """The nearest number of so many digits on the safe side of a bound.

    Guarantee: the result is never below ``value`` for an upper bound, never above it for a lower.
    """
    if value == 0 or not math.isfinite(value):
        return value
    # The shortest decimal of a float, not its binary expansion: 0.1 stays 0.1.
    return float(Context(digits, _TOWARDS[direction]).plus(Decimal(repr(float(value)))))


def plain_figure(value: float, digits: int = 4) -> str:
    """A finite number in plain text: thousands apart, powers of ten for the very large and small.

    >>> plain_figure(0.000123456), plain_figure(25.3149), plain_figure(428818.7)
    ('1.235e-04', '25.31', '428,819')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.{digits}g}"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"


def format_bound(
    value: float | str | None,
    digits: int = 4,
    direction: Direction = "upper",
    *,
    show: Callable[[float, int], str] = plain_figure,
) -> str:
    """A bound for people: an upper one rounded up, a lower one down.

    Args:
      value: The bound; None for one that is not defined, "inf" as in our JSON.
      digits: How many digits are kept; whole numbers below ten million keep theirs.
      direction: Which side is the safe one.
      show: How a rounded number is set: plain text, or the report's typography.

    >>> format_bound(25.3149), format_bound(25.3149, direction="lower"), format_bound(None)
    ('25.32', '25.31', '–')
    """
    if isinstance(value, str) and value not in ("inf", "-inf"):
        return value  # words in the place of a number
    if value is None or math.isnan(number := float(value)):
        return "–"
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    if 1e4 <= abs(number) < 1e7:
        digits = max(digits, math.floor(math.log10(abs(number))) + 1)
    return show(round_bound(number, digits, direction), digits)
