"""Plans of 0.1.0: the names that fields had before a defence was one of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from recondite import _validate
from recondite.configuration import OPTIMIZERS, PIXELS, TrainingConfig, options
from recondite.defences import defences, find, owners
from recondite.mechanisms import Mechanism

__all__ = ["CHANNELS", "OPTIMIZERS", "PIXELS", "Plan", "fingerprint_of"]

CHANNELS = tuple(each.channel for each in defences().values() if each.channel is not None)
# What a plan had beside its channel: the setting of the defence, and what it was by default.
_OLD: dict[str, tuple[str, Any]] = {
    "capacity": ("capacity", None),
    "channel_noise": ("noise", "once"),
    "channel_data": ("fit_on", None),
    "beta": ("beta", None),
    "channel_method": ("method", "exact"),
}


def Plan(data: str, model: str, mechanism: Mechanism, **given: Any) -> TrainingConfig:  # noqa: N802
    """Deprecated: :class:`TrainingConfig` from the fields of a plan, for one version."""
    warnings.warn(
        "Plan is now recondite.configuration.TrainingConfig, whose defence is one field",
        DeprecationWarning,
        stacklevel=2,
    )
    channel = given.pop("channel", None)
    old = {name: given.pop(name) for name in _OLD if name in given}
    typed = {name: value for name, value in old.items() if value != _OLD[name][1]}
    if channel is None:
        for name in typed:
            raise ValueError(f"{name} belongs to a channel: give channel too")
        return TrainingConfig(data, model, mechanism, **given)
    kind = find(_validate.choice("channel", channel, CHANNELS))
    if mechanism.parameter:
        raise ValueError(
            "channel puts noise on records, not on gradients: give it the mechanism NoNoise()"
        )
    if "channel_noise" in typed:
        _validate.choice("channel_noise", typed["channel_noise"], ("once", "per_step"))
    for name in typed:
        if _OLD[name][0] not in (kind.parameter, *kind.settings):
            raise ValueError(f"{name} belongs to {owners(_OLD[name][0])}: leave it out")
    made: Any = kind.build(**_renamed(typed))
    return TrainingConfig(data, model, made, **given)


def _renamed(typed: Mapping[str, Any]) -> dict[str, Any]:
    found = {_OLD[name][0]: value for name, value in typed.items()}
    return {"value": found.pop("capacity", None), **found}


def fingerprint_of(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint's fingerprint in today's shape; that of a plan had a mechanism and a channel."""
    if "mechanism" not in stored:
        return dict(stored)
    old = dict(stored)
    defence: dict[str, Any] = {"name": old.pop("mechanism"), **old.pop("parameters")}
    channel = old.pop("channel", None)
    given = {new: old.pop(name, default) for name, (new, default) in _OLD.items()}
    if channel is not None:
        kind = find(channel)
        own = (kind.parameter, *kind.settings)
        kept = {k: v for k, v in given.items() if k in own and v is not None}
        defence = {"name": kind.name, **kept}
    # Fields that came after it was written had their defaults.
    later = {k: o.default for k, o in options().items() if k not in ("epochs", "seed")}
    return {**later, **old, "defence": defence}
