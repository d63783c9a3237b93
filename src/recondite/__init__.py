"""Recondite: what an attacker could rebuild from what you release, and what it costs to stop it.

The names below are the public interface. They are loaded on first use, so importing the package
is quick and never imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recondite._version import __version__

if TYPE_CHECKING:
    from recondite.accounting import (
        Composition,
        FixedSize,
        Poisson,
        Schedule,
        Shuffled,
        delta,
        epsilon,
        epsilon_bracket,
        renyi_epsilon,
    )
    from recondite.auditing import AuditResult, epsilon_lower_bound
    from recondite.calibration import Calibration, calibrate, match, measure
    from recondite.channels import (
        ControlledParameterChannel,
        MinimumPowerChannel,
        NaturalChannel,
        PersonalizedChannel,
        WhiteChannel,
    )
    from recondite.leakage.discrete import DiscreteChannel
    from recondite.leakage.refinement import compare, refined_by
    from recondite.mechanisms import (
        Directional,
        Gaussian,
        Mechanism,
        Neighbouring,
        NoNoise,
        PartitionedVonMisesFisher,
        VonMisesFisher,
    )
    from recondite.notions import Account, account

_WHERE = {
    "recondite.notions": ("Account", "account"),
    "recondite.accounting": (
        "Composition",
        "FixedSize",
        "Poisson",
        "Schedule",
        "Shuffled",
        "delta",
        "epsilon",
        "epsilon_bracket",
        "renyi_epsilon",
    ),
    "recondite.auditing": ("AuditResult", "epsilon_lower_bound"),
    "recondite.calibration": ("Calibration", "calibrate", "match", "measure"),
    "recondite.channels": (
        "ControlledParameterChannel",
        "MinimumPowerChannel",
        "NaturalChannel",
        "PersonalizedChannel",
        "WhiteChannel",
    ),
    "recondite.leakage.discrete": ("DiscreteChannel",),
    "recondite.leakage.refinement": ("compare", "refined_by"),
    "recondite.mechanisms": (
        "Directional",
        "Gaussian",
        "Mechanism",
        "Neighbouring",
        "NoNoise",
        "PartitionedVonMisesFisher",
        "VonMisesFisher",
    ),
    "recondite.training": ("PrivacyEngine",),
}
# Parts with names of their own, such as rc.attacks.InvertingGradients; most of them need torch.
_PARTS = ("attacks", "experiments", "federated", "metrics", "report", "training")
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Account",
    "AuditResult",
    "Calibration",
    "Composition",
    "ControlledParameterChannel",
    "Directional",
    "DiscreteChannel",
    "FixedSize",
    "Gaussian",
    "Mechanism",
    "MinimumPowerChannel",
    "NaturalChannel",
    "Neighbouring",
    "NoNoise",
    "PartitionedVonMisesFisher",
    "PersonalizedChannel",
    "Poisson",
    "PrivacyEngine",
    "Schedule",
    "Shuffled",
    "VonMisesFisher",
    "WhiteChannel",
    "__version__",
    "account",
    "calibrate",
    "compare",
    "delta",
    "epsilon",
    "epsilon_bracket",
    "epsilon_lower_bound",
    "match",
    "measure",
    "refined_by",
    "renyi_epsilon",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"recondite.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'recondite' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
