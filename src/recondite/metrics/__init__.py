"""How well an attack did: images, membership, gains over a blind guess, and what a defence bought.

Names are loaded on first use: images need torch, the others do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.metrics.defence import (
        general_defence_capability,
        improvement_membership,
        improvement_reconstruction,
        topk_accuracy,
    )
    from recondite.metrics.floors import (
        Gain,
        Metric,
        VictimScores,
        beats_guessing,
        gain,
        gains,
    )
    from recondite.metrics.images import Scores, match_order, mse, psnr, score, ssim
    from recondite.metrics.roc import Roc, auc, auc_interval, tpr_at, tpr_interval

_WHERE = {
    "floors": ("Gain", "Metric", "VictimScores", "beats_guessing", "gain", "gains"),
    "images": ("Scores", "match_order", "mse", "psnr", "score", "ssim"),
    "roc": ("Roc", "auc", "auc_interval", "tpr_at", "tpr_interval"),
    "defence": (
        "general_defence_capability",
        "improvement_membership",
        "improvement_reconstruction",
        "topk_accuracy",
    ),
}

__all__ = [
    "Gain",
    "Metric",
    "Roc",
    "Scores",
    "VictimScores",
    "auc",
    "auc_interval",
    "beats_guessing",
    "gain",
    "gains",
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

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
