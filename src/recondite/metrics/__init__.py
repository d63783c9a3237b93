"""How well an attack did: pictures, membership, and what a defence bought.

Names are loaded on first use: pictures need torch, the others do not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recondite.metrics.defence import (
        general_defence_capability,
        improvement_membership,
        improvement_reconstruction,
        topk_accuracy,
    )
    from recondite.metrics.images import Scores, match_order, mse, psnr, score, ssim
    from recondite.metrics.roc import Roc, auc, auc_interval, tpr_at, tpr_interval

_WHERE = {
    "images": ("Scores", "match_order", "mse", "psnr", "score", "ssim"),
    "roc": ("Roc", "auc", "auc_interval", "tpr_at", "tpr_interval"),
    "defence": (
        "general_defence_capability",
        "improvement_membership",
        "improvement_reconstruction",
        "topk_accuracy",
    ),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Roc",
    "Scores",
    "auc",
    "auc_interval",
    "general_defence_capability",
    "improvement_membership",
    "improvement_reconstruction",
    "match_order",
    "mse",
    "psnr",
    "score",
    "ssim",
    "topk_accuracy",
    "tpr_at",
    "tpr_interval",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recondite.metrics' has no attribute {name!r}")
    value = getattr(import_module(f"recondite.metrics.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
