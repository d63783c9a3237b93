"""Loss threshold: a small loss means a member (Yeom et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.base import Case, Judgement, MembershipAttack
from recondite.attacks.membership.signals import FloatArray, losses_of

__all__ = ["Threshold", "threshold_scores"]


def threshold_scores(losses: ArrayLike) -> FloatArray:
    """Scores of the attack: the negative losses."""
    return -np.asarray(losses, dtype=np.float64)


@dataclass(frozen=True)
class Threshold(MembershipAttack):
    """One threshold on the loss for all records.

    It is the attack that needs least, and finds hard to tell a member from an easy record.
    """

    name: ClassVar[str] = "membership-threshold"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.MODEL, Knowledge.RECORDS})

    def judge(self, case: Case) -> Judgement:
        """Scores by the loss alone."""
        losses = losses_of("members and nonmembers", case.logits, case.labels, case.loss_fn)
        return case.split(threshold_scores(losses))
