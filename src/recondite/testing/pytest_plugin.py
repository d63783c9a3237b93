"""A plugin of pytest: the fixture ``assert_private``, wherever recondite is installed.

pytest loads it by its entry point (``pytest11``) when it starts, so nothing is imported here that a
test does not ask for: neither torch nor NumPy. ``-p no:recondite`` leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from recondite.checking import CheckResult

__all__ = ["assert_private"]


@pytest.fixture(scope="session")
def assert_private() -> Callable[..., CheckResult]:
    """:func:`recondite.testing.assert_private`: fails unless a training does what is claimed."""
    from recondite import testing

    return testing.assert_private
