"""Mechanisms by name: ours, and those that other packages register.

A package adds its own through the entry-point group ``recondite.defences``
(:mod:`recondite.defences` lists those on records too); it then has accounting, calibration and
every command for free. One that promises nothing says so itself
(``private = False``): only comparisons then know it, and no command that protects somebody.
"""

from __future__ import annotations

import warnings
from dataclasses import is_dataclass
from typing import Any

from recondite._plugins import entry_points
from recondite.mechanisms.base import Mechanism
from recondite.mechanisms.directional import Directional
from recondite.mechanisms.gaussian import Gaussian
from recondite.mechanisms.none import NoNoise
from recondite.mechanisms.parameter_channel import ParameterChannel
from recondite.mechanisms.partitioned import PartitionedVonMisesFisher
from recondite.mechanisms.vmf import VonMisesFisher

__all__ = ["mechanisms", "registered"]

GROUP = "recondite.defences"
# The group's name in 0.1.0, for one version.
_OLD_GROUP = "recondite.mechanisms"

_OWN: tuple[type[Mechanism], ...] = (
    Gaussian,
    VonMisesFisher,
    PartitionedVonMisesFisher,
    Directional,
    ParameterChannel,
    NoNoise,
)
# What a list of defences asks of a class, whether its noise is on gradients or on records.
_PARTS = ("name", "title", "parameter", "weaker", "stage", "private", "bounds_gradients")


def mechanisms(
    *, unproven: bool = False, others: dict[str, type[Any]] | None = None
) -> dict[str, type[Mechanism]]:
    """Every mechanism by its name; a registered one cannot replace one of ours.

    Args:
      unproven: With those of other packages that promise nothing, which only comparisons may name.
      others: What :func:`registered` found, where it was asked already.
    """
    found: dict[str, type[Mechanism]] = {
        name: kind
        for name, kind in (registered() if others is None else others).items()
        if kind.stage != "data" and (kind.private or unproven)
    }
    known = {mechanism.name: mechanism for mechanism in _OWN}
    return {**known, **{name: kind for name, kind in found.items() if name not in known}}


def registered() -> dict[str, type[Any]]:
    """The classes of defences that other packages register, by name.

    Left out, with a warning, is what cannot be loaded, what is called like one of ours, or
    otherwise than its entry, and noise on gradients that claims to be private without clipping:
    an ε for it would be too good.
    """
    found: dict[str, type[Any]] = {}
    for group in (_OLD_GROUP, GROUP):
        for entry in entry_points(group=group):
            try:
                kind = entry.load()
                _check(kind)
            except Exception as error:  # one broken package must not take the others away
                warnings.warn(f"defence {entry.name} could not be loaded: {error}", stacklevel=3)
                continue
            if group == _OLD_GROUP:
                moved = f"{entry.name}: the entry-point group {_OLD_GROUP} is now {GROUP}"
                warnings.warn(moved, DeprecationWarning, stacklevel=3)
            problem = _problem(kind, entry.name)
            if problem is not None:
                warnings.warn(f"defence {entry.name} is left out: {problem}", stacklevel=3)
                continue
            found[entry.name] = kind
    return found


def _check(kind: Any) -> None:
    settings = isinstance(kind, type) and is_dataclass(kind)
    if not settings:
        raise TypeError("it is no dataclass of a defence's settings")
    missing = [part for part in _PARTS if not hasattr(kind, part)]
    if missing:
        raise TypeError(f"it has no {missing[0]}: subclass Mechanism or RecordNoise")
    if kind.stage != "data" and not issubclass(kind, Mechanism):
        raise TypeError("it is no subclass of recondite.mechanisms.Mechanism")


def _problem(kind: type[Any], name: str) -> str | None:
    if kind.stage != "data" and kind.private and not kind.bounds_gradients:
        return "bounds_gradients is False, which needs private = False"
    # Ledgers and records hold the class's own name, and are accounted by it.
    taken = {own.name for own in _OWN}.intersection((name, kind.name))
    if kind not in _OWN and taken:
        return f"its name {min(taken)} is taken"
    if kind not in _OWN and kind.name != name:
        return f"it calls itself {kind.name}: use one name"
    return None
