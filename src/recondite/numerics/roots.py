"""Bracketed roots of monotone functions, returned on the side that is safe."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["last_met", "last_true"]


def last_true(
    holds: Callable[[float], bool], good: float, bad: float, *, relative: float = 1e-12
) -> float:
    """Returns the argument nearest to ``bad`` at which ``holds`` was seen to be true.

    Bisects between ``good`` (where ``holds`` is true; not evaluated again) and ``bad`` (where it
    is not), on a logarithmic scale when both are positive. The point returned is always one at
    which ``holds`` was evaluated and true, or ``good`` itself: a calibration built on it never
    misses its target, whatever the numerical noise in ``holds``.

    Args:
      holds: A predicate that is true near ``good`` and false near ``bad``.
      good: A point where the predicate holds.
      bad: A point where it does not.
      relative: Stop when the bracket is this narrow relative to its ends.

    >>> round(last_true(lambda x: x * x <= 2, 1.0, 2.0), 9)
    1.414213562
    """
    geometric = good > 0 and bad > 0
    while abs(bad - good) > relative * max(abs(good), abs(bad)):
        middle = math.sqrt(good) * math.sqrt(bad) if geometric else 0.5 * (good + bad)
        if middle in (good, bad):
            break
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


def last_met(
    excess: Callable[[float], float], good: float, bad: float, *, relative: float = 1e-12
) -> float:
    """As :func:`last_true` for ``excess(x) <= 0``, led to the root by the size of the excess.

    The point returned is always one at which the excess was evaluated and was not positive, or
    ``good`` itself. A smooth excess takes about half of the evaluations of a bisection, and none
    takes more than two beyond it (the ITP method of Oliveira and Takahashi, on a logarithmic
    scale).

    Args:
      excess: How far a point misses its target; not positive near ``good``, positive near ``bad``.
      good: A positive point where the excess is not positive; evaluated again.
      bad: A positive point where it is.
      relative: Stop when the bracket is this narrow relative to its ends.

    >>> round(last_met(lambda x: x * x - 2, 1.0, 2.0), 9)
    1.414213562
    """
    tolerance = max(relative, 4 * math.ulp(1.0))
    met, missed = math.log(good), math.log(bad)
    below, above = min(excess(good), 0.0), excess(bad)
    width = abs(missed - met)
    most = max(0, math.ceil(math.log2(width / tolerance))) + 1
    found, tried = good, 0
    while (width := abs(missed - met)) > tolerance:
        middle = 0.5 * (met + missed)
        guess = middle
        if math.isfinite(below) and math.isfinite(above) and above > below:
            guess = (above * met - below * missed) / (above - below)
        towards = math.copysign(1.0, middle - guess)
        # A little past the guess, so that the bracket closes from both sides.
        past = min(abs(middle - guess), 0.2 * width * width)
        # What keeps the number of evaluations near that of a bisection.
        slack = max(0.0, 0.5 * tolerance * 2.0 ** (most - tried) - 0.5 * width)
        guess += towards * past
        if abs(guess - middle) > slack:
            guess = middle - towards * slack
        if guess in (met, missed):
            break
        tried += 1
        at = math.exp(guess)
        value = excess(at)
        if value <= 0.0:
            met, below, found = guess, value, at
        else:
            missed, above = guess, value
    return found
