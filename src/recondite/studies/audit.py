"""A canary audit as a row of the comparison: the engine's claim against what releases show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recondite.mechanisms import Mechanism
from recondite.studies import rows

if TYPE_CHECKING:
    from recondite.studies.cell import Trained

__all__ = ["audit"]

_LARGEST = 1 << 14


def audit(trained: Trained, attack: dict[str, Any]) -> dict[str, Any]:
    """Audits the mechanism of a cell as the engine releases it.

    The claim is for the audit's own small run, at the audit's δ: see
    :func:`recondite.training.canary.audit_training`.
    """
    from recondite.training.canary import audit_training

    mechanism: Mechanism = trained.plan.mechanism
    own = trained.task["model_facts"]["parameters"]
    options = {"runs": 500, "dim": _dim(mechanism, own), **attack["options"]}
    trained.said("auditing", 0.0)
    found = audit_training(mechanism, seed=trained.task["seed"], **options)
    result = found.result.to_dict()
    return {
        "claims": [
            rows.claim(
                "epsilon",
                found.claim,
                found.lower,
                "canary audit",
                delta=result["delta"],
                confidence=result["confidence"],
                about=f"{options.get('steps', 1)} release(s) in {options['dim']} dimensions",
            )
        ],
        "notes": ["the canary audit's claim is for its own small run, not for the training run"],
    }


def _dim(mechanism: Mechanism, own: int) -> int:
    """Parameters of the audited model: the run's, as long as its releases fit in memory."""
    blocks = mechanism.parameters().get("blocks")
    return sum(blocks) if isinstance(blocks, list) else min(own, _LARGEST)
