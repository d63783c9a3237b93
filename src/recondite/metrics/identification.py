"""From scores to a chance: how often the record is picked out of n candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln
from scipy.stats import beta
from scipy.stats import t as student

from recondite import _validate

__all__ = [
    "Identified",
    "chances",
    "chances_one_a_label",
    "identified",
    "label_weights",
    "summarised",
]

Array = npt.NDArray[np.float64]
_ENOUGH_RUNS = 6  # for a bootstrap over runs to be an interval at all


@dataclass(frozen=True)
class Identified:
    """How often an attacker picked the right one of n candidates.

    Attributes:
      candidates: n, the record among them.
      rate: Share of games won, ties broken by a coin.
      low: Lower end of the interval.
      high: Upper end of the interval.
      confidence: Of the interval.
      games: Games played.
      runs: Trainings they were played on; games of one training are not independent.
    """

    candidates: int
    rate: float
    low: float
    high: float
    confidence: float
    games: int
    runs: int

    @property
    def blind(self) -> float:
        """What a guess without seeing anything has."""
        return 1.0 / self.candidates

    @property
    def beats_guessing(self) -> bool:
        """Whether the interval excludes the blind guess."""
        return self.low > self.blind

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**vars(self), "blind": self.blind}


def chances(scores: Array, candidates: int) -> Array:
    """The chance of each game that the target beats n - 1 others drawn from the pool.

    Exact over the draw of the others, so no game is wasted on one draw: with r of the pool's M
    records above the target and t level with it, averaged over the coin that breaks ties.

    Args:
      scores: One row a game: the target's score, then those of the pool.
      candidates: n, at most 1 + M.
    """
    games = np.asarray(scores, float)
    n = _validate.at_least("candidates", candidates, 2)
    pool = games.shape[1] - 1
    if n - 1 > pool:
        raise ValueError(f"candidates must be at most {pool + 1}: the pool has {pool} records")
    if np.isnan(games).any():
        raise ValueError("scores must be numbers: a step's likelihood was not finite")
    own, others = games[:, :1], games[:, 1:]
    above, level = (others > own).sum(1), (others == own).sum(1)
    out = np.empty(len(games))
    for i, (a, t) in enumerate(zip(above.tolist(), level.tolist(), strict=True)):
        # A coin among 1 + j ties wins with 1/(1+j): average over the place of the target among
        # its t ties, each place putting that many more above it.
        wins = [_none_above(pool, a + place, n - 1) for place in range(t + 1)]
        out[i] = sum(wins) / (t + 1)
    return out


def chances_one_a_label(scores: Array, targets: Array, pool: Array) -> Array:
    """The chance of each game that the target beats one other of every other label.

    Candidates that differ in their labels: n is the number of labels. Exact over the draw of the
    others and over the coin that breaks ties: who knows nothing at all wins one game in n.

    Args:
      scores: One row a game: the target's score, then those of the pool.
      targets: Label of each target.
      pool: Label of each record of the pool, which must have some of every label.
    """
    games, labels = np.asarray(scores, float), np.asarray(pool)
    own, others = games[:, :1], games[:, 1:]
    if np.isnan(games).any():
        raise ValueError("scores must be numbers: a step's likelihood was not finite")
    names = np.unique(np.append(labels, targets))
    missing = [str(name) for name in names if name not in labels]
    if missing:
        raise ValueError(f"pool must have records of every label: none of label {missing[0]}")
    mine = names[None, :] == np.asarray(targets)[:, None]
    below, level = (
        np.stack([side[:, labels == name].mean(1) for name in names], 1)
        for side in (others < own, others == own)
    )
    below[mine], level[mine] = 1.0, 0.0
    # Of J ties the coin gives 1/(1 + J), the integral of u^J over [0, 1]: with independent labels
    # that of a polynomial in u, for which so many nodes are exact.
    nodes, weights = np.polynomial.legendre.leggauss(len(names) // 2 + 1)
    out: Array = np.zeros(len(games))
    for node, weight in zip(0.5 * (1.0 + nodes), 0.5 * weights, strict=True):
        out += weight * (below + node * level).prod(1)
    return out


def label_weights(labels: Array) -> Array:
    """A weight for each game, one on average, by which every label counts alike.

    With one candidate of each label, a guess of one label has 1/n then, and so has the bound.
    """
    names, place, count = np.unique(labels, return_inverse=True, return_counts=True)
    out: Array = len(labels) / (len(names) * count[place])
    return out


def _none_above(pool: int, above: int, drawn: int) -> float:
    """Probability that none of ``drawn`` records of a pool is among the ``above`` best."""
    if drawn > pool - above:
        return 0.0
    return float(
        math.exp(
            gammaln(pool - above + 1)
            - gammaln(pool - above - drawn + 1)
            - gammaln(pool + 1)
            + gammaln(pool - drawn + 1)
        )
    )


def identified(
    runs: Sequence[Array], candidates: int, *, confidence: float = 0.95, seed: int = 0
) -> Identified:
    """The success rate over all games, with an interval over whole runs.

    Games of one run share its noise: runs are what is independent. From six runs on they are
    resampled (bootstrap); of two to five Student's interval of their means is given, which is as
    wide as so few deserve. With a single run its games are resampled, and the interval speaks of
    that run alone. It is never narrower than the binomial interval of the rate in so many games.

    Args:
      runs: Scores of each training, as :class:`IdentificationGame` has them.
      candidates: n.
      confidence: Of the interval.
      seed: Of the bootstrap.
    """
    each = [chances(scores, candidates) for scores in runs]
    return summarised(each, candidates, confidence=confidence, seed=seed)


def summarised(
    each: Sequence[Array],
    candidates: int,
    *,
    weights: Sequence[Array] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Identified:
    """As :func:`identified`, from the chances of the games of each training.

    Args:
      each: Chances of the games of each training.
      candidates: n.
      weights: Of the games, alike by default. Unequal ones are worth as many games as have the
        same variance (Kish's effective number), for the binomial interval.
      confidence: Of the interval.
      seed: Of the bootstrap.
    """
    if not each:
        raise ValueError("runs must hold the scores of one training or more")
    _validate.probability("confidence", confidence)
    weighed = [np.ones(len(games)) for games in each] if weights is None else list(weights)
    everyone, whole = np.concatenate(each), np.concatenate(weighed)
    rate = float(np.average(everyone, weights=whole))
    rng = np.random.default_rng(seed)
    if len(each) == 1:
        sums, sizes = everyone * whole, whole
    else:
        sums = np.array([g @ w for g, w in zip(each, weighed, strict=True)])
        sizes = np.array([w.sum() for w in weighed])
    picked = rng.integers(len(sums), size=(2000, len(sums)))
    means = sums[picked].sum(1) / sizes[picked].sum(1)
    tail = 0.5 * (1.0 - confidence)
    low, high = (float(np.quantile(means, q)) for q in (tail, 1.0 - tail))
    if 1 < len(each) < _ENOUGH_RUNS:
        own = sums / sizes
        reach = float(student.ppf(1.0 - tail, len(own) - 1) * own.std(ddof=1) / math.sqrt(len(own)))
        low, high = max(0.0, rate - reach), min(1.0, rate + reach)
    least, most = _binomial(rate, float(whole.sum() ** 2 / (whole @ whole)), tail)
    low, high = min(low, least), max(high, most)
    return Identified(candidates, rate, low, high, confidence, len(everyone), len(each))


def _binomial(rate: float, games: float, tail: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate in so many games, won in part or not.

    A game's chance varies no more than its being won or lost would, so that this is wide enough
    for independent games. Resampling alone is not: a few games, hardly ever won, do not show how
    seldom that is.
    """
    won = min(games, max(0.0, rate * games))
    low = 0.0 if won <= 0 else float(beta.ppf(tail, won, games - won + 1.0))
    high = 1.0 if won >= games else float(beta.ppf(1.0 - tail, won + 1.0, games - won))
    return low, high
