"""The training run of a study's cell, from the list of defences."""

from __future__ import annotations

from typing import Any

from recondite import defences
from recondite.configuration import TrainingConfig, suited
from recondite.defences import Defence as Kind
from recondite.defences import suffix
from recondite.mechanisms import Mechanism, NoNoise
from recondite.studies.shapes import Common, Configured, Settings

__all__ = ["Kind", "kinds", "label", "mechanism", "plan", "subject", "suffix"]


def kinds() -> dict[str, Kind]:
    """Every defence that a study can name, those with it that promise nothing."""
    return defences.defences(unproven=True)


def plan(common: Common, defence: Configured, seed: int | None) -> TrainingConfig:
    """The training run of a cell.

    Args:
      common: What all cells share: data, model, preparation, training.
      defence: Name, value, settings and training of the defence.
      seed: The repetition.
    """
    kind = kinds()[defence["name"]]
    # The block is shared by all defences: each takes of it what it has a use for.
    options = {**common["training"], **defence["training"]}
    if not kind.bounds:
        options["clipping"] = "none"
    if kind.channel is not None:
        for key in ("sampling", "max_batch_size", "physical_batch_size"):
            options.pop(key, None)
    return TrainingConfig(
        data=common["data"],
        model=common["model"],
        defence=kind.build(defence["value"], **defence["settings"]),
        prepare=common["prepare"],
        seed=seed,
        **suited(kind, options),
    )


def mechanism(name: str, value: float | None, settings: Settings) -> Mechanism:
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


def label(name: str, value: float | None, settings: Settings) -> str:
    """A short title: ``VMF κ = 500``."""
    return kinds()[name].label(value, settings)
