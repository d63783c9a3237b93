"""The training run of a study's cell, from the list of defences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recondite import defences
from recondite.defences import COMPRESSION, suffix
from recondite.defences import Defence as Kind
from recondite.mechanisms import Mechanism, NoNoise

if TYPE_CHECKING:
    from recondite.training.plan import Plan

__all__ = ["COMPRESSION", "Kind", "kinds", "label", "mechanism", "plan", "subject", "suffix"]


def kinds() -> dict[str, Kind]:
    """Every defence that a study can name, those with it that promise nothing."""
    return defences.defences(unproven=True)


def plan(common: dict[str, Any], defence: dict[str, Any], seed: int | None) -> Plan:
    """The training run of a cell.

    Args:
      common: What all cells share: data, model, preparation, training.
      defence: Name, value, settings and training of the defence.
      seed: The repetition.
    """
    from recondite.training.plan import Plan  # imports torch

    name, value, settings = defence["name"], defence["value"], defence["settings"]
    kind = kinds()[name]
    channel = kind.channel
    options = {**common["training"], **defence["training"]}
    if not kind.bounds:
        options["clipping"] = "none"
    if kind.parameter is None or not kind.bounds:  # no ε that sampling could lower
        options.setdefault("sampling", "shuffled")
    if channel is not None:
        for key in ("sampling", "max_batch_size", "physical_batch_size"):
            options.pop(key, None)
        options.update(
            channel=channel,
            capacity=value,
            channel_noise=settings.get("noise", "once"),
            channel_data=settings.get("fit_on"),
            beta=settings.get("beta"),
            channel_method=settings.get("method", "exact"),
        )
    return Plan(
        data=common["data"],
        model=common["model"],
        mechanism=mechanism(name, value, settings),
        prepare=common["prepare"],
        seed=seed,
        **options,
    )


def mechanism(name: str, value: float | None, settings: dict[str, Any]) -> Mechanism:
    """What is released at every step: the defence's noise, or none where it is on records."""
    kind = kinds()[name]
    if kind.on_records:
        return NoNoise()
    made: Any = kind.build(value, **settings)
    released: Mechanism = made
    return released


def subject(name: str) -> str:
    """What a defence on gradients speaks of."""
    return kinds()[name].subject


def label(name: str, value: float | None, settings: dict[str, Any]) -> str:
    """A short title: ``VMF κ = 500``."""
    return kinds()[name].label(value, settings)
