"""Attacks by name, for commands and study files."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from recondite.attacks.gradient.adaptive import Adaptive
from recondite.attacks.gradient.analytic import Analytic
from recondite.attacks.gradient.base import GradientAttack
from recondite.attacks.gradient.dlg import DLG, IDLG
from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.attacks.gradient.mean_image import MeanImage
from recondite.attacks.gradient.multi_step import MultiStep
from recondite.attacks.gradient.see_through import SeeThroughGradients

__all__ = ["GRADIENT", "build", "classes", "names"]

GRADIENT: dict[str, type[GradientAttack]] = {
    attack.name: attack
    for attack in (
        DLG,
        IDLG,
        InvertingGradients,
        SeeThroughGradients,
        Analytic,
        MeanImage,
        MultiStep,
        Adaptive,
    )
}


def classes() -> dict[str, type[Any]]:
    """Every attack, by name."""
    from recondite.attacks.inversion import ModelInversion
    from recondite.attacks.looking import Looking
    from recondite.attacks.membership import ATTACKS

    others = {kind.name: kind for kind in (ModelInversion, Looking)}
    return {**GRADIENT, **others, **ATTACKS}


def names() -> tuple[str, ...]:
    """The names of all attacks."""
    return tuple(classes())


def build(name: str, **options: Any) -> Any:
    """The attack of this name with these settings.

    Args:
      name: Its name.
      options: Fields of its class; a mistake names the nearest valid one.
    """
    known = classes()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f": did you mean {near[0]}?" if near else f": choose one of {', '.join(known)}"
        raise ValueError(f"attack {name!r} is not known{hint}")
    fields = {field.name for field in dataclasses.fields(known[name])}
    for option in options:
        if option not in fields:
            near = difflib.get_close_matches(option, fields, n=1)
            hint = f": did you mean {near[0]}?" if near else f": it has {', '.join(sorted(fields))}"
            raise ValueError(f"{option} is not a setting of attack {name}{hint}")
    return known[name](**options)
