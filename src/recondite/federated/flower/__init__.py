"""Flower, imported in one place: quiet on the network, or one line that says how to install it."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import Any

__all__ = ["QUIET", "flower", "log"]

# Flower reports its use, and looks for new versions, unless it is told not to. Ray too.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def flower(module: str = "flwr.app") -> Any:
    """Imports a module of Flower with its telemetry and its update check switched off."""
    os.environ.update(QUIET)
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("flwr", "ray"):
            raise
        raise ValueError(
            "Flower is needed for federated learning: pip install 'recondite[federated]'"
        ) from None
    # Flower reads its switch when it is first imported, which may have been before us.
    telemetry: Any = sys.modules.get("flwr.supercore.telemetry")
    if telemetry is not None:
        telemetry.FLWR_TELEMETRY_ENABLED = "0"
    return found


def log(level: int, message: str) -> None:
    """One line in Flower's own log."""
    logging.getLogger("flwr").log(level, " ".join(message.split()))
