"""Conformance suites: what we ask of our own extensions, for other people's to be run too.

Beside them :func:`assert_private`, for anybody's training.

Names are loaded on first use: a suite asks for the extra of what it checks, and for no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.testing.attacks import check_attack
    from recondite.testing.mechanisms import check_mechanism
    from recondite.testing.notions import check_notion
    from recondite.testing.records import check_records
    from recondite.testing.trainings import assert_private

_WHERE = {
    "attacks": ("check_attack",),
    "mechanisms": ("check_mechanism",),
    "notions": ("check_notion",),
    "records": ("check_records",),
    "trainings": ("assert_private",),
}

__all__ = ["assert_private", "check_attack", "check_mechanism", "check_notion", "check_records"]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
