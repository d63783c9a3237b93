"""Held-out records as the victims of one step: drawn once, scored once, for every attack on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recondite.attacks import scoring
from recondite.attacks.claims import identification_claims
from recondite.attacks.gradient.base import Reconstruction
from recondite.attacks.outcome import Outcome, Rebuilt
from recondite.attacks.victim import Victim
from recondite.records import Records

__all__ = ["Aim", "aimed", "outcome_of"]


@dataclass(frozen=True, eq=False)
class Aim:
    """The held-out records that an attack on one step's gradients is to rebuild.

    Attributes:
      test: All held-out records.
      chosen: Those to rebuild, batch after batch.
      features: The same, (victims, batch, …).
      labels: (victims, batch).
      public: What the attacker has of the same kind; None where nothing is left.
    """

    test: Records
    chosen: Records
    features: Tensor
    labels: Tensor
    public: Records | None


def aimed(victim: Victim) -> Aim:
    """Draws the records to rebuild, the same for every defence and attack of a seed."""
    asked, test = victim.asked, victim.records.test
    picked = scoring.picked(test, asked.images * asked.batch_size, victim.seed)
    chosen = test.subset(picked)
    return Aim(
        test,
        chosen,
        chosen.features.reshape(asked.images, asked.batch_size, *test.shape),
        chosen.labels.reshape(asked.images, asked.batch_size),
        scoring.public_records(victim, picked),
    )


def outcome_of(
    victim: Victim,
    model: nn.Module,
    aim: Aim,
    found: Reconstruction,
    *,
    told: bool,
    restarts: int = 1,
    weights: str | None = None,
) -> Outcome:
    """Scores what was rebuilt beside the records and beside the blind guess.

    Args:
      victim: The victim.
      model: The model whose gradients leaked.
      aim: What the reconstructions are compared with: (victims, originals, …).
      found: The reconstructions.
      told: Whether the attacker knew the labels.
      restarts: Attempts a victim.
      weights: Which weights the gradients are of, in a word; what was asked for by default.

    Raises:
      ValueError: In one line, where images are not finite.
    """
    asked = victim.asked
    if not torch.isfinite(found.images).all():
        raise ValueError("the attack diverged: its images are not finite (lower its learning rate)")
    scores, gallery, blind = scoring.beside(
        aim.chosen,
        found.images,
        aim.features,
        aim.public,
        told=told and aim.features.shape[1] == asked.batch_size,
    )
    return Outcome(
        rebuilt=Rebuilt(
            scores,
            images_from="held-out records",
            matching_loss=tuple(float(value) for value in found.loss.flatten()),
            labels_right=None if told else scoring.labels_found(found.labels, aim.labels),
            restarts=restarts,
            batch_size=asked.batch_size,
            victim=weights or asked.victim,
            figures=found.figures,
            blind=blind,
        ),
        gallery=gallery,
        claims=identification_claims(
            victim,
            model,
            aim.test.natural(found.images).clamp(0, 1),
            aim.chosen,
            asked.batch_size,
            told=told,
        ),
        notes=found.notes,
        iterations=found.steps,
        interrupted=found.interrupted,
        seconds=found.seconds,
    )
