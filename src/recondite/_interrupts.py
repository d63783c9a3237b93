"""Whether a person's interruption is behind an error, however Python wrapped it."""

from __future__ import annotations

__all__ = ["interrupted"]


def interrupted(error: BaseException | None) -> bool:
    """Whether an interruption is the error, or what caused it.

    CPython 3.11 wraps one that comes while a class is made, as NumPy makes many on import.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
