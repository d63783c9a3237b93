r"""Tight (ε, δ) accounting: privacy-loss distributions composed by a tilted Fourier transform.

Each law is moved onto a grid of losses by connecting the dots of its hockey-stick curve, which
dominates it and costs about interval²/8 a release (rounding losses up costs interval/2). The
n-fold convolution is one FFT, of masses tilted by :math:`e^{\theta\ell}`: the tilt puts the bulk
of the transformed distribution at the ε that is asked for, so that δ comes out with *relative*
precision, however small it is. What the window of the FFT leaves out is bounded by Chernoff's
inequality and added to δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy import fft

from recondite.accounting.composition import Composition, rdp_epsilon
from recondite.accounting.distribution import LossDistribution
from recondite.laws import DiscretePair, GridTooFineError

__all__ = [
    "compose_pairs",
    "discretise",
    "loss_distributions",
    "pld_bracket",
    "pld_delta",
    "pld_epsilon",
    "tilted_distributions",
]

Array = npt.NDArray[np.float64]
T = TypeVar("T")

_TOLERANCE = 1e-4  # share of ε that discretisation may cost
_LARGEST = 1 << 22  # cells of a transform
_MOST_CELLS = 5e5  # of one law's grid
_LARGEST_LOWER = 1 << 24  # of one for a lower bound, which must resolve the bulk of the law
_LARGEST_CURVE = 1 << 20  # of a whole curve: noise so weak that more are asked for protects nothing
_HUGE = 1e6  # ε of which as many are enough: seconds, for a fifth digit
# Intervals between which grids are tried: that of a loss too small for floating point would be 0,
# and the squares of losses beyond the other would overflow.
_FINEST, _COARSEST = 1e-15, 1e100
_LONG = 1 << 16  # cells of a pair above which moments are taken of fewer
_LOG_TAIL = -46.0  # log of the tilted mass that a window may leave out (1e-20)


def _cumulants(pair: DiscretePair, exponents: Array) -> Array:
    """Log Σ p·e^{sℓ} at each exponent s; of long pairs at many exponents, an upper bound."""
    masses, losses = pair.p, pair.losses
    if len(masses) > _LONG and len(exponents) > 1:
        masses, losses = _spread(masses, losses)
    kept = masses > 0
    logs, losses = np.log(masses[kept]), losses[kept]
    out = np.empty(len(exponents))
    for i, s in enumerate(exponents):
        values = logs + s * losses
        top = values.max()
        out[i] = top + np.log(np.exp(values - top).sum())
    return out


def _spread(masses: Array, losses: Array) -> tuple[Array, Array]:
    """Masses shared out, their mean kept, between few losses: e^{sℓ} lies below its chords."""
    few = np.linspace(losses[0], losses[-1], _LONG // 8)
    place = np.linspace(0.0, len(few) - 1.0, len(losses))
    cell = np.minimum(place.astype(np.int64), len(few) - 2)
    above = place - cell
    shared = np.bincount(cell, masses * (1.0 - above), len(few)).astype(float)
    shared += np.bincount(cell + 1, masses * above, len(few))
    return shared, few


def _total_cumulants(pairs: Sequence[tuple[DiscretePair, int]], exponents: Array) -> Array:
    total = np.zeros(len(exponents))
    for pair, count in pairs:
        total += count * _cumulants(pair, exponents)
    return total


def _window(
    pairs: Sequence[tuple[DiscretePair, int]], tilt: float, log_scale: float
) -> tuple[float, float]:
    """Losses between which all but e^_LOG_TAIL of the tilted composition lies (Chernoff)."""
    interval = pairs[0][0].interval
    spread = sum(c * _variance(pair, tilt) for pair, c in pairs)
    natural = 1.0 / max(math.sqrt(spread), interval)
    steps = natural * np.geomspace(0.05, 60.0, 28)
    up = _total_cumulants(pairs, tilt + steps) - log_scale
    down = _total_cumulants(pairs, tilt - steps) - log_scale
    high = float(np.min((up - _LOG_TAIL) / steps))
    low = float(np.max(-(down - _LOG_TAIL) / steps))
    largest = sum(c * pair.losses[-1] for pair, c in pairs)
    smallest = sum(c * pair.losses[0] for pair, c in pairs)
    return max(low, float(smallest)) - interval, min(high, float(largest)) + interval


def _tilted(pair: DiscretePair, tilt: float) -> Array:
    with np.errstate(divide="ignore"):
        logs = np.log(pair.p) + tilt * pair.losses
    weights = np.exp(logs - logs.max())
    out: Array = weights / weights.sum()
    return out


def _variance(pair: DiscretePair, tilt: float) -> float:
    weights, losses = _tilted(pair, tilt), pair.losses
    mean = float(weights @ losses)
    return float(weights @ (losses - mean) ** 2)


def _best_tilt(pairs: Sequence[tuple[DiscretePair, int]], delta: float) -> float:
    """The exponent that Chernoff's bound picks for δ, refined once."""
    exponents = np.geomspace(1e-9, 1e6, 61)
    for _ in range(2):
        bound = (_total_cumulants(pairs, exponents) - math.log(delta)) / exponents
        best = int(np.argmin(bound))
        low, high = exponents[max(best - 1, 0)], exponents[min(best + 1, len(exponents) - 1)]
        exponents = np.geomspace(low, high, 9)
    # A law with more mass than δ at its top has no best exponent: it grows without end, and what
    # lies a few cells below the top would drown in the rounding of the transform.
    return min(float(exponents[len(exponents) // 2]), 1.0 / pairs[0][0].interval)


def compose_pairs(
    pairs: Sequence[tuple[DiscretePair, int]], *, tilt: float = 0.0, largest: int = _LARGEST
) -> LossDistribution:
    """The composed law of the loss, P against Q, of pairs that share one grid."""
    interval = pairs[0][0].interval
    infinite = -math.expm1(
        sum(count * math.log1p(-min(pair.p_infinite, 1 - 1e-16)) for pair, count in pairs)
    )
    # Where no mass is finite, or releases are so many that no window holds them, δ is 1.
    nothing = LossDistribution(np.array([0.0, interval]), np.zeros(2), 0.0, 0.0, 1.0)
    if interval > _COARSEST or any(not pair.p.any() for pair, _ in pairs):
        return nothing
    log_scale = float(_total_cumulants(pairs, np.array([tilt]))[0])
    low, high = _window(pairs, tilt, log_scale)
    if not -math.inf < low < high < math.inf:  # sums so large that their rounding is all there is
        return nothing
    cells = int((high - low) / interval) + 2
    if cells > largest:
        excess = cells / largest
        raise GridTooFineError(f"interval {interval:g} is too fine for this run", excess)
    length = int(fft.next_fast_len(cells, real=True))
    log_spectrum = np.zeros(length // 2 + 1, dtype=complex)
    offset = 0
    for pair, count in pairs:
        weights = _tilted(pair, tilt)
        # Centring each law on its mean keeps the phases, which are multiplied by count, small.
        centre = pair.start + round(float(weights @ np.arange(len(weights))))
        wrapped = np.bincount(
            (pair.start - centre + np.arange(len(weights))) % length, weights, length
        )
        spectrum = fft.rfft(wrapped)
        log_spectrum += count * np.log(np.where(spectrum == 0, 1e-300, spectrum))
        offset += count * centre
    masses = np.maximum(fft.irfft(np.exp(log_spectrum), length), 0.0)
    first = math.floor(low / interval)
    masses = np.roll(masses, -((first - offset) % length))
    losses = interval * (first + np.arange(length, dtype=float))
    # Tilted mass e^_LOG_TAIL above the window has P-mass at most scale·e^(-tilt·high) of that.
    left = math.exp(min(0.0, log_scale - tilt * high + _LOG_TAIL))
    if tilt == 0:
        left *= 2.0  # what lies below the window
    # Untilted curves are asked for large masses only, and have a precision of their own.
    rounding = _rounding(pairs) if tilt > 0 else 0.0
    return LossDistribution(losses, masses, tilt, log_scale, infinite + left, rounding)


def _rounding(pairs: Sequence[tuple[DiscretePair, int]]) -> float:
    """Error of a mass: of the transform, and of a logarithm that is multiplied by the releases."""
    return 2.0**-52 * (16 + sum(count for _, count in pairs))


def _interval(composition: Composition, epsilon: float, order: float) -> float:
    """A spacing whose cost, about releases·order·interval²/8, is _TOLERANCE of ε."""
    fine = math.sqrt(8.0 * _TOLERANCE * epsilon / (composition.releases * order))
    return min(fine, 10 * _TOLERANCE * epsilon)


def _tail(composition: Composition, delta: float) -> float:
    """What a law may leave out at either end."""
    return max(1e-300, min(1e-20, 1e-12 * delta) / composition.releases)


def _finest(composition: Composition, delta: float) -> float:
    """An interval that leaves every law few enough cells to be quick."""
    reaches = [(law.reach(_tail(composition, delta)), law) for law, _ in composition.parts]
    longest = max(reach + min(reach, -law.infimum) for reach, law in reaches)
    return max(_FINEST, longest / _MOST_CELLS if math.isfinite(longest) else 0.0)


def discretise(
    composition: Composition, interval: float, *, delta: float, pessimistic: bool = True
) -> list[tuple[DiscretePair, int]]:
    """Every law of the run on one grid, with tails that are negligible against δ."""
    tail = _tail(composition, delta)
    pairs = [
        (law.discretise(interval, tail=tail, pessimistic=pessimistic), count)
        for law, count in composition.parts
    ]
    return [(pair.complete(), count) for pair, count in pairs] if pessimistic else pairs


def _worst_epsilon(
    pairs: list[tuple[DiscretePair, int]],
    delta: float,
    *,
    upper: bool = True,
    largest: int = _LARGEST,
) -> float:
    """ε of the worse direction; a lower bound gets nothing for what rounding may have taken."""
    worst = 0.0
    for side in (pairs, [(pair.reverse(), count) for pair, count in pairs]):
        if any(not pair.p.any() for pair, _ in side):
            return math.inf if upper else 0.0  # no mass is finite on this grid
        tilt, rounding = _best_tilt(side, delta), _rounding(side) if upper else 0.0
        curve = compose_pairs(side, tilt=tilt, largest=largest)
        found = replace(curve, rounding=rounding).epsilon(delta)
        if not upper or _drowned(side, tilt, found):
            # A large δ is seen as well, or better, without a tilt; and the end of a tilted window,
            # which stands for an ε below it, is no lower bound.
            with suppress(GridTooFineError):
                plain = replace(compose_pairs(side, largest=largest), rounding=rounding)
                found = min(found, plain.epsilon(delta))
        worst = max(worst, found)
    return worst


def _drowned(pairs: list[tuple[DiscretePair, int]], tilt: float, epsilon: float) -> bool:
    """Whether masses at ε may be lost beside a tilted one at the top."""
    top = sum(count * float(pair.losses[-1]) for pair, count in pairs)
    # Sums of many losses have no top to speak of.
    few = sum(count for _, count in pairs) <= 16
    return tilt * pairs[0][0].interval > 0.5 or (few and tilt * (top - epsilon) > 30.0)


def _solve(
    composition: Composition, delta: float, renyi: tuple[float, float] | None = None
) -> tuple[float, float]:
    """ε(δ), an upper bound, and the interval that was fine enough for it."""
    if delta * (1.0 - 1e-9) >= composition.variation:
        return 0.0, 0.0  # whatever happens where the record takes part at all, δ allows
    bound, order = rdp_epsilon(composition, delta) if renyi is None else renyi
    epsilon, interval = bound, 0.0
    finest = _finest(composition, delta) if 0 < bound < math.inf else 0.0
    largest = _LARGEST if bound < _HUGE else _LARGEST_CURVE
    while 0 < epsilon < math.inf:
        interval = max(_interval(composition, epsilon, order), finest)
        result, interval = _feasible(
            lambda step: _worst_epsilon(
                discretise(composition, step, delta=delta), delta, largest=largest
            ),
            interval,
        )
        # An ε far below the guess deserves the finer grid that it would have been given.
        settled, epsilon = result > 0.4 * epsilon, result
        if settled:
            break
    return min(epsilon, bound, composition.supremum), interval


def _feasible(compute: Callable[[float], T], interval: float) -> tuple[T, float]:
    """The result at this interval, or at the finest larger one that memory and time allow."""
    least = 1.0
    while True:
        try:
            return compute(interval), interval
        except GridTooFineError as error:
            if interval > _COARSEST:
                raise
            interval *= max(1.02 * error.excess, least)
            least = min(4.0, 2.0 * least)  # windows wider than the laws grow with the interval


def pld_epsilon(
    composition: Composition, delta: float, renyi: tuple[float, float] | None = None
) -> float:
    """ε(δ) of the run, the worse of both directions.

    Guarantee: an upper bound, within about 0.1% of the truth (see ``pld_bracket``).

    Args:
      composition: The run.
      delta: δ.
      renyi: What ``rdp_epsilon`` says of the same run and δ, where that is known already.
    """
    return _solve(composition, delta, renyi)[0]


def pld_bracket(composition: Composition, delta: float) -> tuple[float, float]:
    """A lower and an upper bound on ε(δ) of the composed pairs.

    The lower bound is computed the same way from pairs that the true ones dominate, on a finer
    grid (an optimistic curve must resolve the bulk of the law to say anything).
    """
    upper, interval = _solve(composition, delta)
    lower = upper if interval == 0.0 else 0.0
    for refinement in (8, 32, 128):
        if upper - lower <= max(0.005 * upper, 1e-4):
            break
        fine = _aligned(composition, interval / refinement)
        try:
            pairs = discretise(composition, fine, delta=delta, pessimistic=False)
            found = _worst_epsilon(pairs, delta, upper=False, largest=_LARGEST_LOWER)
            lower = min(max(lower, found), upper)
        except GridTooFineError:
            break
    return lower, upper


def _aligned(composition: Composition, interval: float) -> float:
    """An interval of which the smallest loss is a multiple: sampled laws pile up there."""
    lowest = max(abs(law.infimum) for law, _ in composition.parts)
    return lowest / math.ceil(lowest / interval) if math.isfinite(lowest) else interval


def loss_distributions(composition: Composition) -> tuple[LossDistribution, LossDistribution]:
    """The composed loss, with against without and the reverse, untilted.

    Absolute precision about 1e-10 in δ: for whole curves (reconstruction bounds), not for tiny δ.
    """

    def both(step: float) -> tuple[LossDistribution, LossDistribution]:
        pairs = discretise(composition, step, delta=1e-12)
        sides = pairs, [(pair.reverse(), count) for pair, count in pairs]
        forward, backward = (compose_pairs(side, largest=_LARGEST_CURVE) for side in sides)
        return forward, backward

    return _feasible(both, _of_curves(composition))[0]


def tilted_distributions(
    composition: Composition, levels: Sequence[float]
) -> list[LossDistribution]:
    """The composed loss, with against without, as it looks about δ of these sizes.

    Guarantee: the δ of each is an upper bound everywhere, with relative precision about its own.
    """

    def each(step: float) -> list[LossDistribution]:
        pairs = discretise(composition, step, delta=min(levels))
        if any(not pair.p.any() for pair, _ in pairs):
            return []  # no mass is finite: δ is 1
        return [
            compose_pairs(pairs, tilt=_best_tilt(pairs, level), largest=_LARGEST_CURVE)
            for level in levels
        ]

    return _feasible(each, _of_curves(composition))[0]


def _of_curves(composition: Composition) -> float:
    """An interval for whole curves."""
    near_one = float(composition.renyi([1.0001])[0])
    # A grid whose cost is 0.01% of the variance of the composed loss.
    interval = min(math.sqrt(2e-3 * max(near_one, 0.0) / composition.releases), 0.05)
    interval = max(interval, _finest(composition, 1e-12))
    # Losses reach about as far as their mean: grids that cannot fit need not be tried.
    return max(interval, near_one / _LARGEST_CURVE) if math.isfinite(near_one) else interval


def pld_delta(composition: Composition, epsilon: float) -> float:
    """δ(ε) of the run, the worse of both directions; an upper bound with relative precision."""
    if not composition.parts:
        return 0.0
    if epsilon >= composition.supremum:
        return 0.0
    rough = max(_delta_from_renyi(composition, epsilon), 1e-280)
    near, order = rdp_epsilon(composition, min(rough, 0.01))
    # δ falls by a factor e^order over one unit of ε, so its own precision asks for a finer grid.
    fine = math.sqrt(8e-3 / composition.releases) / order
    interval = min(_interval(composition, max(near, epsilon), order), fine)
    interval = max(interval, _finest(composition, rough))
    worst, _ = _feasible(lambda step: _worst_delta(composition, step, epsilon, rough), interval)
    return min(worst, composition.variation * (1.0 + 1e-9), 1.0)


def _worst_delta(composition: Composition, interval: float, epsilon: float, rough: float) -> float:
    pairs = discretise(composition, interval, delta=rough)
    worst = 0.0
    for side in (pairs, [(pair.reverse(), count) for pair, count in pairs]):
        curve = compose_pairs(side, tilt=_best_tilt(side, rough))
        if epsilon < curve.losses[0]:
            curve = compose_pairs(side)  # ε lies in the bulk: no tilt is needed to see it
        worst = max(worst, float(curve.delta(epsilon)[0]))
    return worst


def _delta_from_renyi(composition: Composition, epsilon: float) -> float:
    orders = 1.0 + np.geomspace(1e-3, 1e6, 46)
    logs = (orders - 1.0) * (composition.renyi(orders) - epsilon + np.log1p(-1.0 / orders))
    return float(np.exp(min(0.0, float(np.nanmin(logs - np.log(orders))))))
