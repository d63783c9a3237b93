"""Attacks by name: which family they are of, what they are told, and whether they apply."""

from __future__ import annotations

from typing import Any

from recondite.studies.defences import kinds

__all__ = ["ADAPTIVE", "AUDIT", "FIELDS", "LOOKING", "applies", "build", "family", "names"]

AUDIT, ADAPTIVE, LOOKING = "canary-audit", "adaptive", "looking"
# These attack what a federation sends, which a comparison of trainings has not got.
_ELSEWHERE = ("multi-step",)
# Keys of a study's attack that each family reads; all else are the attack's own options.
FIELDS: dict[str, tuple[str, ...]] = {
    "gradient": ("images", "batch_size", "victim", "labels", "threat"),
    "membership": ("records", "threat"),
    "inversion": ("threat",),
    "looking": ("images", "threat"),
    "audit": (),
}
AUDIT_OPTIONS = ("runs", "steps", "delta", "confidence")


def names() -> tuple[str, ...]:
    """Every attack that a study can name."""
    from recondite.attacks import registry  # imports torch

    return (*(name for name in registry.names() if name not in _ELSEWHERE), AUDIT)


def build(name: str, options: dict[str, Any]) -> Any:
    """The attack, its options checked."""
    from recondite.attacks import registry

    plain = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    return registry.build(name, **plain)


def family(name: str) -> str:
    """gradient, membership, inversion, looking or audit."""
    if name == AUDIT:
        return "audit"
    if name == LOOKING:
        return "looking"
    if name == "model-inversion":
        return "inversion"
    return "membership" if name.startswith("membership") else "gradient"


def applies(name: str, defence: str, *, first: bool) -> bool:
    """Whether there is anything to attack.

    A claim about noise on gradients is audited once, at one seed; records can be looked at where a
    defence is on them.
    """
    if name not in (AUDIT, LOOKING):
        return True
    kind = kinds()[defence]
    if name == LOOKING:
        return kind.on_records
    return first and kind.private and kind.channel is None
