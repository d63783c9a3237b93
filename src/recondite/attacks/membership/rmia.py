"""RMIA: the record against a population (Zarifzadeh, Liu and Shokri, 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recondite import _validate
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.base import Case, Judgement, MembershipAttack
from recondite.attacks.membership.signals import (
    FloatArray,
    confidences,
    logit_confidences,
    logits_of,
)

__all__ = ["Rmia", "rmia_scores"]


def rmia_scores(ratios: ArrayLike, population_ratios: ArrayLike, gamma: float = 2.0) -> FloatArray:
    """Share of population records z with LR(x, z) = ratio(x)/ratio(z) of at least γ.

    A ratio is Pr(x | victim)/Pr(x): how much more the victim believes the label than models at
    large do. Records with the same share are ordered by their own ratio, within 1/(Z + 1): the
    score rises strictly with the ratio, and without that most members of an over-fitted model tie.

    Args:
      ratios: Of the records in question, (n,), above 0.
      population_ratios: Of records known to be non-members, (Z,).
      gamma: γ, 1 or more: how much likelier than z the record must be.
    """
    own, others = (np.asarray(r, dtype=np.float64) for r in (ratios, population_ratios))
    if own.ndim != 1 or others.ndim != 1 or not others.size:
        raise ValueError("ratios must be lists of numbers, with one or more of the population")
    if not (np.all(own >= 0) and np.all(others >= 0)):
        raise ValueError("ratios must be 0 or more")
    if _validate.finite("gamma", gamma) < 1:
        raise ValueError(f"gamma must be 1 or more, got {gamma!r}")
    beaten = np.searchsorted(np.sort(others), own / gamma, side="right")
    found: FloatArray = (beaten + own / (1 + own)) / (others.size + 1)
    return found


@dataclass(frozen=True)
class Rmia(MembershipAttack):
    """Pairwise likelihood ratios against population records; strong with few references.

    The offline attack: references see the population only. Pr(x) needs models with and without x;
    the former are guessed, Pr(x) = ½((1 + a)·Pr_out(x) + 1 − a), as in the paper. Each population
    record is in half of the references, so its Pr(z) is the average over both halves.

    Attributes:
      references: How many models; an even number gives each population record both kinds.
      gamma: γ.
      offset: a, from 0 (models with a record are certain of it) to 1 (as sure as without). The
        paper's 0.3 for CIFAR-10.
      size: Records each reference is trained on; by default as many as the victim, or half of the
        population where that is not known.
    """

    references: int = 8
    gamma: float = 2.0
    offset: float = 0.3
    size: int | None = None

    name: ClassVar[str] = "membership-rmia"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.RECORDS, Knowledge.SHADOW_DATA}
    )

    def __post_init__(self) -> None:
        _validate.at_least("references", self.references, 1)
        if _validate.finite("gamma", self.gamma) < 1:
            raise ValueError(f"gamma must be 1 or more, got {self.gamma!r}")
        _validate.probability("offset", self.offset, closed_at_one=True, closed_at_zero=True)

    def judge(self, case: Case) -> Judgement:
        """Scores by the share of the population that the record beats."""
        models, notes = case.outside_references(self.name, self.references, self.size)
        own = self._prob("members and nonmembers", case.logits, case.labels)
        outside = self._prob("references", models.logits(case.images), case.labels).mean(axis=0)
        prior = ((1 + self.offset) * outside + 1 - self.offset) / 2
        # Only records that the victim never saw: those it is known to have seen stand last.
        count = len(models.images) - (0 if case.known is None else len(case.known[0]))
        images, labels = models.images[:count], models.labels[:count]
        public = self._prob("population", logits_of(case.model, images), labels)
        seen = self._prob("population", models.logits(images), labels)
        public_prior = self._both(seen, models.inside[:, :count])
        return case.split(
            rmia_scores(own / prior, public / np.maximum(public_prior, 1e-300), self.gamma), notes
        )

    @staticmethod
    def _prob(name: str, logits: Tensor, labels: Tensor) -> FloatArray:
        return confidences(logit_confidences(name, logits, labels))

    def _both(self, seen: FloatArray, inside: NDArray[np.bool_]) -> FloatArray:
        """Pr(z): the mean over models with z and without it, or the guess for the former."""
        with_z, without_z = inside.sum(axis=0), (~inside).sum(axis=0)
        mean_in = np.where(inside, seen, 0).sum(axis=0) / np.maximum(with_z, 1)
        mean_out = np.where(inside, 0, seen).sum(axis=0) / np.maximum(without_z, 1)
        guess = self.offset * mean_out + 1 - self.offset
        mean_out = np.where(without_z > 0, mean_out, mean_in)
        found: FloatArray = (np.where(with_z > 0, mean_in, guess) + mean_out) / 2
        return found
