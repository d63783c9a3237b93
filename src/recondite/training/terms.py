"""What a count of steps was counted under: without it, a count has no cost.

An account is computed from the number of steps and from how each was made. A count that goes on
under a cheaper schedule would make all its past steps cheaper.
"""

from __future__ import annotations

import json
from typing import Any

from recondite.mechanisms import Mechanism
from recondite.training.sampling import PrivateLoader

__all__ = ["check", "terms"]

_KEYS = ("mechanism", "parameters", "sampling", "batch_size", "records")


def terms(mechanism: Mechanism, loader: PrivateLoader) -> dict[str, Any]:
    """All that the cost of a step depends on, in the types that JSON has.

    The clipping bound is among the mechanism's parameters where its cost depends on it.

    Args:
      mechanism: Configured for the model.
      loader: The private loader.
    """
    values = (
        mechanism.name,
        mechanism.parameters(),
        loader.sampling,
        loader.batch_size,
        loader.records,
    )
    plain: dict[str, Any] = json.loads(json.dumps(dict(zip(_KEYS, values, strict=True))))
    return plain


def check(what: str, theirs: dict[str, Any] | None, mine: dict[str, Any]) -> None:
    """Raises ``ValueError`` unless steps counted elsewhere were made as they are made here.

    Args:
      what: What holds the count: "checkpoint", "ledger train.json".
      theirs: What it says of its steps; None, or fewer keys, where an older version wrote it.
      mine: The terms of this engine.
    """
    theirs = theirs or {}
    remedy = "start a new one and add the costs of the two runs with recondite.accounting.compose"
    missing = [key for key in _KEYS if key not in theirs]
    if missing:
        raise ValueError(
            f"{what} does not say with which {', '.join(missing)} its steps were taken: {remedy}"
        )
    then, now = _flat(json.loads(json.dumps(theirs))), _flat(mine)
    differ = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    if differ:
        found, here = (
            ", ".join(f"{key}={side.get(key)!r}" for key in differ) for side in (then, now)
        )
        raise ValueError(
            f"{what} has steps taken with {found}, not {here}: make the engine with {found}, "
            f"or {remedy}"
        )


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    rest = {key: found[key] for key in _KEYS if key != "parameters"}
    return {**found["parameters"], **rest}
