"""Federated learning on Flower: defences on the client, an auditor on the server.

Names are loaded on first use: reading a ledger needs neither Flower nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recondite.federated.auditor import Auditor
    from recondite.federated.budget import Budget
    from recondite.federated.cost import Spent, spent
    from recondite.federated.ledger import ReleaseLedger
    from recondite.federated.mod import defend
    from recondite.federated.partition import dirichlet, iid
    from recondite.federated.strategy import AuditingStrategy
    from recondite.federated.training_report import trained_with

_WHERE = {
    "recondite.federated.auditor": ("Auditor",),
    "recondite.federated.budget": ("Budget",),
    "recondite.federated.cost": ("Spent", "spent"),
    "recondite.federated.ledger": ("ReleaseLedger",),
    "recondite.federated.mod": ("defend",),
    "recondite.federated.partition": ("dirichlet", "iid"),
    "recondite.federated.strategy": ("AuditingStrategy",),
    "recondite.federated.training_report": ("trained_with",),
}
_HOME = {name: module for module, members in _WHERE.items() for name in members}

__all__ = [
    "AuditingStrategy",
    "Auditor",
    "Budget",
    "ReleaseLedger",
    "Spent",
    "defend",
    "dirichlet",
    "iid",
    "spent",
    "trained_with",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'recondite.federated' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
