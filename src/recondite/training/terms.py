"""What a count of steps was counted under: without it, a count has no cost.

An account is computed from the number of steps and from how each was made. A count that goes on
under a cheaper schedule would make all its past steps cheaper.
"""

from __future__ import annotations

import json
import math
from typing import Any

from recondite.gradients.clipping import Bound
from recondite.mechanisms import Mechanism
from recondite.training.sampling import PrivateLoader

__all__ = ["check", "terms"]

_KEYS = ("mechanism", "parameters", "sampling", "batch_size", "records", "clip_norm")


def terms(mechanism: Mechanism, loader: PrivateLoader, bound: Bound) -> dict[str, Any]:
    """All that the cost of a step depends on, in the types that JSON has.

    The mechanism's parameters are in units of one record's bound; ``clip_norm`` is what such a
    unit was, with one value a layer where layers are bounded apart, and null for a release that
    has no scale.

    Args:
      mechanism: Configured for the model.
      loader: The private loader.
      bound: How each record's gradient is bounded.
    """
    norm = bound.norm if math.isfinite(bound.norm) else 1.0
    values = (
        mechanism.name,
        mechanism.parameters(),
        loader.sampling,
        loader.batch_size,
        loader.records,
        None if mechanism.scale_free else bound.layer_norms() or norm,
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
    theirs = _from_0_1_0(what, theirs or {}, mine)
    remedy = "start a new one and add the costs of the two runs with recondite.accounting.compose"
    missing = [key for key in _KEYS if key not in theirs]
    if missing:
        raise ValueError(
            f"{what} does not say with which {', '.join(missing)} its steps were taken: {remedy}"
        )
    then, now = _flat(json.loads(json.dumps({key: theirs[key] for key in _KEYS}))), _flat(mine)
    differ = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    if differ:
        found, here = (
            ", ".join(f"{key}={side.get(key)!r}" for key in differ) for side in (then, now)
        )
        raise ValueError(
            f"{what} has steps taken with {found}, not {here}: make the engine with {found}, "
            f"or {remedy}"
        )


def _from_0_1_0(what: str, theirs: dict[str, Any], mine: dict[str, Any]) -> dict[str, Any]:
    """Terms as version 0.1.0 wrote them: its Gaussian knew the clipping norm and the divisor.

    Raises:
      ValueError: Its layers had bounds that differ. It spread the noise over them otherwise, which
        costs the same ε but another Bayes' capacity.
    """
    parameters = dict(theirs.get("parameters") or {})
    if "clip_norm" in theirs or not parameters:
        return theirs
    if "clip_norm" not in parameters:
        return {**theirs, "clip_norm": mine["clip_norm"]}
    norms, norm = parameters.get("layer_norms"), parameters["clip_norm"]
    parameters.pop("batch_size", None)
    if norms is None:
        return {**theirs, "parameters": {**parameters, "clip_norm": 1.0}, "clip_norm": norm}
    if len(set(norms)) > 1:
        raise ValueError(
            f"{what} has steps of version 0.1.0 with layer_norms={norms}, whose noise was spread "
            "otherwise over the layers: start a new one"
        )
    ones = [1.0] * len(norms)
    parameters |= {"clip_norm": math.hypot(*ones), "layer_norms": ones}
    return {**theirs, "parameters": parameters, "clip_norm": norms}


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    rest = {key: found[key] for key in _KEYS if key != "parameters"}
    return {**found["parameters"], **rest}
