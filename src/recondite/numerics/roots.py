"""Bracketed roots of monotone functions, returned on the side that is safe."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["last_true"]


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
