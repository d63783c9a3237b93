"""Comparisons: a study file becomes a grid of runs, and every run a row of figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.studies.runner import compare
    from recondite.studies.store import load
    from recondite.studies.study import Study, read_study

# Loaded on first use: reading stored rows needs neither torch nor pydantic.
_WHERE = {"runner": ("compare",), "store": ("load",), "study": ("Study", "read_study")}

__all__ = ["Study", "compare", "load", "read_study"]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
