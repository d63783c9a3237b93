"""Bracketed roots of monotone functions, returned on the side that is safe."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["Crossing", "last_true"]


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


class Crossing:
    """Whether a monotone measurement meets a goal, asked of as few measurements as will do.

    What follows from earlier answers is not measured again: on the far side of a point that met
    the goal all points do, beyond one that did not none does. ``good`` was always measured.

    Args:
      measure: The measurement, monotone in its argument.
      met: Whether a value of it meets the goal.
      goal: The goal.
      safe: Whether smaller arguments are the safe side: 1, or -1 where larger ones are.

    >>> calls = []
    >>> square = Crossing(lambda x: calls.append(x) or x * x, lambda found: found <= 2.0, 2.0)
    >>> square(1.0), square(4.0), square(0.5), square(5.0), len(calls)
    (True, False, True, False, 2)
    >>> square.narrow(1e-9)
    >>> round(last_true(square, 1.0, 4.0, relative=1e-9), 8), len(calls) < 20
    (1.41421356, True)
    """

    _MOST = 12  # measurements of a narrowing: enough for smooth ones, and bisection goes on

    def __init__(
        self,
        measure: Callable[[float], float],
        met: Callable[[float], bool],
        goal: float,
        *,
        safe: int = 1,
    ) -> None:
        self.measure, self.met, self.goal = measure, met, goal
        self.good: float | None = None
        self.bad: float | None = None
        self._safe = safe
        self._seen: dict[float, float] = {}

    def __call__(self, x: float) -> bool:
        """Whether the goal is met at ``x``."""
        if self.good is not None and self._safe * (self.good - x) >= 0:
            return True
        if self.bad is not None and self._safe * (x - self.bad) >= 0:
            return False
        self._seen[x] = found = self.measure(x)
        holds = self.met(found)
        if holds:
            self.good = x
        else:
            self.bad = x
        return holds

    def narrow(self, relative: float) -> None:
        """Brings the two sides together by interpolation, to a part of ``relative`` at best.

        Nothing rests on it: it chooses where to measure, and what was measured decides.
        """
        for _ in range(self._MOST):
            if self.good is None or self.bad is None or not self.good * self.bad > 0:
                return
            low, high = sorted((math.log(self.good), math.log(self.bad)))
            if high - low <= 0.5 * relative:
                return
            where, doubt = self._estimate()
            if not low < where < high:
                where, doubt = 0.5 * (low + high), 0.0
            else:
                # Past the estimate, seen from the nearer side: so that this side moves next.
                doubt = max(1.5 * doubt, relative / 6)
                where += doubt if where - low < high - where else -doubt
                margin = 0.01 * (high - low)
                where = min(max(where, low + margin), high - margin)
            self(math.exp(where))

    def _estimate(self) -> tuple[float, float]:
        """Where the goal is, as a logarithm, by the four nearest values; and by how much it moved.

        Neville's scheme for the argument as a polynomial in the value, both as logarithms.
        """
        known = [
            (abs(math.log(found / self.goal)), math.log(found / self.goal), math.log(x))
            for x, found in self._seen.items()
            if 0.0 < found < math.inf and 0.0 < self.goal < math.inf
        ]
        points = sorted(known)[:4]
        ys = [y for _, y, _ in points]
        if len(points) < 2 or len(set(ys)) < len(ys):
            return math.nan, math.nan
        column, estimate, doubt = [x for *_, x in points], math.nan, math.inf
        for k in range(1, len(points)):
            column = [
                (ys[i + k] * column[i] - ys[i] * column[i + 1]) / (ys[i + k] - ys[i])
                for i in range(len(points) - k)
            ]
            before, estimate = estimate, column[0]
            doubt = abs(estimate - before) if k > 1 else abs(estimate - points[0][2])
        return estimate, doubt
