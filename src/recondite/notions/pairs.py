"""Two laws that dominate everything a run released, and what can be said of telling them apart.

A defence supplies its pair, whatever it noises; a notion that is a function of the pair therefore
holds for every mechanism and every channel. The noisy copy of a record is a local release: its
features lie in a box of known sides (pixels in [0, 1] do), two records in it are no further apart
than its diagonal, and Bayes' capacity of Gaussian noise on a box has a closed form.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from recondite import _validate
from recondite import _validate as check
from recondite.accounting.composition import Composition, rdp_epsilon
from recondite.accounting.distribution import LossDistribution
from recondite.accounting.pld import loss_distributions, pld_delta, pld_epsilon
from recondite.accounting.selection import RunCount, selection_epsilon
from recondite.leakage.rero import success_bound
from recondite.mechanisms import UndefinedNotionError
from recondite.numerics.ball import log_gaussian_ball_capacity

if TYPE_CHECKING:
    from recondite.channels.base import Channel

__all__ = [
    "ChosenPair",
    "ComposedPair",
    "GaussianPair",
    "Pair",
    "local_epsilon",
    "local_rero",
    "log_bayes_capacity",
    "shift",
]

FloatArray = NDArray[np.float64]

# Up to here the tight accountant is quick; beyond, the closed bound is within a few per cent.
_TIGHT = 20.0


def shift(channel: Channel, sides: ArrayLike, uses: int = 1) -> float:
    """Returns μ: telling two records apart is no easier than N(0, 1) from N(μ, 1).

    Guarantee: for any two records in a box with these sides, from ``uses`` noisy copies with
    fresh noise (replace-one, features only).
    """
    diagonal = float(np.linalg.norm(_box(sides, channel.dim)))
    if math.isinf(diagonal):
        return math.inf
    return math.sqrt(check.at_least("uses", uses, 1)) / channel.local_gaussian(diagonal)


def local_epsilon(mu: float, delta: float) -> float:
    """Returns ε(δ) of N(0, 1) against N(μ, 1): an upper bound, tight up to μ = 20."""
    target = check.probability("delta", delta)
    if mu <= _TIGHT:
        from recondite.accounting import Poisson, epsilon  # heavy
        from recondite.mechanisms import Gaussian

        return epsilon(Gaussian(noise_multiplier=1 / mu), Poisson(rate=1.0, steps=1), target)
    # δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) is at most its first term.
    return 0.5 * mu * mu + mu * float(-special.ndtri(target))


def local_rero(mu: float, prior: float) -> float:
    """Returns Φ(Φ⁻¹(r) + μ): the best success where a blind guess succeeds with r."""
    rate = check.probability("prior", prior)
    return float(special.ndtr(special.ndtri(rate) + mu))


def log_bayes_capacity(channel: Channel, sides: ArrayLike, uses: int = 1) -> float:
    """Returns an upper bound on the log of Bayes' capacity, in nats.

    For records in a box and noise that is independent between features it is exact:
    Σ_j ln(1 + L_j/(s_j·√(2π))), s_j the standard deviation of noise on feature j. Noise along
    eigenvectors is looked at along them, where the box lies in a larger one; what a truncated
    spectrum left out, in a ball. k fresh draws are one with 1/k of the variance (their mean is
    sufficient).

    Args:
      channel: The channel.
      sides: The range of each feature, or one number for all; infinite where none is known.
      uses: How many noisy copies with fresh noise there are.
    """
    box, noise = _box(sides, channel.dim), channel.noise
    if np.isinf(box).any():
        return math.inf
    draws = check.at_least("uses", uses, 1)
    outside = math.sqrt(noise.variance / draws)
    if noise.along is None:
        scale = np.ones(channel.dim) if noise.scale is None else noise.scale
        return _box_capacity(box, outside * scale)
    inside = _box_capacity(np.abs(noise.vectors).T @ box, np.sqrt(noise.along / draws))
    rest = channel.dim - noise.along.size
    if rest == 0:
        return inside
    radius = 0.5 * float(np.linalg.norm(box))
    return inside + log_gaussian_ball_capacity(rest, radius / outside)


def _box_capacity(sides: FloatArray, deviations: FloatArray) -> float:
    return float(np.sum(np.log1p(sides / (deviations * math.sqrt(2 * math.pi)))))


def _box(sides: ArrayLike, dim: int) -> FloatArray:
    given: Any = np.asarray(sides, dtype=np.float64).reshape(-1)
    box: FloatArray = np.full(dim, given[0]) if given.size == 1 else given
    if box.size != dim:
        raise ValueError(f"sides must have one number for each of {dim} features, got {box.size}")
    if not (box > 0).all():
        raise ValueError("sides must be above 0")
    return box


_SECRET = "the price of a secret number of runs is known for epsilon only: give a fixed number"
_LARGE = 1e-5  # a δ that the shared curves show to five digits


class Pair(ABC):
    """The run with a record (P) against the run without it, or with another one (Q).

    Guarantee: every number is an upper bound for the worst two neighbouring data sets, of the
    relation that the release states, and of the worse direction unless said otherwise.
    """

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Tight ε(δ)."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Tight δ(ε); δ(0) is the total variation distance."""

    @abstractmethod
    def success(self, level: float) -> float:
        """The largest P-probability of an event whose Q-probability is at most ``level``.

        So it bounds the true positives of a membership test with that rate of false positives,
        and the success of a reconstruction whose blind guess succeeds with ``level``.
        """

    @abstractmethod
    def renyi_epsilon(self, delta: float) -> tuple[float, float]:
        """ε(δ) through the Rényi curve, and the order that gives it."""

    @property
    @abstractmethod
    def supremum(self) -> float:
        """Pure ε, possibly infinite."""


