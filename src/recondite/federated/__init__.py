"""Federated learning on Flower: defences on the client, an auditor on the server.

Names are loaded on first use: reading a ledger needs neither Flower nor torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite._lazy import lazy_names

if TYPE_CHECKING:
    from recondite.federated.auditor import Auditor
    from recondite.federated.budget import Budget
    from recondite.federated.checks import Limits
    from recondite.federated.cost import Spent, spent
    from recondite.federated.ledger import ReleaseLedger
    from recondite.federated.mod import defend
    from recondite.federated.partition import dirichlet, iid
    from recondite.federated.policy import Policy
    from recondite.federated.screening import ScreeningStrategy
    from recondite.federated.strategy import AuditingStrategy
    from recondite.federated.training_report import trained_with

_WHERE = {
    "auditor": ("Auditor",),
    "budget": ("Budget",),
    "checks": ("Limits",),
    "cost": ("Spent", "spent"),
    "ledger": ("ReleaseLedger",),
    "mod": ("defend",),
    "partition": ("dirichlet", "iid"),
    "policy": ("Policy",),
    "screening": ("ScreeningStrategy",),
    "strategy": ("AuditingStrategy",),
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
