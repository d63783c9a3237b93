"""Membership attacks on a cell: who was in the training set, and what that says about ε."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from recondite.studies import attackers, rows
from recondite.studies.splits import pool

if TYPE_CHECKING:
    from recondite.studies.cell import Trained

__all__ = ["infer_members"]

_CONFIDENCE = 0.999
_POINTS = 100  # of a ROC curve
_ADD_OR_REMOVE = "add-or-remove-one"


def infer_members(trained: Trained, attack: dict[str, Any]) -> dict[str, Any]:
    """Attacks the trained model; records were in or out of its training set by fair coins.

    Reference models are trained on the held-out records, as the model was but without a defence.
    """
    from recondite.attacks.membership.recipe import Recipe

    plan, seed = trained.plan, trained.task["seed"]
    found = pool(plan, trained.task)
    assert found.members is not None
    assert found.others is not None
    made = attackers.build(attack["name"], attack["options"])
    recipe = Recipe(
        epochs=plan.passes(len(found.training)),
        batch_size=plan.batch_size,
        optimizer=plan.optimizer,
        learning_rate=plan.learning_rate,
        momentum=plan.momentum,
        weight_decay=plan.weight_decay,
    )
    result = made.infer(
        trained.model,
        found.members,
        found.others,
        make_model=lambda: _fresh(trained),
        population=found.test,
        recipe=recipe,
        inclusion="coin",
        seed=seed,
        progress=lambda now: trained.said(attack["name"], now.step / max(now.steps, 1)),
    )
    delta = trained.notions["delta"] or 1.0 / len(found.training)
    body = result.to_dict(float(delta), _CONFIDENCE)
    body.pop("seconds", None)
    notes = body.pop("notes", [])
    body["roc"] = [[float(f"{x:.5g}") for x in point] for point in result.roc.points(_POINTS)]
    claims = []
    if _comparable(trained) and body.get("epsilon_lower_holds"):
        claims.append(
            rows.claim(
                "epsilon",
                trained.notions["epsilon"],
                body["epsilon_lower"],
                "membership attack",
                delta=body["epsilon_lower_delta"],
                confidence=body["epsilon_lower_confidence"],
                about="the run",
            )
        )
    coins = f"{body['members']} of {body['members'] + body['nonmembers']} records were put into"
    return {
        "membership": body,
        "claims": claims,
        "notes": [*notes, f"{coins} the training set by fair coins, for the membership attack"],
    }


def _comparable(trained: Trained) -> bool:
    """Whether the attack speaks of the same neighbours as the claim: a record, label included."""
    privacy = trained.record["privacy"]
    return privacy is None or (
        trained.plan.channel is None and privacy["neighbouring"] == _ADD_OR_REMOVE
    )


def _fresh(trained: Trained) -> nn.Module:
    """An untrained model of the victim's kind, of the seed that is set where it is called."""
    from recondite.models import resolve

    facts = trained.task["data_facts"]
    plan = trained.plan
    return resolve(plan.model, facts["shape"], facts["classes"], norm=plan.norm).to(plan.device)
