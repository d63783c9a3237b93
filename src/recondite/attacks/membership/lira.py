"""LiRA: a likelihood-ratio test for each record (Carlini et al., 2022), online and offline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recondite import _validate
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.base import Case, Judgement, MembershipAttack
from recondite.attacks.membership.signals import FloatArray, logit_confidences

__all__ = ["Lira", "lira_offline_scores", "lira_online_scores"]

# Carlini et al. fit one variance for each record only from this many models of a kind on.
_OWN_VARIANCE = 32
_FLOOR = 1e-6


def lira_online_scores(
    confidences: ArrayLike, shadow_confidences: ArrayLike, inside: ArrayLike
) -> FloatArray:
    """The log-likelihood ratio of each record: log N(φ; μ_in, σ_in²) − log N(φ; μ_out, σ_out²).

    Means are of each record; variances too from 32 models of a kind on, else one for all records.
    If confidences of models with and without the record are Gaussian and these parameters are
    known, no test has a larger true-positive rate at the same false-positive rate.

    Args:
      confidences: φ = log(p/(1 − p)) of the victim, (n,).
      shadow_confidences: Of the shadow models, (K, n).
      inside: (K, n), whether the shadow model was trained on the record.
    """
    own, others = _checked(confidences, shadow_confidences)
    mask = np.asarray(inside, dtype=bool)
    if mask.shape != others.shape:
        raise ValueError(f"inside must have shape {others.shape}, got {mask.shape}")
    mean_in, std_in = _fit(others, mask)
    mean_out, std_out = _fit(others, ~mask)
    # A record that no model saw (or all saw): the usual distance stands in for its own.
    shifts = (mean_in - mean_out)[~np.isnan(mean_in - mean_out)]
    if not shifts.size:
        raise ValueError("inside must hold records that some shadow models saw and others did not")
    shift = shifts.mean()
    mean_in = np.where(np.isnan(mean_in), mean_out + shift, mean_in)
    mean_out = np.where(np.isnan(mean_out), mean_in - shift, mean_out)
    found: FloatArray = (
        np.log(std_out / std_in)
        - ((own - mean_in) / std_in) ** 2 / 2
        + ((own - mean_out) / std_out) ** 2 / 2
    )
    return found


def lira_offline_scores(confidences: ArrayLike, shadow_confidences: ArrayLike) -> FloatArray:
    """(φ − μ_out)/σ_out: how unlikely so high a confidence is for models without the record.

    The one-sided test of the paper, whose score Φ(·) of this has the same order but rounds to 1.

    Args:
      confidences: Of the victim, (n,).
      shadow_confidences: Of models that never saw the records, (K, n).
    """
    own, others = _checked(confidences, shadow_confidences)
    mean, std = _fit(others, np.ones_like(others, dtype=bool))
    found: FloatArray = (own - mean) / std
    return found


def _checked(confidences: ArrayLike, shadow: ArrayLike) -> tuple[FloatArray, FloatArray]:
    own, others = (np.asarray(values, dtype=np.float64) for values in (confidences, shadow))
    if own.ndim != 1 or others.ndim != 2 or others.shape[1] != own.size:
        raise ValueError(
            f"shadow_confidences must be (models, records) for {own.size} records, got "
            f"{others.shape}"
        )
    return own, others


def _fit(values: FloatArray, mask: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Means (NaN where no model counts) and standard deviations of each record."""
    count = mask.sum(axis=0)
    sums = np.where(mask, values, 0).sum(axis=0)
    mean = np.divide(sums, count, out=np.full(values.shape[1], np.nan), where=count > 0)
    squares = np.where(mask, values - mean, 0) ** 2
    total, free = squares.sum(), np.sum(np.maximum(count - 1, 0))
    pooled = float(np.sqrt(total / free)) if free > 0 else 0.0
    if count.min(initial=values.shape[0]) >= _OWN_VARIANCE:
        return mean, np.sqrt(np.maximum(squares.sum(axis=0) / (count - 1), _FLOOR))
    # No spread to see, or none beyond rounding: any common spread keeps the order.
    return mean, np.full(values.shape[1], pooled if pooled > _FLOOR else 1.0)


@dataclass(frozen=True)
class Lira(MembershipAttack):
    """Likelihood-ratio attack with shadow models.

    Online, each shadow model is trained on a random half of the records in question, and on others
    up to the victim's number, so that every record has models with and without it: one set of
    models for these records only. Offline, the models never see them, and serve any records.

    Attributes:
      references: How many shadow models; an even number online.
      online: Whether shadow models may see the records in question.
      size: Records each is trained on, offline; by default as many as the victim, or half of the
        population where that is not known.
    """

    references: int = 16
    online: bool = True
    size: int | None = None

    name: ClassVar[str] = "membership-lira"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.RECORDS, Knowledge.SHADOW_DATA}
    )

    def __post_init__(self) -> None:
        _validate.at_least("references", self.references, 2)
        if self.online and self.references % 2:
            raise ValueError(
                f"references must be even online (each record is in half), got {self.references}"
            )
        if self.online and self.size is not None:
            raise ValueError("size is of the offline attack: online, models are as the victim is")

    def judge(self, case: Case) -> Judgement:
        """Scores by the likelihood ratio of the confidence in the true label."""
        what = "members and nonmembers"
        own = logit_confidences(what, case.logits, case.labels)
        if not self.online:
            models, notes = case.outside_references(self.name, self.references, self.size)
            shadow = logit_confidences("references", models.logits(case.images), case.labels)
            return case.split(lira_offline_scores(own, shadow), notes)
        count = len(case.images)
        models = case.references or case.train(
            self.name, self._pool(case), self.references, coins=count
        )
        if models.inside.shape[1] < count or not torch.equal(
            models.images[:count].cpu(), case.images.cpu()
        ):
            raise ValueError(
                "references must be of an online attack on the same members and nonmembers: leave "
                "them out to train new ones"
            )
        shadow = logit_confidences("references", models.logits(case.images), case.labels)
        return case.split(lira_online_scores(own, shadow, models.inside[:, :count]))

    @staticmethod
    def _pool(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
        more = () if case.population is None else (case.population,)
        return case.joined((case.images, case.labels), *more)
