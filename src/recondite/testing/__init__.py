"""Conformance suites: what we ask of our own extensions, for other people's to be run too.

Names are loaded on first use: records need torch, the others do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.testing.mechanisms import check_mechanism
    from recondite.testing.notions import check_notion
    from recondite.testing.records import check_records

_WHERE = {
    "mechanisms": ("check_mechanism",),
    "notions": ("check_notion",),
    "records": ("check_records",),
}

__all__ = ["check_mechanism", "check_notion", "check_records"]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
