"""The price of choosing: the best of several runs has seen the data more often than one run.

Whoever trains K models and releases the best has not spent what one of them costs. Three ways to
pay, from the dearest:

- **a table of all runs** is their composition, whichever is used;
- **the best of a fixed K**: nothing better than composition is known in general;
- **the best of a random K**: where K is drawn by one of the laws below, before anything runs, and
  nobody is told it, the price is that of about two or three runs, whatever K came out (Liu and
  Talwar, 2019; Papernot and Steinke, 2022).

The random prices assume: settings are drawn independently for each run from a list made without
the data; only the winner is released (no other score, no K); and the score by which it wins is
covered by the run's own guarantee (scored on public records, or by a private release that is part
of the run). Scoring on public records does not make a search free: its models saw the private
ones. Free is only a search whose runs never touched them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recondite import _validate
from recondite.accounting.composition import Composition
from recondite.accounting.pld import pld_delta, pld_epsilon
from recondite.accounting.rdp import epsilon_from_renyi

__all__ = [
    "ChoicePrices",
    "NegativeBinomialRuns",
    "PoissonRuns",
    "RunCount",
    "choice_prices",
    "repeated",
    "selection_epsilon",
]

Array = npt.NDArray[np.float64]
_ORDERS = 1.0 + np.geomspace(1e-3, 1e5, 120)


class RunCount(ABC):
    """The law of a secret number of runs, of which only the best is released."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Expected number of runs."""

    @abstractmethod
    def draw(self, generator: np.random.Generator) -> int:
        """A number of runs. Must be kept secret: whoever knows it is owed a composition."""

    @abstractmethod
    def renyi(self, orders: Array, composition: Composition) -> Array:
        """Rényi divergence of the winner, from the guarantee of one run.

        Guarantee: an upper bound at every order above 1, under the run's neighbouring relation.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The law, ready for JSON."""


@dataclass(frozen=True)
class NegativeBinomialRuns(RunCount):
    """Truncated negative binomial: at least one run (Papernot and Steinke, 2022, Theorem 2).

    ``shape`` 1 is the geometric law, 0 the logarithmic one; towards -1 the price falls to that of
    one run and a half of a mean, and large numbers of runs become rare.

    Attributes:
      shape: η, above -1.
      gamma: γ in (0, 1): smaller means more runs.
    """

    shape: float
    gamma: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shape) and self.shape > -1.0):
            raise ValueError(f"shape must be above -1, got {self.shape}")
        _validate.probability("gamma", self.gamma)

    @classmethod
    def with_mean(cls, mean: float, shape: float = 0.0) -> NegativeBinomialRuns:
        """The law of this shape with this expected number of runs, above 1."""
        if not (math.isfinite(mean) and mean > 1.0):
            raise ValueError(f"mean must be above 1, got {mean}")
        low, high = -700.0, -1e-12  # of log γ
        for _ in range(200):
            middle = 0.5 * (low + high)
            if cls(shape, math.exp(middle)).mean > mean:
                low = middle
            else:
                high = middle
        return cls(shape, math.exp(high))

    @property
    def mean(self) -> float:
        """η(1-γ)/(γ(1-γ^η)), or (1/γ-1)/ln(1/γ) where η is 0."""
        eta, gamma = self.shape, self.gamma
        if abs(eta) < 1e-9:
            return (1.0 / gamma - 1.0) / -math.log(gamma)
        return eta * (1.0 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))

    def probability(self, runs: int) -> float:
        """P(K = runs)."""
        k, eta, gamma = _validate.at_least("runs", runs, 1), self.shape, self.gamma
        if abs(eta) < 1e-9:
            return (1.0 - gamma) ** k / (k * -math.log(gamma))
        # Π (j+η)/(j+1) over j = 0 … k-1 is η·Γ(k+η)/(Γ(1+η)·k!).
        log = (
            k * math.log1p(-gamma)
            + math.lgamma(k + eta)
            - math.lgamma(1 + eta)
            - math.lgamma(k + 1)
        )
        return math.exp(log) * eta / math.expm1(-eta * math.log(gamma))

    def draw(self, generator: np.random.Generator) -> int:
        """By inversion."""
        left, runs = float(generator.random()), 1
        while True:
            left -= self.probability(runs)
            if left <= 0.0 or runs >= 10_000_000:
                return runs
            runs += 1

    def renyi(self, orders: Array, composition: Composition) -> Array:
        """τ_λ + (1+η)·min_λ̂[(1-1/λ̂)·τ_λ̂ + ln(1/γ)/λ̂] + ln E[K]/(λ-1)."""
        hats = np.concatenate([[1.0], _ORDERS])
        tau = np.concatenate([[0.0], composition.renyi(_ORDERS)])
        second = float(np.nanmin((1.0 - 1.0 / hats) * tau - math.log(self.gamma) / hats))
        if math.isfinite(composition.supremum):
            second = min(second, composition.supremum)
        out: Array = (
            composition.renyi(orders)
            + (1.0 + self.shape) * second
            + math.log(self.mean) / (orders - 1.0)
        )
        return out

    def to_dict(self) -> dict[str, Any]:
        """The law, ready for JSON."""
        body = {"shape": self.shape, "gamma": self.gamma, "mean": self.mean}
        return {"runs": "negative-binomial", **body}


