"""Comparisons: a study file becomes a grid of runs, and every run a row of figures."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recondite.experiments.runner import compare
    from recondite.experiments.store import load
    from recondite.experiments.study import Study, read_study

# Loaded on first use: reading stored rows needs neither torch nor pydantic.
_HOME = {
    "Study": "recondite.experiments.study",
    "compare": "recondite.experiments.runner",
    "load": "recondite.experiments.store",
    "read_study": "recondite.experiments.study",
}

__all__ = ["Study", "compare", "load", "read_study"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recondite.experiments' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
