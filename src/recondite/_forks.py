"""A token that tells a process from the processes it was forked from.

A forked child inherits the state of every random generator of its parent. Two processes that go
on drawing from it release the same noise, and the difference of their releases is free of noise.
Whatever holds entropy of the process keeps the token it was filled under and compares.
"""

from __future__ import annotations

import os

__all__ = ["generation"]

_forks = [0]


def _count() -> None:
    _forks[0] += 1


# Not every platform forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)


def generation() -> tuple[int, int]:
    """The forks between this process and the first one, and the id of this process.

    Guarantee: the value differs from that of every process this one was forked from by
    ``os.fork`` (the count grows), or by a fork that Python does not see, such as one of a C
    library (the id differs). It never changes within a process. It is no secret and no entropy:
    a holder that finds it changed fills itself anew from the operating system.

    Example:
      >>> from recondite._forks import generation
      >>> generation() == generation()
      True
    """
    return _forks[0], os.getpid()
