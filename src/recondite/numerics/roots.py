"""Bracketed roots of monotone functions, returned on the side that is safe."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["last_true"]


def last_true(
    holds: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    relative: float = 1e-12,
    height: Callable[[float], float] | None = None,
) -> float:
    """Returns the argument nearest to ``bad`` at which ``holds`` was seen to be true.

    Bisects between ``good`` (where ``holds`` is true; not evaluated again) and ``bad`` (where it
    is not), on a logarithmic scale when both are positive. The point returned is always one at
    which ``holds`` was evaluated and true, or ``good`` itself: a calibration built on it never
    misses its target, whatever the numerical noise in ``holds``.

    With ``height`` a bracket is found by secants first. Points of the bisection outside it are not
    evaluated, as ``holds`` is monotone; the answer is that of the bisection.

    Args:
      holds: A predicate that is true near ``good`` and false near ``bad``.
      good: A point where the predicate holds.
      bad: A point where it does not.
      relative: Stop when the bracket is this narrow relative to its ends.
      height: By how much a point that was evaluated, or an end, misses the limit: of one sign where
        ``holds`` is true and of the other where not; NaN where nobody knows. It says where to look
        next, nothing else.

    >>> round(last_true(lambda x: x * x <= 2, 1.0, 2.0), 9)
    1.414213562
    >>> tried = []
    >>> def holds(x):
    ...     tried.append(x)
    ...     return x * x <= 2
    >>> found = last_true(holds, 1.0, 2.0, height=lambda x: x * x - 2)
    >>> round(found, 9), len(tried) < 20, found in tried
    (1.414213562, True, True)
    """
    geometric = good > 0 and bad > 0
    tried = {good: True, bad: False}

    def seen(x: float) -> bool:
        if x not in tried:
            tried[x] = holds(x)
        return tried[x]

    inner, outer = good, bad
    if height is not None and geometric:
        inner, outer = _narrowed(seen, height, good, bad, relative)
    rising = good < bad
    while abs(bad - good) > relative * max(abs(good), abs(bad)):
        middle = math.sqrt(good) * math.sqrt(bad) if geometric else 0.5 * (good + bad)
        if middle in (good, bad):
            break
        if height is not None and (middle <= inner if rising else middle >= inner):
            good = middle
        elif height is not None and (middle >= outer if rising else middle <= outer):
            bad = middle
        elif seen(middle):
            good = middle
        else:
            bad = middle
    return good if seen(good) else inner


def _narrowed(
    seen: Callable[[float], bool],
    height: Callable[[float], float],
    good: float,
    bad: float,
    relative: float,
) -> tuple[float, float]:
    """A bracket as narrow as ``relative``, or what a few dozen steps lead to."""
    low, high = math.log(good), math.log(bad)
    gain, loss = height(good), height(bad)
    least = math.copysign(0.5 * relative, high - low)  # a step: else one end would never move
    last = None
    for count in range(40):
        width = high - low
        if abs(width) <= relative:
            break
        share = gain / (gain - loss) if gain * loss < 0 else 0.5  # NaN is not below zero
        if count % 8 == 7:  # a function that secants do not find: halves do
            share = 0.5
        edge = min(0.5, least / width)
        at = low + min(max(share, edge), 1.0 - edge) * width
        x = math.exp(at)
        if x in (good, bad):
            break
        if seen(x):
            good, low, gain = x, at, height(x)
            loss = 0.5 * loss if last is True else loss  # Illinois: the other end must move too
            last = True
        else:
            bad, high, loss = x, at, height(x)
            gain = 0.5 * gain if last is False else gain
            last = False
    return good, bad
