"""Attacks as a study names them: with its own keys, and behind its defences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recondite.studies.defences import kinds
from recondite.studies.shapes import AttackConfig, Settings

if TYPE_CHECKING:
    from recondite.attacks.base import Attack, AttackRequest

__all__ = ["applies", "asked", "build", "names", "own_settings", "reads"]


def names() -> tuple[str, ...]:
    """Every attack that a study can name: those that need no more than its victims offer."""
    from recondite.attacks.registry import classes  # imports torch
    from recondite.attacks.victim import Victim

    return tuple(name for name, kind in classes().items() if kind.needs <= Victim.offers)


def build(name: str, options: Settings) -> Attack:
    """The attack, its options checked."""
    from recondite.attacks import registry

    plain = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    return registry.build(name, **plain)


def reads(name: str) -> tuple[str, ...]:
    """The study's keys that it reads; all others are the attack's own options."""
    from recondite.attacks.registry import attack_named

    return attack_named(name).reads


def own_settings(name: str) -> frozenset[str]:
    """An attack's own settings that are called like a study's key which it does not read."""
    from recondite.attacks.base import asked_fields
    from recondite.attacks.registry import classes

    kind = classes().get(name)
    if kind is None:
        return frozenset()
    return frozenset(asked_fields()).intersection(kind.setting_names()).difference(kind.reads)


def asked(attack: AttackConfig) -> AttackRequest:
    """What a configured attack is asked."""
    from recondite.attacks.base import AttackRequest, asked_fields

    given: Settings = {**attack}
    return AttackRequest(**{key: given[key] for key in asked_fields() if key in given})


def applies(name: str, defence: str, *, first: bool) -> bool:
    """Whether there is anything to attack behind a defence; ``first``: at the first seed."""
    from recondite.attacks.base import DefenceFacts
    from recondite.attacks.registry import attack_named

    kind = kinds()[defence]
    facts = DefenceFacts(
        name=defence,
        private=kind.private,
        on_records=kind.on_records,
        on_gradients=kind.channel is None,
        first=first,
    )
    return attack_named(name).applies(facts)
