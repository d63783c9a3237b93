"""What a membership attack found: scores, curve, rates, and what they say about ε."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate
from recondite.accounting.auditing import epsilon_lower_bound
from recondite.metrics import roc as curves
from recondite.metrics.one_run import one_run_lower_bound

__all__ = ["COIN", "GIVEN", "INCLUSIONS", "EpsilonLower", "MembershipResult"]

FloatArray = NDArray[np.float64]
GIVEN, COIN = "given", "coin"
INCLUSIONS = (GIVEN, COIN)
_REPORTED = (0.001, 0.01)
_DELTA, _CONFIDENCE = 1e-5, 0.95


@dataclass(frozen=True)
class EpsilonLower:
    """A lower bound on ε from an attack, and whether it is one.

    Attributes:
      epsilon: The number; 0 when nothing is shown.
      delta: δ.
      confidence: Probability with which it holds, if it does.
      holds: True for a bound, False for an estimate: only a bound refutes a claim.
      how: Where it comes from, in a few words.
    """

    epsilon: float
    delta: float
    confidence: float
    holds: bool
    how: str

    def __float__(self) -> float:
        return self.epsilon

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "holds": self.holds,
            "how": self.how,
        }


@dataclass(frozen=True, eq=False)
class MembershipResult:
    """Scores of members and non-members, and everything read from them.

    Rates and intervals are for this model: the records are taken as a sample, the training run as
    given. A defence is judged by several runs.

    Attributes:
      attack: The attack's name.
      scores_members: One score for each member that was judged; higher is more like a member.
      scores_nonmembers: The same for non-members.
      inclusion: ``"coin"`` if each record was put into the training set by its own fair coin,
        ``"given"`` for any other sets, such as training set against test set.
      judged_members: Positions, in what the attack was given, of the members judged: an attack
        that learns from some known members judges the others only.
      judged_nonmembers: The same for non-members.
      seed: What the attack drew from.
      seconds: How long it took.
      notes: What a reader should know.
    """

    attack: str
    scores_members: FloatArray
    scores_nonmembers: FloatArray
    inclusion: str = GIVEN
    judged_members: NDArray[np.int64] | None = None
    judged_nonmembers: NDArray[np.int64] | None = None
    seed: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _validate.choice("inclusion", self.inclusion, INCLUSIONS)
        for name in ("scores_members", "scores_nonmembers"):
            scores = np.array(getattr(self, name), dtype=np.float64)
            if scores.ndim != 1 or scores.size < 2:
                raise ValueError(
                    f"{name} must have 2 or more scores, got shape {scores.shape}: give more "
                    "records"
                )
            if np.isnan(scores).any():
                raise ValueError(f"{name} must be numbers: it has a NaN")
            scores.setflags(write=False)
            object.__setattr__(self, name, scores)

    @property
    def _pair(self) -> tuple[FloatArray, FloatArray]:
        return self.scores_members, self.scores_nonmembers

    @cached_property
    def roc(self) -> curves.Roc:
        """The exact curve."""
        return curves.roc(*self._pair)

    @property
    def auc(self) -> float:
        """Probability that a member scores above a non-member; 0.5 is chance."""
        return curves.auc(*self._pair)

    @cached_property
    def auc_interval(self) -> curves.Interval:
        """95% bootstrap interval of the area."""
        return curves.auc_interval(*self._pair)

    @property
    def auc_standard_error(self) -> float:
        """DeLong's standard error of the area."""
        return curves.auc_standard_error(*self._pair)

    def tpr_at(self, fpr: float) -> float:
        """Largest true-positive rate at a false-positive rate of at most ``fpr``."""
        return self.roc.tpr_at(fpr)

    def tpr_interval_at(self, fpr: float, confidence: float = 0.95) -> curves.Interval:
        """Bootstrap interval of that rate; wide where there are few non-members."""
        return curves.tpr_interval(*self._pair, fpr, confidence)

    def epsilon_lower(self, delta: float = _DELTA, confidence: float = _CONFIDENCE) -> EpsilonLower:
        """What the attack says about ε from below. Read ``holds`` before using it.

        With ``inclusion="coin"`` this is a bound: with probability ``confidence`` over the coins
        and the training, no smaller ε is true of the training at this δ, under adding or removing
        one record (:func:`~recondite.metrics.one_run.one_run_lower_bound`).

        Otherwise it is an estimate: the core's bound
        (:func:`~recondite.accounting.auditing.epsilon_lower_bound`) computed as if each record
        were a run of its own. Its proof needs scores that are independent draws of one pair of
        neighbouring data sets; here all come from one model, and members and non-members may
        differ for other reasons than training. It shows the size of the leak and refutes nothing.
        """
        if self.inclusion == COIN:
            bound = one_run_lower_bound(*self._pair, delta, confidence)
            how = f"one training run: {bound.right} of {bound.guesses} guesses right"
            return EpsilonLower(bound.epsilon, bound.delta, bound.confidence, True, how)
        shown = epsilon_lower_bound(*self._pair, delta, confidence)
        how = "estimate: records of one run taken as independent runs"
        return EpsilonLower(shown.epsilon, shown.delta, shown.confidence, False, how)

    def to_dict(self, delta: float = _DELTA, confidence: float = _CONFIDENCE) -> dict[str, Any]:
        """The "membership" part of a comparison's row, in plain values."""
        low, high = self.auc_interval
        lower = self.epsilon_lower(delta, confidence)
        out: dict[str, Any] = {
            "attack": self.attack,
            "auc": self.auc,
            "auc_low": low,
            "auc_high": high,
            "auc_standard_error": self.auc_standard_error,
        }
        for fpr in _REPORTED:
            rate_low, rate_high = self.tpr_interval_at(fpr)
            out |= {
                f"tpr_at_{fpr:g}": self.tpr_at(fpr),
                f"tpr_at_{fpr:g}_low": rate_low,
                f"tpr_at_{fpr:g}_high": rate_high,
            }
        return out | {
            "epsilon_lower": lower.epsilon,
            "epsilon_lower_delta": lower.delta,
            "epsilon_lower_confidence": lower.confidence,
            "epsilon_lower_holds": lower.holds,
            "epsilon_lower_how": lower.how,
            "inclusion": self.inclusion,
            "members": int(self.scores_members.size),
            "nonmembers": int(self.scores_nonmembers.size),
            "roc": self.roc.points(200),
            "seed": self.seed,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }
