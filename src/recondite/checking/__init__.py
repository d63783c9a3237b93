"""Audits of anybody's training: what a step does, against what is claimed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.checking.check import check
    from recondite.checking.claim import PrivacyClaim
    from recondite.checking.findings import CheckResult, Finding
    from recondite.checking.torch_trainer import torch_trainer
    from recondite.checking.trainer import Trainer

_WHERE = {
    "check": ("check",),
    "claim": ("PrivacyClaim",),
    "findings": ("CheckResult", "Finding"),
    "torch_trainer": ("torch_trainer",),
    "trainer": ("Trainer",),
}

__all__ = ["CheckResult", "Finding", "PrivacyClaim", "Trainer", "check", "torch_trainer"]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
