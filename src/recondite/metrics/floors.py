"""What a reconstruction is worth beside a blind guess: gains, with intervals over victims.

A score means nothing without what is reached blind, from public records and, where the attacker
knows it, the class. Two gains: the share of the error that the attack removed, 1 − error/error of
the guess, for metrics that measure an error; the difference of the two scores for those that
measure a likeness. Both are 0 for the blind guess itself.

Every interval here is an estimate (percentile bootstrap over victims, never narrower than
Student's by the jackknife), not a bound. With eight victims the bootstrap alone calls one attack in
twelve better than a guess that it equals, where one in forty is meant. It speaks of one attack on
victims like these, and of no other attack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from recondite import _validate

__all__ = ["FEWEST", "Gain", "Metric", "VictimScores", "beats_guessing", "gain", "gains"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FEWEST = 6  # independent victims: five alike happen by chance more often than 1 time in 40
_RESAMPLES = 2_000
_CELLS = 4_000_000  # of a bootstrap table held at once: 32 MB


@dataclass(frozen=True)
class Metric:
    """How close a reconstruction is to its original, by one measure.

    Attributes:
      key: Its name in rows.
      label: Its name in tables.
      direction: "lower" where a smaller value is a closer reconstruction, else "higher".
      unit: Of the value; empty for plain numbers.
      perfect: The value of an exact copy.
      gain: "share" of the blind guess's error that is gone; "difference" of the two values; "none"
        for a value whose mean means little, such as a logarithm that an exact copy makes infinite.
    """

    key: str
    label: str
    direction: Literal["lower", "higher"]
    unit: str = ""
    perfect: float = 1.0
    gain: Literal["share", "difference", "none"] = "difference"

    def __post_init__(self) -> None:
        _validate.choice("direction", self.direction, ("lower", "higher"))
        _validate.choice("gain", self.gain, ("share", "difference", "none"))
        if self.gain == "share" and (self.direction, self.perfect) != ("lower", 0.0):
            raise ValueError(f"{self.key}: a share of an error needs direction lower and perfect 0")


@dataclass(frozen=True, eq=False)
class VictimScores:
    """Scores of each victim, by the names of the metrics.

    Attributes:
      metrics: What was measured.
      values: For each metric's key, one number a victim, in the originals' order.
      order: ``order[i]`` is the position of the reconstruction compared to original i.
    """

    metrics: tuple[Metric, ...]
    values: Mapping[str, FloatArray]
    order: IntArray

    def __post_init__(self) -> None:
        keys = [metric.key for metric in self.metrics]
        if len(set(keys)) < len(keys) or set(keys) != set(self.values):
            raise ValueError(f"values must be given for {', '.join(keys)}, each once")
        for key, values in self.values.items():
            if values.shape != self.order.shape or values.ndim != 1 or not len(values):
                raise ValueError(
                    f"{key} must have one number for each of {len(self.order)} victims"
                )

    def __len__(self) -> int:
        return len(self.order)

    def metric(self, key: str) -> Metric:
        """The metric of that name."""
        known = {metric.key: metric for metric in self.metrics}
        return known[_validate.choice("metric", key, tuple(known))]

    def mean(self, key: str) -> float:
        """The mean over victims."""
        return float(self.values[self.metric(key).key].mean())

    def filled(self, blind: VictimScores) -> VictimScores:
        """Returns the scores with the blind guess's where a reconstruction broke (NaN).

        Whoever sees that an attack diverged hands in the blind guess instead.
        """
        if self.metrics != blind.metrics or len(self) != len(blind):
            raise ValueError("blind must have the same metrics and victims: score both alike")
        values = {
            key: np.where(np.isnan(mine), blind.values[key], mine)
            for key, mine in self.values.items()
        }
        return VictimScores(self.metrics, values, self.order)

    def most_exposed(self, key: str, most: int = 10) -> list[int]:
        """Positions of the victims rebuilt best by this metric, the worst case first."""
        sign = 1.0 if self.metric(key).direction == "lower" else -1.0
        ranked = np.argsort(sign * self.values[key], kind="stable")
        return [int(index) for index in ranked[: _validate.at_least("most", most, 1)]]


@dataclass(frozen=True)
class Gain:
    """What an attack gained over a blind guess on one metric.

    Attributes:
      metric: The metric.
      value: Share of the error gone, or difference of means; 0 for the blind guess.
      interval: Of ``value``, over victims; None with fewer than six independent ones.
      level: Of the interval, nominal: the bootstrap is an estimate.
      most: The largest gain of a single victim. A mean near 0 can hide it: look at both.
      victims: How many.
      clusters: How many independent groups of victims were resampled.
    """

    metric: Metric
    value: float
    interval: tuple[float, float] | None
    level: float
    most: float
    victims: int
    clusters: int

    @property
    def beats_guessing(self) -> bool | None:
        """Whether the interval lies above 0; None where there are too few victims to tell.

        False means that this attack was not shown to do better on average. It is evidence for a
        defence only as far as the interval's upper end is small, and none against other attacks.
        """
        return None if self.interval is None else self.interval[0] > 0


def gain(
    metric: Metric,
    found: ArrayLike,
    blind: ArrayLike,
    *,
    clusters: Sequence[object] | None = None,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Gain:
    """Compares an attack's scores with those of a blind guess at the same victims.

    The value is 1 − Σ found/Σ blind for a metric whose gain is a "share", and the difference of
    means, positive where the attack is closer, otherwise. The interval is a percentile bootstrap
    over whole clusters, or Student's by the jackknife where that is wider; it does not depend on
    the order of the victims.

    Args:
      metric: What was measured.
      found: The attack's scores, one a victim.
      blind: The blind guess's scores of the same victims in the same order, finite.
      clusters: What each victim belongs to, such as its run: victims of one run share its noise and
        its weights, and are drawn together. By default every victim is one of its own.
      level: Of the interval.
      resamples: How many bootstrap samples.
      seed: Of the draws.

    Example:
      >>> error = Metric("mse", "MSE", "lower", perfect=0.0, gain="share")
      >>> gain(error, [0.1] * 8, [0.4] * 8).interval
      (0.75, 0.75)
    """
    if metric.gain == "none":
        raise ValueError(f"{metric.key} has no gain: choose a metric with one")
    ours, floor = _checked(metric, found, blind)
    level = _validate.probability("level", level)
    resamples = _validate.at_least("resamples", resamples, 100)
    generator = np.random.default_rng(_validate.at_least("seed", seed, 0))
    sums = _sums(ours, floor, clusters)
    interval = None
    if len(sums) >= FEWEST:
        drawn = _bootstrap(metric, sums, resamples, generator)
        tail = (1 - level) / 2
        # The outer order statistics: no interpolation, which infinite values do not survive.
        low = float(np.quantile(drawn, tail, method="lower"))
        high = float(np.quantile(drawn, 1 - tail, method="higher"))
        interval = _widened(metric, sums, (low, high), tail)
    total = np.array([[math.fsum(column) for column in sums.T]])
    ones = np.ones(len(ours))
    return Gain(
        metric,
        float(_value(metric, total)[0]),
        interval,
        level,
        float(_value(metric, np.stack([ours, floor, ones], axis=1)).max()),
        len(ours),
        len(sums),
    )


def gains(
    found: VictimScores,
    blind: VictimScores,
    *,
    clusters: Sequence[object] | None = None,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> dict[str, Gain]:
    """The gain on every metric that has one, by its key; see :func:`gain`."""
    if found.metrics != blind.metrics:
        raise ValueError("found and blind must have the same metrics: score both alike")
    return {
        metric.key: gain(
            metric,
            found.values[metric.key],
            blind.values[metric.key],
            clusters=clusters,
            level=level,
            resamples=resamples,
            seed=seed,
        )
        for metric in found.metrics
        if metric.gain != "none"
    }


def beats_guessing(found: Mapping[str, Gain]) -> bool | None:
    """Whether an attack does better than a blind guess on any metric; None where none can tell.

    Each interval stands alone: with several metrics one of them lies above 0 by chance more often
    than its level says, which errs towards reporting an attack and never towards hiding one.
    """
    told = [one.beats_guessing for one in found.values()]
    return True if any(told) else None if not told or None in told else False


def _checked(metric: Metric, found: ArrayLike, blind: ArrayLike) -> tuple[FloatArray, FloatArray]:
    ours, floor = (np.asarray(values, dtype=np.float64) for values in (found, blind))
    if ours.shape != floor.shape or ours.ndim != 1 or not len(ours):
        raise ValueError(
            f"{metric.key}: found and blind must have one number for each of the same victims, "
            f"got {ours.shape} and {floor.shape}"
        )
    if np.isnan(ours).any():
        broken = int(np.flatnonzero(np.isnan(ours))[0])
        raise ValueError(
            f"{metric.key}: victim {broken} has no score (NaN): use found.filled(blind), the blind "
            "guess in place of a broken reconstruction"
        )
    if not np.isfinite(floor).all():
        raise ValueError(f"{metric.key}: the blind guess must have finite scores")
    if metric.gain == "share" and (ours.min() < 0 or floor.min() < 0):
        raise ValueError(f"{metric.key}: an error must be 0 or more")
    return ours, floor


def _sums(ours: FloatArray, floor: FloatArray, clusters: Sequence[object] | None) -> FloatArray:
    """Sums of both scores and the number of victims of each cluster, in an order of their own."""
    if clusters is None:
        rows = np.stack([ours, floor, np.ones(len(ours))], axis=1)
    else:
        if len(clusters) != len(ours):
            raise ValueError(f"clusters must name one for each of {len(ours)} victims")
        members: dict[object, list[int]] = {}
        for position, name in enumerate(clusters):
            members.setdefault(name, []).append(position)
        rows = np.array(
            [
                [math.fsum(ours[part]), math.fsum(floor[part]), len(part)]
                for part in members.values()
            ]
        )
    return rows[np.lexsort(rows.T)]


def _value(metric: Metric, sums: FloatArray) -> FloatArray:
    """The gain from (…, [Σ found, Σ blind, victims])."""
    ours, floor, count = sums[..., 0], sums[..., 1], sums[..., 2]
    if metric.gain == "difference":
        return np.asarray((ours - floor if metric.direction == "higher" else floor - ours) / count)
    # Nothing can be gained over a guess without error: 0 for another such, else −∞.
    exact = floor == 0
    share = 1 - ours / np.where(exact, 1.0, floor)
    return np.where(exact, np.where(ours == 0, 0.0, -np.inf), share)


def _widened(
    metric: Metric, sums: FloatArray, interval: tuple[float, float], tail: float
) -> tuple[float, float]:
    """The interval, no narrower than Student's by the jackknife over clusters.

    A bootstrap of few resamples their few values: it is too narrow, and knows no tails.
    """
    low, high = interval
    count = len(sums)
    without = _value(metric, sums.sum(0) - sums)
    if not np.isfinite(without).all():
        return interval  # infinite errors: the order statistics are all that is left
    spread = math.sqrt((count - 1) / count * float(np.square(without - without.mean()).sum()))
    reach = float(student.ppf(1 - tail, count - 1)) * spread
    value, each = float(_value(metric, sums.sum(0)[None])[0]), _value(metric, sums)
    # A mean lies between what is averaged, whatever Student says of so few.
    lowest, highest = float(each.min()), float(each.max())
    return min(low, max(lowest, value - reach)), max(high, min(highest, value + reach))


def _bootstrap(
    metric: Metric, sums: FloatArray, resamples: int, generator: np.random.Generator
) -> FloatArray:
    count, parts = len(sums), []
    at_once = max(1, _CELLS // (3 * count))
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = sums[generator.integers(count, size=(rows, count))].sum(axis=1)
        parts.append(_value(metric, drawn))
    return np.concatenate(parts)