@dataclass(frozen=True)
class PoissonRuns(RunCount):
    """Poisson: none, with probability e^-mean, and then nothing is released (Theorem 6).

    Attributes:
      average: μ, the expected number of runs.
    """

    average: float

    def __post_init__(self) -> None:
        _validate.positive("average", self.average)

    @property
    def mean(self) -> float:
        """μ."""
        return float(self.average)

    def draw(self, generator: np.random.Generator) -> int:
        """A Poisson number; 0 means that nothing may be released."""
        return int(generator.poisson(self.average))

    def renyi(self, orders: Array, composition: Composition) -> Array:
        """τ_λ + μ·δ(ln(1 + 1/(λ-1))) + ln μ/(λ-1), δ the run's own curve."""
        near = np.log1p(1.0 / (orders - 1.0))
        deltas = np.array([pld_delta(composition, float(point)) for point in near])
        out: Array = (
            composition.renyi(orders)
            + self.average * deltas
            + math.log(self.average) / (orders - 1.0)
        )
        return np.maximum(out, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The law, ready for JSON."""
        return {"runs": "poisson", "mean": self.average}


@dataclass(frozen=True)
class ChoicePrices:
    """What it costs to choose among several runs. Each number is an upper bound on ε at one δ.

    Attributes:
      runs: How many there are, or are expected.
      one: ε of a single run.
      every: ε of a table of all runs, and of the best of so many: a fixed number.
      secret: ε of the best of a secret number of runs with this mean (logarithmic law).
    """

    runs: int
    one: float
    every: float
    secret: float

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"runs": self.runs, "one": self.one, "every": self.every, "secret": self.secret}


def choice_prices(composition: Composition, delta: float, runs: int) -> ChoicePrices:
    """The prices of choosing among so many runs of one kind.

    Args:
      composition: What one run releases.
      delta: δ.
      runs: Their number, two or more.
    """
    count = _validate.at_least("runs", runs, 2)
    return ChoicePrices(
        runs=count,
        one=selection_epsilon(composition, delta, 1),
        every=selection_epsilon(composition, delta, count),
        secret=selection_epsilon(composition, delta, NegativeBinomialRuns.with_mean(count)),
    )


def repeated(composition: Composition, runs: int) -> Composition:
    """What a table of all runs costs, and the best of a fixed number: their composition."""
    count = _validate.at_least("runs", runs, 1)
    return Composition.of([(law, n * count) for law, n in composition.parts])


def selection_epsilon(composition: Composition, delta: float, runs: RunCount | int) -> float:
    """ε(δ) of releasing the best of several runs.

    Guarantee: an upper bound under the assumptions that this module states. For one or two runs
    the price of a random number can exceed that of a fixed one.

    Args:
      composition: What one run releases.
      delta: δ.
      runs: A fixed number, or the law of a secret one.
    """
    target = _validate.probability("delta", delta)
    if isinstance(runs, int):
        return pld_epsilon(repeated(composition, runs), target)
    if not composition.parts:
        return 0.0
    orders = _ORDERS
    if isinstance(runs, PoissonRuns):
        orders = 1.0 + np.geomspace(1e-2, 1e4, 24)  # each order asks the tight accountant once
    values = epsilon_from_renyi(orders, runs.renyi(orders, composition), target)
    return float(np.nanmin(values))
