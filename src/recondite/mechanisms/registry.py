"""Mechanisms by name: ours, and those that other packages register.

A package adds its own through the entry-point group ``recondite.mechanisms``; it then has
accounting, calibration and every command for free.
"""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

from recondite.mechanisms.base import Mechanism
from recondite.mechanisms.directional import Directional
from recondite.mechanisms.gaussian import Gaussian
from recondite.mechanisms.none import NoNoise
from recondite.mechanisms.parameter_channel import ParameterChannel
from recondite.mechanisms.partitioned import PartitionedVonMisesFisher
from recondite.mechanisms.vmf import VonMisesFisher

__all__ = ["mechanisms"]

GROUP = "recondite.mechanisms"


def mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism by its name; a registered one cannot replace one of ours."""
    own: list[type[Mechanism]] = [
        Gaussian,
        VonMisesFisher,
        PartitionedVonMisesFisher,
        Directional,
        ParameterChannel,
        NoNoise,
    ]
    found: dict[str, type[Mechanism]] = {}
    for entry in entry_points(group=GROUP):
        try:
            found[entry.name] = entry.load()
        except (ImportError, AttributeError) as error:
            # One broken package must not take the others away.
            warnings.warn(f"mechanism {entry.name} could not be loaded: {error}", stacklevel=2)
    return {**found, **{mechanism.name: mechanism for mechanism in own}}
