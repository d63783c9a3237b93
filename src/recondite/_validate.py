"""Argument checks: one line that names the argument and the remedy.

Every check raises ``ValueError``. The command line prints that line and exits with 2, so the
messages are written for a person who typed a command, not for a debugger.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, TypeVar

__all__ = [
    "at_least",
    "choice",
    "device",
    "finite",
    "integer",
    "non_negative",
    "positive",
    "probability",
]

T = TypeVar("T")


def _real(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"{name} must be a number, got NaN")
    return number


def finite(name: str, value: Any) -> float:
    """Returns ``value`` as a finite float."""
    number = _real(name, value)
    if math.isinf(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number


def positive(name: str, value: Any) -> float:
    """Returns ``value`` as a finite float above zero."""
    number = finite(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return number


def non_negative(name: str, value: Any) -> float:
    """Returns ``value`` as a finite float that is zero or more."""
    number = finite(name, value)
    if number < 0:
        raise ValueError(f"{name} must be 0 or more, got {value!r}")
    return number


def probability(
    name: str, value: Any, *, closed_at_one: bool = False, closed_at_zero: bool = False
) -> float:
    """Returns ``value`` as a float in (0, 1), with either end included on request."""
    number = _real(name, value)
    above = number >= 0 if closed_at_zero else number > 0
    below = number <= 1 if closed_at_one else number < 1
    if not (above and below):
        interval = f"{'[' if closed_at_zero else '('}0, 1{']' if closed_at_one else ')'}"
        raise ValueError(f"{name} must lie in {interval}, got {value!r}")
    return number


def integer(name: str, value: Any) -> int:
    """Returns ``value`` as an int; a float is accepted only when it is whole."""
    number = finite(name, value)
    if not isinstance(value, Integral) and not number.is_integer():
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return int(value)


def at_least(name: str, value: Any, least: int) -> int:
    """Returns ``value`` as an int that is ``least`` or more."""
    number = integer(name, value)
    if number < least:
        raise ValueError(f"{name} must be {least} or more, got {value!r}")
    return number


def choice(name: str, value: T, options: tuple[T, ...]) -> T:
    """Returns ``value`` if it is one of ``options``."""
    if value not in options:
        listed = ", ".join(str(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")
    return value


def device(value: Any) -> str:
    """Returns the name of a device that torch has here, such as cpu or cuda."""
    import torch  # accounting works without it

    try:
        kind = torch.device(value).type
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be cpu or cuda, got {value!r}") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {value} is not here: choose cpu")
    return str(value)
