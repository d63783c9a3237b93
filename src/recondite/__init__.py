"""Recondite: what an attacker could rebuild from what you release, and what it costs to stop it.

The names below are the public interface. They are loaded on first use, so importing the package
is quick and never imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite import _deprecated
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
        FixedSize,
        Poisson,
        RandomAllocation,
        Schedule,
        Shuffled,
        delta,
        epsilon,
    )
    from recondite.channels import (
        MinimumPowerChannel,
        NaturalChannel,
        PersonalizedChannel,
        WhiteChannel,
    )
    from recondite.leakage.discrete import DiscreteChannel
    from recondite.mechanisms import (
        Directional,
        Gaussian,
        Mechanism,
        Neighbouring,
        NoNoise,
        PartitionedVonMisesFisher,
        VonMisesFisher,
    )
    from recondite.models.fixing import fix
    from recondite.notions import Account, account
    from recondite.notions.calibration import calibrate, match, measure
    from recondite.studies import compare
    from recondite.training import PrivacyEngine

_WHERE = {
    "notions": ("Account", "account"),
    "accounting": (
        "FixedSize",
        "Poisson",
        "RandomAllocation",
        "Schedule",
        "Shuffled",
        "delta",
        "epsilon",
    ),
    "models.fixing": ("fix",),
    "notions.calibration": ("calibrate", "match", "measure"),
    "channels": (
        "MinimumPowerChannel",
        "NaturalChannel",
        "PersonalizedChannel",
        "WhiteChannel",
    ),
    "leakage.discrete": ("DiscreteChannel",),
    "mechanisms": (
        "Directional",
        "Gaussian",
        "Mechanism",
        "Neighbouring",
        "NoNoise",
        "PartitionedVonMisesFisher",
        "VonMisesFisher",
    ),
    "studies": ("compare",),
    "training": ("PrivacyEngine",),
}
# Parts with names of their own, such as rc.attacks.InvertingGradients; most of them need torch.
_PARTS = ("attacks", "federated", "metrics", "records", "report", "studies", "training")

__all__ = [
    "Account",
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
    "fix",
    "match",
    "measure",
]
# Names of 0.1.0 that are met in one room only; rc.compare was the comparison of two channels.
_BEFORE = {
    "accounting": ("Composition", "epsilon_bracket", "renyi_epsilon"),
    "accounting.auditing": ("AuditResult", "epsilon_lower_bound"),
    "channels": ("ControlledParameterChannel",),
    "leakage.refinement": ("refined_by",),
    "notions.calibration": ("Calibration",),
}

_PARTS_BEFORE = ("experiments",)  # a part of 0.1.0 that is called studies now

__getattr__, __dir__ = lazy_names(__name__, _WHERE, (*_PARTS, *_PARTS_BEFORE), _BEFORE)
_deprecated.install()
