"""What a count of steps was counted under: without it, a count has no cost.

An account is computed from the number of steps and from how each was made. A count that goes on
under a cheaper schedule would make all its past steps cheaper.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypedDict

from recondite.gradients.clipping import Bound
from recondite.mechanisms import Mechanism
from recondite.training.sampling import PrivateLoader

__all__ = ["StepParameters", "check", "step_parameters"]

_KEYS = ("mechanism", "parameters", "sampling", "batch_size", "records", "clip_norm")


class StepParameters(TypedDict):
    """All that the cost of a step depends on; keys as ledgers and checkpoints have them."""

    mechanism: str
    parameters: Mapping[str, Any]
    sampling: str
    batch_size: int
    records: int
    clip_norm: float | list[float] | None


def step_parameters(mechanism: Mechanism, loader: PrivateLoader, bound: Bound) -> StepParameters:
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
    plain: StepParameters = json.loads(json.dumps(dict(zip(_KEYS, values, strict=True))))
    return plain


def check(what: str, theirs: Mapping[str, Any] | None, mine: StepParameters) -> None:
    """Raises ``ValueError`` unless steps counted elsewhere were made as they are made here.

    Args:
      what: What holds the count: "checkpoint", "ledger train.json".
      theirs: What it says of its steps; None, or fewer keys, where an older version wrote it.
      mine: The parameters of this engine's steps.
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
        before, after = (
            ", ".join(f"{key}={side.get(key)!r}" for key in differ) for side in (then, now)
        )
        raise ValueError(
            f"{what} has steps taken with {before}, not {after}: make the engine with {before}, "
            f"or {remedy}"
        )


def _from_0_1_0(what: str, theirs: Mapping[str, Any], mine: StepParameters) -> Mapping[str, Any]:
    """Parameters as version 0.1.0 wrote them: its Gaussian knew the clipping norm and the divisor.

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


def _flat(step: Mapping[str, Any]) -> dict[str, object]:
    rest = {key: step[key] for key in _KEYS if key != "parameters"}
    return {**step["parameters"], **rest}
