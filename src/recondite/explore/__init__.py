"""The explorer: calibrate and look, run a study and watch it, follow a federation.

``serve`` starts a server on this machine alone. It needs the ``explore`` extra (starlette and
uvicorn), imported when it starts; torch is not imported before a run or a study needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.explore.server import serve

__all__ = ["serve"]

__getattr__, __dir__ = lazy_names(__name__, {"server": ("serve",)})
