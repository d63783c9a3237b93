"""The two accountants of Biswas et al., "Comparing privacy notions …" (2025), corrected.

Approach 1 converts one release from Rényi to (ε, δ), amplifies that by Poisson sampling and
composes by the theorem of Kairouz, Oh and Viswanath. Approach 2 samples and composes the Rényi
curve (Zhu and Wang's bound for general mechanisms, with its factor 3) and converts at the end.
Both are upper bounds, and both are looser than the tight accountant; they are here so that the
paper's numbers can be compared with sound ones. ``as_printed`` gives what the paper's formulas
say where they differ (the documentation's errata 1 and 9); its results are not guarantees.

The functions come first, then both as notions, registered in the group ``recondite.notions``: where
this package is installed they stand in every account.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special

from recondite.accounting.composition import epsilon_from_renyi
from recondite.laws import LossLaw
from recondite.laws.pair import mixed_loss
from recondite.mechanisms import UndefinedNotionError
from recondite.notions.base import Line, Notion, Release

if TYPE_CHECKING:
    from recondite.notions.accounts import Account

__all__ = ["ConvertedFirst", "SampledRenyi", "approach_1", "approach_2", "kairouz_composition"]

Array = npt.NDArray[np.float64]


def kairouz_composition(
    epsilon: Array, steps: int, slack: Array, *, as_printed: bool = False
) -> Array:
    """ε of a ``steps``-fold composition of (ε, ·)-DP mechanisms that spends ``slack`` of δ.

    Printed, the first term of the second and third bounds lacks its factor steps·ε (erratum 1).
    """
    drift = np.tanh(0.5 * epsilon)
    if not as_printed:
        drift = drift * steps * epsilon
    spent = np.maximum(slack, 1e-300)
    root = np.sqrt(steps) * epsilon
    logs = np.logaddexp(1.0, np.log(np.maximum(root, 1e-300)) - np.log(spent))
    second = drift + root * np.sqrt(2.0 * logs)
    third = drift + root * np.sqrt(-2.0 * np.log(np.minimum(spent, 1.0)))
    advanced = np.where(slack > 0, np.minimum(second, third), np.inf)
    out: Array = np.minimum(steps * epsilon, advanced)
    return out


def approach_1(
    law: LossLaw, rate: float, steps: int, delta: float, *, as_printed: bool = False
) -> float:
    """Convert, amplify, compose; optimised over how δ is split.

    Guarantee: an upper bound on ε(δ) under Poisson sampling with add/remove (``as_printed``: none).
    """
    orders = 1.0 + np.geomspace(1e-4, 1e5, 400)
    renyi = law.renyi(orders)
    most = float(np.min(epsilon_from_renyi(orders, renyi, min(1e-3 * delta, 1e-9))))
    if not math.isfinite(most):
        return math.inf
    best = math.inf
    low, high = 0.0, most
    for _ in range(4):
        single = np.linspace(low, high, 400)
        value = _composed(
            single, orders, renyi, rate=rate, steps=steps, delta=delta, as_printed=as_printed
        )
        index = int(np.argmin(value))
        best = min(best, float(value[index]))
        low, high = single[max(index - 1, 0)], single[min(index + 1, len(single) - 1)]
    return best


def _composed(
    single: Array,
    orders: Array,
    renyi: Array,
    *,
    rate: float,
    steps: int,
    delta: float,
    as_printed: bool,
) -> Array:
    logs = (orders - 1.0) * (renyi - single[:, None])
    logs += orders * np.log1p(-1.0 / orders) - np.log(orders - 1.0)
    single_delta = np.exp(np.minimum(logs.min(axis=1), 0.0))
    sampled = mixed_loss(single, rate)
    # 1 - (1 - δ_s)^N (1 - slack) = δ, solved for the slack.
    spent = -steps * np.log1p(-np.minimum(rate * single_delta, 1.0 - 1e-16))
    slack = 1.0 - (1.0 - delta) * np.exp(np.minimum(spent, 700.0))
    feasible = slack >= 0
    slack = np.where(feasible, slack, 0.0)
    value = kairouz_composition(sampled, steps, slack, as_printed=as_printed)
    return np.where(feasible, value, np.inf)


def approach_2(
    law: LossLaw,
    rate: float,
    steps: int,
    delta: float,
    *,
    as_printed: bool = False,
    interpolate: bool = True,
) -> tuple[float, float]:
    """Sample and compose the Rényi curve, then convert; returns ε and its order.

    Between integers what is convex, and may be interpolated, is (α-1)·τ_α; the paper interpolates
    τ_α itself, which gives an ε below the truth (erratum 9; ``as_printed``).

    Guarantee: an upper bound on ε(δ) under Poisson sampling with add/remove (``as_printed``: none).

    Args:
      law: The unsampled law of one release.
      rate: Poisson sampling rate.
      steps: Number of releases.
      delta: δ.
      as_printed: Interpolate as the paper does.
      interpolate: Whether to use real orders at all, or integers only.
    """
    integers = np.arange(2, 129)
    moments = (integers - 1.0) * law.renyi(integers.astype(float))
    tau = np.array([_zhu_wang(int(a), rate, moments[: a - 1]) for a in integers])
    orders: Array = integers.astype(float)
    curve = tau
    if interpolate and as_printed:
        kl = rate * float(law.renyi([1.0 + 1e-9])[0])
        orders = np.unique(np.concatenate([np.arange(1.001, 8, 0.001), orders]))
        curve = np.interp(orders, np.append(1.0, integers), np.append(kl, tau))
    elif interpolate:
        orders = np.unique(np.concatenate([np.arange(1.001, 8, 0.001), orders]))
        convex = np.interp(orders, integers, (integers - 1.0) * tau)
        curve = np.where(orders < 2.0, tau[0], convex / (orders - 1.0))
    values = epsilon_from_renyi(orders, steps * curve, delta)
    best = int(np.argmin(values))
    return float(values[best]), float(orders[best])


def _zhu_wang(order: int, rate: float, moments: Array) -> float:
    """Zhu and Wang (2019), Theorem 5, with its prefactor 1/(α-1) (erratum 2)."""
    if rate == 1.0:
        return float(moments[-1] / (order - 1))
    k = np.arange(2, order + 1, dtype=float)
    logs = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    logs += (order - k) * math.log1p(-rate) + k * math.log(rate) + moments
    logs += np.where(k > 2, math.log(3.0), 0.0)
    first = (order - 1) * math.log1p(-rate) + math.log1p(rate * (order - 1))
    return float(special.logsumexp(np.append(logs, first)) / (order - 1))


class _Approach(Notion):
    """One of the two, where the paper's theorems apply."""

    @abstractmethod
    def bound(self, law: LossLaw, rate: float, steps: int, delta: float) -> float:
        """ε(δ)."""

    def compute(self, release: Release) -> float:
        """ε(δ): an upper bound."""
        given = release.unsampled()
        if not given.amplified:
            raise UndefinedNotionError(
                "the paper's sampling theorems are for Poisson batches with noise on the average"
            )
        if release.group_size > 1:
            raise UndefinedNotionError("the paper has no group privacy")
        if not math.isfinite(float(given.law.renyi([2.0])[0])):
            return math.inf
        return self.bound(given.law, given.rate, given.releases, release.delta)

    def lines(self, account: Account) -> list[Line]:
        """One line."""
        return [(self.label, "–", self.format(self.of(account.values)), "the same, corrected")]


class ConvertedFirst(_Approach):
    """Approach 1: convert, amplify, compose."""

    key = "epsilon.paper_1"
    label = "ε, paper's approach 1"
    promise = (
        "The promise of ε by the first route of the 2025 paper by Biswas and others, corrected."
    )

    def bound(self, law: LossLaw, rate: float, steps: int, delta: float) -> float:
        """ε(δ)."""
        return approach_1(law, rate, steps, delta)


class SampledRenyi(_Approach):
    """Approach 2: sample and compose the Rényi curve, then convert."""

    key = "epsilon.paper_2"
    label = "ε, paper's approach 2"
    promise = (
        "The promise of ε by the second route of the 2025 paper by Biswas and others, corrected."
    )

    def bound(self, law: LossLaw, rate: float, steps: int, delta: float) -> float:
        """ε(δ)."""
        return approach_2(law, rate, steps, delta)[0]
