"""Recondite: what an attacker could rebuild from what you release, and what it costs to stop it.

The names below are the public interface. They are loaded on first use, so importing the package
is quick and never imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite import _moved
from recondite._lazy import lazy_names
from recondite._version import __version__

if TYPE_CHECKING:
    from recondite import attacks as attacks
    from recondite import federated as federated
    from recondite import metrics as metrics
    from recondite import records as records
    from recondite import report as report
    from recondite import studies as studies
    from recondite import training as training
    from recondite.accounting import (
        Composition,
        FixedSize,
        Poisson,
        RandomAllocation,
        Schedule,
        Shuffled,
        delta,
        epsilon,
        epsilon_bracket,
        renyi_epsilon,
    )
    from recondite.accounting.auditing import AuditResult, epsilon_lower_bound
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
    from recondite.training import PrivacyEngine

_WHERE = {
    "notions": ("Account", "account"),
    "accounting": (
        "Composition",
        "FixedSize",
        "Poisson",
        "RandomAllocation",
        "Schedule",
        "Shuffled",
        "delta",
        "epsilon",
        "epsilon_bracket",
        "renyi_epsilon",
    ),
    "accounting.auditing": ("AuditResult", "epsilon_lower_bound"),
    "calibration": ("Calibration", "calibrate", "match", "measure"),
    "channels": (
        "ControlledParameterChannel",
        "MinimumPowerChannel",
        "NaturalChannel",
        "PersonalizedChannel",
        "WhiteChannel",
    ),
    "leakage.discrete": ("DiscreteChannel",),
    "leakage.refinement": ("compare", "refined_by"),
    "mechanisms": (
        "Directional",
        "Gaussian",
        "Mechanism",
        "Neighbouring",
        "NoNoise",
        "PartitionedVonMisesFisher",
        "VonMisesFisher",
    ),
    "training": ("PrivacyEngine",),
}
# Parts with names of their own, such as rc.attacks.InvertingGradients; most of them need torch.
_PARTS = ("attacks", "federated", "metrics", "records", "report", "studies", "training")

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
    "RandomAllocation",
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

__getattr__, __dir__ = lazy_names(__name__, _WHERE, _PARTS)
_moved.install()