class ComposedPair(Pair):
    """The pair of a composition. Each curve is computed once, whoever asks for it."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self._renyi = lru_cache(maxsize=8)(lambda delta: rdp_epsilon(composition, delta))

    def epsilon(self, delta: float) -> float:
        """By the composed privacy-loss distribution."""
        return pld_epsilon(self.composition, delta, self.renyi_epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """By the composed privacy-loss distribution."""
        if not self.composition.parts or epsilon >= self.supremum:
            return 0.0
        # The shared curves have an absolute precision of about 1e-10, which is plenty for a large
        # δ. A small one takes a transform of its own.
        worst = max(float(curve.delta(epsilon)[0]) for curve in self._curves)
        return min(worst, 1.0) if worst > _LARGE else pld_delta(self.composition, epsilon)

    @cached_property
    def _curves(self) -> tuple[LossDistribution, LossDistribution]:
        return loss_distributions(self.composition)

    def success(self, level: float) -> float:
        """By both directions of the composed loss."""
        rate = _validate.probability("level", level)
        if not self.composition.parts:
            return rate
        return success_bound(self.composition, rate, lambda: self._curves)

    def renyi_epsilon(self, delta: float) -> tuple[float, float]:
        """At the best real order."""
        return self._renyi(delta)

    @property
    def supremum(self) -> float:
        """The sum of the releases'."""
        return self.composition.supremum


class ChosenPair(ComposedPair):
    """The best of a secret number of runs; ε only, under the assumptions of the run's count."""

    def __init__(self, composition: Composition, runs: RunCount) -> None:
        super().__init__(composition)
        self.runs = runs

    def epsilon(self, delta: float) -> float:
        """By the Rényi curve of the winner."""
        return selection_epsilon(self.composition, delta, self.runs)

    def renyi_epsilon(self, delta: float) -> tuple[float, float]:
        """Not offered beside ε, which is found this way."""
        raise UndefinedNotionError(_SECRET)

    def delta(self, epsilon: float) -> float:
        """Not known."""
        raise UndefinedNotionError(_SECRET)

    def success(self, level: float) -> float:
        """Not known."""
        raise UndefinedNotionError(_SECRET)

    @property
    def supremum(self) -> float:
        """Not known."""
        raise UndefinedNotionError(_SECRET)


class GaussianPair(Pair):
    """N(μ, 1) against N(0, 1), in closed form: what a noisy copy of a record comes to.

    An infinite μ stands for noise of which nothing is known.
    """

    def __init__(self, mu: float) -> None:
        self.mu = mu if mu == math.inf else _validate.positive("mu", mu)

    def epsilon(self, delta: float) -> float:
        """As :func:`recondite.notions.pairs.local_epsilon`."""
        from recondite.notions.pairs import local_epsilon

        return math.inf if self.mu == math.inf else local_epsilon(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        """Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""
        if self.mu == math.inf:
            return 1.0
        at = epsilon / self.mu
        above = float(special.ndtr(0.5 * self.mu - at))
        below = math.exp(min(0.0, epsilon + float(special.log_ndtr(-0.5 * self.mu - at))))
        return min(1.0, max(0.0, above - below) + 2.0**-52)

    def success(self, level: float) -> float:
        """Φ(Φ⁻¹(level) + μ)."""
        from recondite.notions.pairs import local_rero

        return local_rero(self.mu, level)

    def renyi_epsilon(self, delta: float) -> tuple[float, float]:
        """Not offered: the closed form is tighter."""
        raise UndefinedNotionError("only for mechanisms that noise gradients")

    @property
    def supremum(self) -> float:
        """Gaussian noise has no pure guarantee."""
        return math.inf
