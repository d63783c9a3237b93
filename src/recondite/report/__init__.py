"""The report of a comparison: one HTML file, and its figures for papers.

``build`` writes the page, ``figures`` the static plots. Both are loaded on first use: they need the
``compare`` extra (jinja2, pillow, matplotlib).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.report.page import build
    from recondite.report.static import figures

__all__ = ["build", "figures"]

__getattr__, __dir__ = lazy_names(__name__, {"page": ("build",), "static": ("figures",)})
