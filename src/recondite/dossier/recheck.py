"""How to verify again: the command that computes each promise from its settings alone."""

from __future__ import annotations

import shlex
from typing import Any

from recondite.mechanisms import mechanisms
from recondite.report.rows import Row, section

__all__ = ["account_command"]

# What the command asks for with each way to draw batches.
_SCHEDULES = {
    "poisson": ("rate", "steps"),
    "fixed-size": ("batch_size", "records", "steps"),
    "shuffled": ("batch_size", "records", "epochs"),
}


def account_command(row: Row) -> str | None:
    """``recondite account`` with the settings of a row; None where no command computes it.

    It needs neither records nor weights: an assessor gets the same bounds from the numbers alone.
    """
    chosen = section(row, "search").get("epsilon")
    if chosen is not None and chosen == section(row, "notions").get("epsilon"):
        return None  # bounds of the best of several runs; the account is of the one that won
    privacy = section(row, "privacy")
    name, schedule = str(privacy.get("mechanism")), section(privacy, "schedule")
    asked = _SCHEDULES.get(str(schedule.get("sampling")))
    if name not in mechanisms() or asked is None:
        return None
    parts: Row = {
        **section(privacy, "parameters"),
        "sampling": schedule["sampling"],
        **{key: schedule.get(key) for key in asked},
        "delta": privacy.get("delta"),
    }
    if privacy.get("group_size", 1) != 1:
        parts["group_size"] = privacy["group_size"]
    if any(parts[key] is None for key in (*asked, "delta")):
        return None
    words = [
        f"--{key.replace('_', '-')} {_text(value)}"
        for key, value in parts.items()
        if value is not None
    ]
    return f"recondite account {name} {' '.join(words)}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return shlex.quote(str(value))
