"""The report of a comparison: one HTML file, and its figures for papers.

``build`` writes the page, ``figures`` the static plots. Both are loaded on first use: they need the
``compare`` extra (jinja2, plotly, pillow, matplotlib).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recondite.report.page import build
    from recondite.report.static import figures

__all__ = ["build", "figures"]

_HOME = {"build": "recondite.report.page", "figures": "recondite.report.static"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recondite.report' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
