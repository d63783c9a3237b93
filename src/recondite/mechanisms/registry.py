"""Mechanisms by name: ours, and those that other packages register.

A package adds its own through the entry-point group ``recondite.mechanisms``; it then has
accounting, calibration and every command for free. One that promises nothing says so itself
(``private = False``): only comparisons then know it, and no command that protects somebody.
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


def mechanisms(*, unproven: bool = False) -> dict[str, type[Mechanism]]:
    """Every mechanism by its name; a registered one cannot replace one of ours.

    Args:
      unproven: With those of other packages that promise nothing, which only comparisons may name.
    """
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
            kind: type[Mechanism] = entry.load()
        except (ImportError, AttributeError) as error:
            # One broken package must not take the others away.
            warnings.warn(f"mechanism {entry.name} could not be loaded: {error}", stacklevel=2)
            continue
        if kind.private and not kind.bounds_gradients:
            # Unclipped gradients have no sensitivity: an ε for it would be too good.
            problem = "bounds_gradients is False, which needs private = False"
            warnings.warn(f"mechanism {entry.name} is left out: {problem}", stacklevel=2)
        elif kind.private or unproven:
            found[entry.name] = kind
    return {**found, **{mechanism.name: mechanism for mechanism in own}}
