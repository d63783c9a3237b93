"""What other packages register: read once, since reading it goes through every installed one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata

__all__ = ["entry_points"]


def entry_points(*, group: str) -> tuple[metadata.EntryPoint, ...]:
    """The entry points of a group.

    They are read again when the import path changes, not when a package is installed below it: a
    process sees what was there when it first asked.
    """
    return _read(metadata.entry_points, group, tuple(sys.path))


@lru_cache(maxsize=64)
def _read(
    source: Callable[..., metadata.EntryPoints], group: str, path: tuple[str, ...]
) -> tuple[metadata.EntryPoint, ...]:
    del path  # what the answer depends on
    return tuple(source(group=group))
