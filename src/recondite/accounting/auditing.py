"""Auditing: an empirical lower bound on ε from samples of a release.

Run the mechanism many times on two neighbouring inputs, score every release (best: by its
log-likelihood ratio), and hand the two sets of scores over. A claim below the bound is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from recondite import _validate

__all__ = [
    "AuditResult",
    "as_scores",
    "clopper_pearson_high",
    "clopper_pearson_low",
    "epsilon_lower_bound",
]

FloatArray = NDArray[np.float64]
_TAIL_POINTS = 80
_SELECTION_MISS = 0.03
# "right" counts the scores up to and with a threshold, "left" those below it: where the law of
# the score has atoms, both kinds of half-line are needed.
_SIDES: tuple[tuple[Literal["left", "right"], str, str], ...] = (
    ("right", "<=", ">"),
    ("left", "<", ">="),
)


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on ε(δ), and the test that showed it.

    The test says "this law" of a release whose score lies in a set, here a half-line: ``tail``
    (``">"``, ``">="``, ``"<"``, ``"<="``) and ``threshold``. ``direction`` is the law that the set
    speaks for: ``"with"`` if it is likelier under the first input, ``"without"`` if under the
    second. A true positive is a release of that law in the set, a false positive one of the other.

    Attributes:
      epsilon: The lower bound; 0 when nothing can be shown. Finite, never NaN.
      delta: The δ it is for.
      confidence: Probability, over the samples, with which the bound holds.
      threshold: End of the half-line.
      tail: Which side of the threshold, and whether with it.
      direction: The law the set speaks for.
      true_positive_rate: Observed on the held-out part.
      false_positive_rate: Observed on the held-out part.
      true_positive_low: Lower confidence bound of the first.
      false_positive_high: Upper confidence bound of the second.
      samples: Scores given, (with, without).
      held_out: Scores that the rates come from; the others chose the test.
    """

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    tail: str
    direction: str
    true_positive_rate: float
    false_positive_rate: float
    true_positive_low: float
    false_positive_high: float
    samples: tuple[int, int]
    held_out: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON; an infinite threshold is a string."""
        finite = math.isfinite(self.threshold)
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "threshold": self.threshold if finite else str(self.threshold),
            "tail": self.tail,
            "direction": self.direction,
            "true_positive_rate": self.true_positive_rate,
            "false_positive_rate": self.false_positive_rate,
            "true_positive_low": self.true_positive_low,
            "false_positive_high": self.false_positive_high,
            "samples": {"with": self.samples[0], "without": self.samples[1]},
            "held_out": {"with": self.held_out[0], "without": self.held_out[1]},
        }


def clopper_pearson_low(hits: ArrayLike, trials: ArrayLike, miss: float) -> FloatArray:
    """Exact lower confidence bound of a binomial rate, wrong with probability at most ``miss``."""
    k, n = np.broadcast_arrays(np.asarray(hits, float), np.asarray(trials, float))
    # The clamp only feeds betaincinv a legal argument where the answer is 0 anyway.
    return np.where(k > 0, betaincinv(np.maximum(k, 0.5), n - k + 1, miss), 0.0)


def clopper_pearson_high(hits: ArrayLike, trials: ArrayLike, miss: float) -> FloatArray:
    """Exact upper confidence bound of a binomial rate, wrong with probability at most ``miss``."""
    k, n = np.broadcast_arrays(np.asarray(hits, float), np.asarray(trials, float))
    # The complemented inverse keeps small ``miss`` exact where 1 − miss would round.
    return np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 0.5), miss), 1.0)


def as_scores(name: str, value: ArrayLike, least: int) -> FloatArray:
    """Returns a list, an array or a tensor of ``least`` or more scores as one vector.

    Scores may be infinite, but not NaN.
    """
    given: Any = value
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a list of numbers") from None
    if scores.ndim != 1 or scores.size < least:
        raise ValueError(
            f"{name} must be a list of {least} or more numbers, got shape {scores.shape}"
        )
    if np.isnan(scores).any():
        raise ValueError(f"{name} must be numbers: it has a NaN; infinite scores are allowed")
    return scores


def _split(
    scores: FloatArray, fraction: float, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    # At random: scores that come sorted would otherwise give two parts of different laws.
    mixed = generator.permutation(scores)
    chosen = min(max(round(fraction * scores.size), 1), scores.size - 1)
    return mixed[:chosen], mixed[chosen:]


def _candidates(ordered: FloatArray) -> FloatArray:
    """Order statistics: ranks spaced evenly in the logarithm from either end."""
    last = ordered.size - 1
    steps = np.geomspace(1, last + 1, _TAIL_POINTS) - 1
    ranks = np.rint(np.minimum(steps, last)).astype(np.intp)
    middle = np.linspace(0, last, _TAIL_POINTS).astype(np.intp)
    chosen: FloatArray = ordered[np.concatenate([ranks, last - ranks, middle])]
    return chosen


def _log_ratio(true_low: FloatArray, false_high: FloatArray, delta: float) -> FloatArray:
    gap = true_low - delta
    shown = gap > 0
    ratio = np.divide(gap, false_high, out=np.ones_like(gap), where=shown)
    return np.where(shown, np.log(ratio), -np.inf)


def _predicted(
    hits: tuple[NDArray[np.intp], NDArray[np.intp]],
    chosen: tuple[int, int],
    held_out: tuple[int, int],
    delta: float,
    miss: float,
) -> FloatArray:
    """The bound to expect from the held-out part for each candidate, on the cautious side.

    The best of hundreds of candidates is a lucky one: a tail without a false positive so far. The
    rates are therefore first moved against the candidate by their own uncertainty.
    """
    true_rate = clopper_pearson_low(hits[0], chosen[0], _SELECTION_MISS)
    false_rate = clopper_pearson_high(hits[1], chosen[1], _SELECTION_MISS)
    true_low = clopper_pearson_low(true_rate * held_out[0], held_out[0], miss)
    false_high = clopper_pearson_high(false_rate * held_out[1], held_out[1], miss)
    return _log_ratio(true_low, false_high, delta)


def _choose(
    p: FloatArray, q: FloatArray, held_out: tuple[int, int], delta: float, miss: float
) -> tuple[float, str, str]:
    """The threshold, tail and direction with the best predicted bound."""
    p, q = np.sort(p), np.sort(q)
    values = np.unique(np.concatenate([_candidates(p), _candidates(q)]))
    best = (-math.inf, float(values[0]), ">", "with")
    for side, lower, upper in _SIDES:
        below_p, below_q = np.searchsorted(p, values, side), np.searchsorted(q, values, side)
        for tail, in_p, in_q in (
            (lower, below_p, below_q),
            (upper, p.size - below_p, q.size - below_q),
        ):
            bounds = {
                "with": _predicted((in_p, in_q), (p.size, q.size), held_out, delta, miss),
                "without": _predicted((in_q, in_p), (q.size, p.size), held_out[::-1], delta, miss),
            }
            for direction, bound in bounds.items():
                at = int(np.argmax(bound))
                if bound[at] > best[0]:
                    best = (float(bound[at]), float(values[at]), tail, direction)
    return best[1:]


def _hits(scores: FloatArray, tail: str, threshold: float) -> int:
    compare = {
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }[tail]
    return int(np.count_nonzero(compare(scores, threshold)))


def epsilon_lower_bound(
    scores_with: ArrayLike,
    scores_without: ArrayLike,
    delta: float = 0.0,
    confidence: float = 0.999,
    *,
    selection_fraction: float = 0.2,
    seed: int = 0,
) -> AuditResult:
    """Lower bound on ε(δ) of a pair of releases, from independent samples of their scores.

    Guarantee: write P and Q for the laws of the release under the two inputs and ε(δ) for the
    least ε with P(S) ≤ e^ε Q(S) + δ and Q(S) ≤ e^ε P(S) + δ for all sets S. If the scores are
    independent draws under P and under Q, and the score was fixed before these draws were seen,
    then with probability at least ``confidence`` the result is at most ε(δ), whatever the score
    and the laws. A mechanism that claims less for this pair is refuted at that confidence.

    How: a random part of the scores (``selection_fraction``) picks one half-line of scores and
    one direction, that with the largest bound after the confidence correction: with δ > 0, or few
    samples, that is not the extreme tail. The rest is touched once: exact (Clopper–Pearson)
    one-sided bounds on the two rates, each wrong with probability at most (1 − confidence)/2,
    give log((true_positive_low − δ)/false_positive_high).

    What it cannot show: the bound is at most about log(n / log(2/(1 − confidence))) for n
    held-out samples, and small δ is shown by sets too rare to sample. With 1e5 samples a side and
    a Gaussian pair one standard deviation apart it reaches about 90% of ε(δ) at δ = 0.05, 85% at
    0.01, 75% at 1e-3 and 55% at 1e-5: audit the claim at a δ that the samples can resolve.

    At another confidence another test may be chosen, so the bound falls with the confidence up to
    the luck of that choice, and strictly so for a given test.

    Args:
      scores_with: Scores of releases under the first input; higher is more like it. Infinite
        scores are allowed, NaN is not.
      scores_without: Scores under the second input.
      delta: δ, from 0 to 1 (1 excluded).
      confidence: Probability with which the bound must hold.
      selection_fraction: Share of the scores that chooses the test.
      seed: Of the random split. Trying several and keeping the best voids the guarantee.

    Returns:
      The bound with its test; ``epsilon`` is 0 when nothing can be shown.
    """
    p = as_scores("scores_with", scores_with, 2)
    q = as_scores("scores_without", scores_without, 2)
    delta = _validate.probability("delta", delta, closed_at_zero=True)
    confidence = _validate.probability("confidence", confidence)
    fraction = _validate.probability("selection_fraction", selection_fraction)
    miss = (1 - confidence) / 2
    generator = np.random.default_rng(_validate.at_least("seed", seed, 0))
    (p_first, p_rest), (q_first, q_rest) = (
        _split(scores, fraction, generator) for scores in (p, q)
    )
    held_out = (p_rest.size, q_rest.size)
    threshold, tail, direction = _choose(p_first, q_first, held_out, delta, miss)
    ours, other = (p_rest, q_rest) if direction == "with" else (q_rest, p_rest)
    true_hits, false_hits = _hits(ours, tail, threshold), _hits(other, tail, threshold)
    true_low = clopper_pearson_low(true_hits, ours.size, miss)
    false_high = clopper_pearson_high(false_hits, other.size, miss)
    return AuditResult(
        epsilon=max(0.0, float(_log_ratio(true_low, false_high, delta))),
        delta=delta,
        confidence=confidence,
        threshold=threshold,
        tail=tail,
        direction=direction,
        true_positive_rate=true_hits / ours.size,
        false_positive_rate=false_hits / other.size,
        true_positive_low=float(true_low),
        false_positive_high=float(false_high),
        samples=(p.size, q.size),
        held_out=held_out,
    )
