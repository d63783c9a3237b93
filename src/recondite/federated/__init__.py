"""Federated learning: policies, ledgers and costs of clients, an auditor; Flower and NVFlare.

Names are loaded on first use: reading a ledger needs neither Flower nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.federated.auditor import Auditor
    from recondite.federated.cost import Budget, Spent, spent
    from recondite.federated.flower.mod import defend
    from recondite.federated.flower.screening import Limits, ScreeningStrategy
    from recondite.federated.flower.strategy import AuditingStrategy
    from recondite.federated.ledger import ReleaseLedger
    from recondite.federated.policy import Policy
    from recondite.federated.shares import dirichlet, iid
    from recondite.federated.training_report import trained_with

_WHERE = {
    "auditor": ("Auditor",),
    "cost": ("Budget", "Spent", "spent"),
    "flower.mod": ("defend",),
    "flower.screening": ("Limits", "ScreeningStrategy"),
    "flower.strategy": ("AuditingStrategy",),
    "ledger": ("ReleaseLedger",),
    "policy": ("Policy",),
    "shares": ("dirichlet", "iid"),
    "training_report": ("trained_with",),
}

__all__ = [
    "AuditingStrategy",
    "Auditor",
    "Budget",
    "Limits",
    "Policy",
    "ReleaseLedger",
    "ScreeningStrategy",
    "Spent",
    "defend",
    "dirichlet",
    "iid",
    "spent",
    "trained_with",
]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
