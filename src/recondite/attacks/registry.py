"""Attacks by name: ours, and those that other packages register.

A package adds its own through the entry-point group ``recondite.attacks``, whose members are
subclasses of :class:`~recondite.attacks.base.Attack`; commands, studies and reports then know it.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from recondite._deprecated import attack_name
from recondite._plugins import entry_points
from recondite.attacks.audit import CanaryAudit
from recondite.attacks.base import THREATENED, Attack, asked_fields
from recondite.attacks.gradient.analytic import Analytic
from recondite.attacks.gradient.crafted import CraftedWeights
from recondite.attacks.gradient.dlg import DLG, IDLG
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.attacks.gradient.mean_image import MeanImage
from recondite.attacks.gradient.multi_step import MultiStep
from recondite.attacks.gradient.see_through import SeeThroughGradients
from recondite.attacks.gradient.spear import Spear
from recondite.attacks.identification import Identify
from recondite.attacks.inversion import ModelInversion
from recondite.attacks.membership import (
    Lira,
    MembershipAttack,
    Reference,
    Rmia,
    Threshold,
    WhiteBox,
)
from recondite.attacks.posterior import (
    Adaptive,
    ChannelPosterior,
    GaussNewton,
    ImportanceWeights,
    Strongest,
)
from recondite.attacks.released_record import ReleasedRecord
from recondite.attacks.tabular import TabularInversion
from recondite.attacks.text.span_check import SpanCheck

__all__ = [
    "GROUP",
    "attack_named",
    "build",
    "built_in",
    "classes",
    "membership_attacks",
    "names",
]

GROUP = "recondite.attacks"

_OWN: tuple[type[Attack], ...] = (
    DLG,
    IDLG,
    InvertingGradients,
    SeeThroughGradients,
    Analytic,
    MeanImage,
    MultiStep,
    CraftedWeights,
    Strongest,
    ImportanceWeights,
    GaussNewton,
    Adaptive,
    TabularInversion,
    Spear,
    ModelInversion,
    ReleasedRecord,
    ChannelPosterior,
    Threshold,
    Reference,
    Lira,
    Rmia,
    WhiteBox,
    Identify,
    SpanCheck,
    CanaryAudit,
)
_TAKEN = ("none", "list")  # a row without an attack, and a word of the command


def built_in() -> dict[str, type[Attack]]:
    """Our own."""
    return {kind.name: kind for kind in _OWN}


@lru_cache(maxsize=1)
def classes() -> dict[str, type[Attack]]:
    """Every attack by its name; a registered one cannot replace one of ours. Read once."""
    found = built_in()
    for entry in entry_points(group=GROUP):
        try:
            kind = entry.load()
            _check(kind, found)
        except Exception as error:  # whatever it is: one broken package must not take others away
            warnings.warn(f"attack {entry.name} could not be loaded: {error}", stacklevel=2)
        else:
            found[kind.name] = kind
    return found


def _check(kind: Any, known: Collection[str]) -> None:
    if not (isinstance(kind, type) and issubclass(kind, Attack)):
        raise TypeError("it is no subclass of recondite.attacks.Attack")
    params = getattr(kind, "__dataclass_params__", None)
    if params is None or not params.frozen:
        raise TypeError("it must be a dataclass(frozen=True) of its settings")
    for part in ("name", "needs", "threats"):
        if not getattr(kind, part, None):
            raise ValueError(f"it has no {part}")
    if kind.name in (*known, *_TAKEN):
        raise ValueError(f"its name {kind.name} is taken")
    wrong = [word for word in kind.threats if word not in THREATENED]
    if wrong:
        raise ValueError(f"its threats must be of {', '.join(THREATENED)}, got {wrong[0]!r}")
    unread = [key for key in kind.reads if key not in asked_fields()]
    if unread:
        raise ValueError(f"it reads {unread[0]!r}, which no study has")
    twice = sorted({"name", *kind.reads}.intersection(kind.setting_names()))
    if twice:
        raise ValueError(f"its setting {twice[0]} is a study's key that it reads")


def membership_attacks() -> dict[str, type[MembershipAttack]]:
    """Those that a model can be given to, with members of its training set and others."""
    return {name: kind for name, kind in classes().items() if issubclass(kind, MembershipAttack)}


def names() -> tuple[str, ...]:
    """The names of all attacks."""
    return tuple(classes())


def attack_named(name: str) -> type[Attack]:
    """The attack of this name, or of one that it had in 0.1.0.

    Raises:
      ValueError: In one line, with the nearest name, where there is none.
    """
    known, name = classes(), attack_name(name)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f": did you mean {near[0]}?" if near else f": choose one of {', '.join(known)}"
        raise ValueError(f"attack {name!r} is not known{hint}")
    return known[name]


def build(name: str, **options: Any) -> Attack:
    """The attack of this name with these settings.

    Args:
      name: Its name.
      options: Fields of its class; a mistake names the nearest valid one.
    """
    kind = attack_named(name)
    fields = kind.setting_names()
    for option in options:
        if option not in fields:
            near = difflib.get_close_matches(option, fields, n=1)
            hint = f": did you mean {near[0]}?" if near else f": it has {', '.join(sorted(fields))}"
            raise ValueError(f"{option} is not a setting of attack {name}{hint}")
    return kind(**options)
