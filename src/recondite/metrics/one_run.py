"""A lower bound on ε from one training run with many records put in by coins.

After Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023): if each of m
records was included by its own fair coin, guessing the coins is guessing m secrets at once, and
one run shows a lot. The bound for δ > 0 is derived here (docs: theory, membership) and differs
from theirs in its last term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln, xlog1py, xlogy

from recondite import _validate
from recondite.accounting.auditing import clopper_pearson_low

__all__ = ["OneRunBound", "guess_probability", "one_run_lower_bound", "one_run_p_value"]

FloatArray = NDArray[np.float64]
_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_HIGHEST = 60.0  # e^60 guesses could not be counted


def guess_probability(epsilon: float) -> float:
    """Most that ε-DP lets a guess of one fair coin be right: e^ε/(1 + e^ε)."""
    return 1 / (1 + math.exp(-_validate.non_negative("epsilon", epsilon)))


def one_run_p_value(
    records: int, guesses: int, right: int, epsilon: float, delta: float = 0.0
) -> float:
    """Most that (ε, δ)-DP lets so many of the guesses be right have for a probability.

    Guarantee: let m = ``records`` be included each by an independent fair coin, the rest of the
    data fixed, and training be (ε, δ)-DP under adding or removing one of them. Whatever the
    guesser makes of its output, if it guesses r = ``guesses`` coins (which ones may depend on the
    output), then Pr[at least ``right`` are right] is at most this number.

    Why: given the output and the coins before it, a guess is right with probability at most
    p + e_i, where p = e^ε/(1 + e^ε) and E[e_i] ≤ (1 − p)δ ≤ δ/2. So the right guesses are at most
    W + B with W ~ Binomial(r, p) and E[B] ≤ mδ/2. The most that such a B, of any dependence on W,
    can add to Pr[W ≥ v] is a knapsack: lift W = v − 1 first (cost 1 each), then v − 2 (cost 2), …

    Args:
      records: m, all records with a coin, guessed or not.
      guesses: r.
      right: v.
      epsilon: ε.
      delta: δ.
    """
    m = _validate.at_least("records", records, 1)
    r = _validate.at_least("guesses", guesses, 0)
    v = _validate.at_least("right", right, 0)
    if not v <= r <= m:
        raise ValueError(f"right ≤ guesses ≤ records must hold, got {v}, {r} and {m}")
    delta = _validate.probability("delta", delta, closed_at_zero=True)
    p = guess_probability(epsilon)
    if v == 0:
        return 1.0
    value = float(betainc(v, r - v + 1, p))  # Pr[W ≥ v]
    if delta > 0:
        cost = np.arange(1, v + 1)
        mass = _binomial(v - cost, r, p)
        spent = np.cumsum(cost * mass)
        # Half of mδ whatever ε is: the p-value then never falls as ε grows, and bisection is sound.
        budget = m * delta / 2
        full = int(np.searchsorted(spent, budget, side="right"))
        value += float(mass[:full].sum())
        if full < v:
            value += (budget - (spent[full - 1] if full else 0.0)) / (full + 1)
    return min(1.0, value)


def _binomial(k: NDArray[np.int64], n: int, p: float) -> FloatArray:
    """Pr[W = k], without the overhead of scipy.stats, which dominates a bisection."""
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    found: FloatArray = np.exp(ways + xlogy(k, p) + xlog1py(n - k, -p))
    return found


@dataclass(frozen=True)
class OneRunBound:
    """The bound and the guesses that show it.

    Attributes:
      epsilon: Lower bound on ε at ``delta``; 0 when nothing is shown.
      delta: δ.
      confidence: Probability over coins and training with which it holds.
      guesses: How many records were guessed; the others were left.
      right: How many of them rightly.
      records: m.
    """

    epsilon: float
    delta: float
    confidence: float
    guesses: int
    right: int
    records: int


def one_run_lower_bound(
    members: ArrayLike,
    nonmembers: ArrayLike,
    delta: float = 0.0,
    confidence: float = 0.95,
    *,
    seed: int = 0,
) -> OneRunBound:
    """Lower bound on ε(δ) of the training, from the scores of records included by fair coins.

    Guarantee: if every record in the two lists was put into the training set by its own fair coin,
    its score depends on the coins only through what training released (and on coins of records
    that are not in the lists), and training is (ε, δ)-DP under adding or removing a record, then
    with probability at least ``confidence`` the result is at most ε. It does **not** hold for sets
    of fixed sizes, for "training set against test set", or when the attack was tuned on these
    very records.

    The guesser calls the k highest scores members and the k lowest non-members, for several k that
    are fixed beforehand; each pays its share of the error. Ties are broken at random.

    Args:
      members: Scores of the records whose coin said "in"; higher is more like a member.
      nonmembers: Scores of the others.
      delta: δ.
      confidence: Of the bound.
      seed: Of the order of ties.
    """
    ours, others = (np.asarray(scores, dtype=np.float64) for scores in (members, nonmembers))
    scores = np.concatenate([ours, others])
    if scores.ndim != 1 or scores.size < 2 or np.isnan(scores).any():
        raise ValueError("scores must be 2 or more numbers in all, none of them NaN")
    delta = _validate.probability("delta", delta, closed_at_zero=True)
    confidence = _validate.probability("confidence", confidence)
    inside = np.arange(scores.size) < ours.size
    # The order of ties must not follow the coins, and the lists do.
    mixed = np.random.default_rng(_validate.at_least("seed", seed, 0)).permutation(scores.size)
    ranked = inside[mixed[np.argsort(-scores[mixed], kind="stable")]]
    m = scores.size
    sides = sorted({max(1, round(share * m / 2)) for share in _SHARES if share * m >= 2} | {m // 2})
    miss = (1 - confidence) / len(sides)
    best = OneRunBound(0.0, delta, confidence, 0, 0, m)
    for k in sides:
        right = int(np.count_nonzero(ranked[:k]) + np.count_nonzero(~ranked[m - k :]))
        epsilon = _largest_refuted(m, 2 * k, right, delta, miss)
        if epsilon > best.epsilon or best.guesses == 0:
            best = OneRunBound(epsilon, delta, confidence, 2 * k, right, m)
    return best


def _largest_refuted(m: int, guesses: int, right: int, delta: float, miss: float) -> float:
    """The ε below which every ε is refuted, by bisection from below."""
    if one_run_p_value(m, guesses, right, 0.0, delta) > miss:
        return 0.0
    if delta == 0:  # the binomial tail alone: the exact bound on its rate
        rate = float(clopper_pearson_low(right, guesses, miss))
        return max(0.0, math.log(rate) - math.log1p(-rate))
    low, high = 0.0, 1.0
    while high < _HIGHEST and one_run_p_value(m, guesses, right, high, delta) <= miss:
        low, high = high, 2 * high
    for _ in range(45):
        middle = (low + high) / 2
        if one_run_p_value(m, guesses, right, middle, delta) <= miss:
            low = middle
        else:
            high = middle
    return low
