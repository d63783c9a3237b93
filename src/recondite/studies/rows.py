"""Rows: the documented shape of one (defence, value, seed, attack)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from recondite.notions import figures, json_ready
from recondite.notions import notions as known
from recondite.studies.defences import kinds, subject
from recondite.studies.shapes import AttackConfig, CellTask, Row

__all__ = ["SCHEMA_VERSION", "failed", "loose_delta", "notions", "row"]

SCHEMA_VERSION = 1

_PRIOR = 0.1


def row(task: CellTask, key: str, attack: AttackConfig, **parts: Any) -> Row:
    """A row; whatever is not given is null.

    Args:
      task: The cell's task.
      key: The row's key.
      attack: The attack's configuration.
      **parts: Any of the row's own keys.
    """
    defence = task["defence"]
    body = {
        "schema_version": SCHEMA_VERSION,
        "kind": "comparison",
        "key": key,
        "study": task["study"],
        "status": "done",
        "reason": None,
        "defence": defence["name"],
        "label": defence["label"],
        "parameter": defence["parameter"],
        "value": defence["value"],
        "settings": defence["settings"],
        "target": defence["target"],
        "seed": task["seed"],
        "attack": attack["name"],
        "attack_options": {k: v for k, v in attack.items() if k != "name"},
        "data": task["data_facts"],
        "model": task["model_facts"],
        "training": {**task["common"]["training"], **defence["training"]},
        "utility": None,
        "privacy": None,
        "notions": None,
        "exposures": [],
        "reconstruction": None,
        "threat": None,
        "membership": None,
        "identification": [],
        "floors": [],
        "claims": [],
        "seconds": {},
        "machine": {},
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "simulation": True,
        "notes": [],
    }
    plain: Row = json_ready({**body, **parts})
    return plain


def failed(task: CellTask, key: str, attack: AttackConfig, reason: str, **parts: Any) -> Row:
    """The row of something that went wrong: its reason in one line, and what was known before."""
    line = " ".join(reason.split())[:500]
    return row(task, key, attack, status="failed", reason=line, **parts)


def notions(defence: str, privacy: Mapping[str, Any] | None) -> Row:
    """Every notion of a run, flat; all are bounds.

    Args:
      defence: The defence's name.
      privacy: The account's JSON, of any version: what it lacks is null. None without noise: then
        everything is as bad as it can be.
    """
    if privacy is None:
        values = {key: figure.undefended for key, (_, figure) in figures().items()}
        return {
            **json_ready(values),
            "delta": None,
            "rero_prior": _PRIOR,
            "subject": "a record",
            "reasons": {"delta": "nothing protects the records"},
        }
    return {
        **{key: value for notion in known().values() for key, value in notion.row(privacy).items()},
        "delta": privacy["delta"],
        "subject": privacy.get("subject") or _subject(defence),
        "reasons": privacy["reasons"],
    }


def loose_delta(delta: float | None, records: int) -> list[str]:
    """A warning where δ lets a defence publish somebody's record and still keep its promise."""
    if delta is None or delta <= 1.0 / records:
        return []
    return [
        f"δ = {delta:g} is above 1 / {records} records: publishing one record at random would "
        "satisfy it; choose a smaller delta"
    ]


def _subject(defence: str) -> str:
    assert kinds()[defence].channel is None
    return subject(defence)
