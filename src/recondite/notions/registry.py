"""Notions by key: ours, and those that other packages register.

A package adds its own through the entry-point group ``recondite.notions``, whose members are
subclasses of :class:`~recondite.notions.base.Notion`; it then stands in every account, can be
calibrated to where it says so, and is a column of comparisons and an axis of the report.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

from recondite._plugins import entry_points
from recondite.notions.base import Figure, Notion
from recondite.notions.epsilon import PureEpsilon, RenyiEpsilon, TightEpsilon
from recondite.notions.leakage import (
    BayesCapacity,
    MetricGuarantee,
    MutualInformation,
    ReconstructionRobustness,
)

__all__ = ["GROUP", "built_in", "figures", "notions", "target", "targets"]

GROUP = "recondite.notions"

_OWN: tuple[type[Notion], ...] = (
    TightEpsilon,
    RenyiEpsilon,
    PureEpsilon,
    BayesCapacity,
    MutualInformation,
    ReconstructionRobustness,
    MetricGuarantee,
)
# What an account holds besides its notions: no notion may take the place of one of these.
_TAKEN = frozenset(
    {
        *("schema_version", "mechanism", "parameters", "schedule", "neighbouring", "group_size"),
        *("delta", "rdp_order", "subject", "assumptions", "reasons", "information", "as_printed"),
        *("release", "values"),
    }
)


@lru_cache(maxsize=1)
def built_in() -> dict[str, Notion]:
    """Our own."""
    return {kind.key: kind() for kind in _OWN}


@lru_cache(maxsize=1)
def notions() -> dict[str, Notion]:
    """Every notion by its key; a registered one cannot replace one of ours. Read once."""
    found = dict(built_in())
    for entry in entry_points(group=GROUP):
        try:
            notion = entry.load()()
            _check(notion, found)
        except Exception as error:  # whatever it is: one broken package must not take others away
            warnings.warn(f"notion {entry.name} could not be loaded: {error}", stacklevel=2)
        else:
            found[notion.key] = notion
    return found


def _check(notion: object, known: dict[str, Notion]) -> None:
    if not isinstance(notion, Notion):
        raise TypeError("it is no subclass of recondite.notions.Notion")
    head = notion.key.partition(".")[0]
    sections = {key.partition(".")[0] for key in known if "." in key}
    if notion.key in (*known, *sections) or head in known or head in _TAKEN:
        raise ValueError(f"its key {notion.key} is taken")
    if notion.target is not None and notion.target in _targets(known):
        raise ValueError(f"its target {notion.target} is taken")
    columns = {figure.key for other in known.values() for figure in other.figures}
    twice = [figure.key for figure in notion.figures if figure.key in columns]
    if twice:
        raise ValueError(f"its figure {twice[0]} is taken")


def figures() -> dict[str, tuple[Notion, Figure]]:
    """Every figure with its notion, by the figure's key."""
    return {
        figure.key: (notion, figure) for notion in notions().values() for figure in notion.figures
    }


def targets(*, ours: bool = False) -> dict[str, Notion]:
    """The notions that noise can be calibrated to, by the target's name."""
    return _targets(built_in() if ours else notions())


def _targets(known: dict[str, Notion]) -> dict[str, Notion]:
    return {notion.target: notion for notion in known.values() if notion.target is not None}


def target(name: str) -> Notion:
    """The notion of that target.

    Raises:
      ValueError: Where there is none.
    """
    known = targets()
    if name not in known:
        raise ValueError(f"notion must be one of {', '.join(known)}, got {name!r}")
    return known[name]
