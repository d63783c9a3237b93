"""A random generator that no other process shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recondite._forks import generation

__all__ = ["Renewed"]


class Renewed:
    """Holds a generator, and makes another one in a process that was forked since.

    Guarantee: where ``make`` fills a generator from the operating system, no two of a parent, its
    children and copies of this object draw the same numbers, however long they hold it. A
    generator that follows from a seed is kept, by forks and by copies: simulations repeat.

    Args:
      make: Makes the generator.
      seeded: Whether it follows from a seed.
    """

    def __init__(self, make: Callable[[], Any], *, seeded: bool) -> None:
        self._make = make
        self._seeded = seeded
        self._value = make()
        self._made = generation()

    def current(self) -> Any:
        """The generator of this process. Do not keep it: ask again before every draw."""
        if self._value is None or not (self._seeded or self._made == generation()):
            self._value, self._made = self._make(), generation()
        return self._value

    def __getstate__(self) -> dict[str, Any]:
        # A copy, or a pickle that goes to another process, starts from entropy of its own.
        return self.__dict__ if self._seeded else {**self.__dict__, "_value": None}
