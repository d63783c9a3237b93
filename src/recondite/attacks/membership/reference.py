"""Reference models: is the loss small for *this* record? Attack R of Ye et al. (2022), MIA-R."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from recondite import _validate
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.base import Case, Judgement, MembershipAttack
from recondite.attacks.membership.signals import FloatArray, losses_of

__all__ = ["Reference", "reference_scores"]


def reference_scores(losses: ArrayLike, reference_losses: ArrayLike) -> FloatArray:
    """How low the loss lies among those of models that never saw the record.

    The attack says "member" at level α when the loss is below the α-quantile of the record's
    reference losses. The score is log((1 − α)/α) of the α at which the answer changes, so one
    threshold on it is one α for all records. Among the sorted reference losses α runs linearly
    from 1/2K to 1 − 1/2K. Beyond them it decays exponentially over the usual spread of a record's
    references: that only ranks records which all K references leave on one side.

    Args:
      losses: Of the victim, (n,).
      reference_losses: Of the K references, (K, n).

    Returns:
      Scores (n,), falling in the loss and rising in each reference loss.
    """
    own = np.asarray(losses, dtype=np.float64)
    others = np.sort(np.asarray(reference_losses, dtype=np.float64), axis=0)
    if others.ndim != 2 or others.shape[1:] != own.shape:
        raise ValueError(f"reference_losses must be (models, {own.size}), got shape {others.shape}")
    count = len(others)
    spread = np.mean(others.std(axis=0)) if count > 1 else np.mean(np.abs(others[0] - own))
    scale = max(float(spread), 1e-12)
    edge = 1 / (2 * count)
    level = edge + _position(own, others) / count
    below, above = np.maximum(others[0] - own, 0) / scale, np.maximum(own - others[-1], 0) / scale
    tail = np.log1p(-edge * np.exp(-(below + above))) - np.log(edge) + below + above
    inner = np.log1p(-level) - np.log(level)
    found: FloatArray = np.where(below > 0, tail, np.where(above > 0, -tail, inner))
    return found


def _position(own: FloatArray, others: FloatArray) -> FloatArray:
    """Place among the sorted rows, 0 at the first and K − 1 at the last, linear between."""
    count = len(others)
    if count == 1:
        return np.zeros_like(own)
    rank = np.clip(np.sum(others <= own, axis=0) - 1, 0, count - 2)
    low = np.take_along_axis(others, rank[None], axis=0)[0]
    high = np.take_along_axis(others, rank[None] + 1, axis=0)[0]
    gap = high - low
    share = np.divide(own - low, gap, out=np.zeros_like(own), where=gap > 0)
    found: FloatArray = rank + np.clip(share, 0, 1)
    return found


@dataclass(frozen=True)
class Reference(MembershipAttack):
    """Compares the loss with those of reference models trained on other records of the kind.

    The attack that Faustini et al. (2023) call MIA-R. That paper gives neither the number of
    references nor their training sets, beyond "several training partitions": both are assumptions.

    Attributes:
      references: How many models.
      size: Records each one is trained on; by default as many as the victim, or half of the
        population where that is not known.
    """

    references: int = 8
    size: int | None = None

    name: ClassVar[str] = "membership-reference"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.RECORDS, Knowledge.SHADOW_DATA}
    )

    def __post_init__(self) -> None:
        _validate.at_least("references", self.references, 1)

    def judge(self, case: Case) -> Judgement:
        """Scores each loss among the reference losses of the same record."""
        losses = losses_of("members and nonmembers", case.logits, case.labels, case.loss_fn)
        models, notes = case.outside_references(self.name, self.references, self.size)
        others = losses_of("references", models.logits(case.images), case.labels, case.loss_fn)
        return case.split(reference_scores(losses, others), notes)
