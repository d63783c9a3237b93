"""Two laws that dominate everything a run released, and what can be said of telling them apart.

A defence supplies its pair, whatever it noises; a notion that is a function of the pair therefore
holds for every mechanism and every channel.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache

from scipy import special

from recondite import _validate
from recondite.accounting.composition import Composition
from recondite.accounting.distribution import LossDistribution
from recondite.accounting.pld import loss_distributions, pld_delta, pld_epsilon
from recondite.accounting.rdp import rdp_epsilon
from recondite.leakage.rero import reconstruction_bound
from recondite.mechanisms import UndefinedNotionError

__all__ = ["ComposedPair", "GaussianPair", "Pair"]

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
        return reconstruction_bound(rate, *self._curves)

    def renyi_epsilon(self, delta: float) -> tuple[float, float]:
        """At the best real order."""
        return self._renyi(delta)

    @property
    def supremum(self) -> float:
        """The sum of the releases'."""
        return self.composition.supremum


class GaussianPair(Pair):
    """N(μ, 1) against N(0, 1), in closed form: what a noisy copy of a record comes to.

    An infinite μ stands for noise of which nothing is known.
    """

    def __init__(self, mu: float) -> None:
        self.mu = mu if mu == math.inf else _validate.positive("mu", mu)

    def epsilon(self, delta: float) -> float:
        """As :func:`recondite.notions.local.local_epsilon`."""
        from recondite.notions.local import local_epsilon

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
        from recondite.notions.local import local_rero

        return local_rero(self.mu, level)

    def renyi_epsilon(self, delta: float) -> tuple[float, float]:
        """Not offered: the closed form is tighter."""
        raise UndefinedNotionError("only for mechanisms that noise gradients")

    @property
    def supremum(self) -> float:
        """Gaussian noise has no pure guarantee."""
        return math.inf
