"""Laws with a one-dimensional latent variable in which the loss is monotone.

Every integral is a composite Gauss-Legendre rule over panels that are narrow against the law's
own scale, so that masses and divergences come out to about 1e-13 whatever the dimension.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from recondite.laws.base import Array, LossLaw, SampledOnce
from recondite.laws.pair import DiscretePair, GridTooFineError, connect_the_dots, mixed_loss

__all__ = ["LatentLoss", "MixedLoss", "log_moment", "order_groups"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_MOST_CELLS = 4e6
_MOST_PANELS = 2e5
_FEW_NODES, _FEW_WEIGHTS = np.polynomial.legendre.leggauss(4)


class LatentLoss(LossLaw):
    """A pair of densities on the line whose log-ratio increases along it."""

    @abstractmethod
    def log_q(self, x: Array) -> Array:
        """Log-density of Q at latent points."""

    @abstractmethod
    def loss(self, x: Array, records: int = 1) -> Array:
        """Log dP_j/dQ at latent points, for a batch with j of the person's records."""

    @abstractmethod
    def inverse(self, losses: Array) -> Array:
        """The latent points at which the loss of one record takes these values."""

    @abstractmethod
    def span(self, drop: float, order: float, records: int = 1) -> tuple[float, float]:
        """Where to integrate: beyond it Q, P and Q·e^(order·L) lie ``drop`` nats below their tops.

        Guarantee: the mass of P above and that of Q below the span is at most e^(-drop).
        """

    @property
    def rate(self) -> float:
        """Probability that any of the person's records takes part."""
        return 1.0

    @property
    @abstractmethod
    def width(self) -> float:
        """A panel width that resolves the densities at every tilt."""

    def kinks(self) -> list[tuple[float, float]]:
        """Latent points around which the loss bends, with the distance over which it does."""
        return []

    def panels(self, drop: float, order: float) -> Array:
        """Edges of the integration panels, finer where the loss bends."""
        low, high = self.span(drop, order)
        count = max(2, int(np.ceil((high - low) / self.width)))
        if count > _MOST_PANELS:
            raise GridTooFineError(
                f"noise so weak that a loss spans {count:.0e} panels cannot be integrated: take a "
                "larger noise multiplier, or a smaller kappa"
            )
        edges = [np.linspace(low, high, count + 1)]
        for centre, distance in self.kinks():
            steps = np.arange(0.5, 6.5) * distance
            steps = np.append(steps, distance * 8.0 * 1.4 ** np.arange(60))
            steps = steps[steps < self.width * 4]
            edges.append(np.concatenate([centre - steps, [centre], centre + steps]))
        joined = np.unique(np.concatenate(edges))
        inside: Array = joined[(joined >= low) & (joined <= high)]
        return inside

    def atoms(self, order: float) -> tuple[Array, Array]:
        """Losses and log-masses of Q at the nodes of a rule that serves orders up to ``order``."""
        x, log_w = _quadrature(self.panels(45.0, order), _NODES, _WEIGHTS)
        return self.loss(x), self.log_q(x) + log_w

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """Rényi divergence by quadrature; subclasses with a closed form override it."""
        alpha = np.atleast_1d(np.asarray(orders, float))
        out = np.empty_like(alpha)
        for group in order_groups(alpha):
            losses, log_q = self.atoms(float(alpha[group].max()))
            for i in group:
                out[i] = log_moment(alpha[i], losses, log_q) / (alpha[i] - 1.0)
        return out

    def discretise(
        self, interval: float, *, tail: float = 1e-25, pessimistic: bool = True
    ) -> DiscretePair:
        """Exact masses on the grid, by integrating over every cell.

        Noise too weak to integrate counts as none, which dominates it.
        """
        drop = -np.log(tail)
        try:
            coarse = self.panels(drop, 1.0)
        except GridTooFineError:
            if not pessimistic:
                raise
            rest = np.array([1.0 - self.rate])
            return DiscretePair(interval, 0, rest, rest.copy(), self.rate, self.rate)
        bounds = self.loss(coarse[[0, -1]]) / interval
        excess = (bounds[1] - bounds[0]) / _MOST_CELLS
        if excess > 1.0:
            raise GridTooFineError(f"interval {interval:g} is too fine for this law", excess)
        grid = np.arange(np.ceil(bounds[0]), np.floor(bounds[1]) + 1.0) * interval
        cuts = self.inverse(grid)
        cuts = cuts[(cuts > coarse[0]) & (cuts < coarse[-1])]
        # Four nodes reach full precision on a quarter of a panel.
        quarters = [coarse + k / 4 * np.diff(coarse, append=coarse[-1]) for k in range(4)]
        edges = np.unique(np.concatenate([*quarters, cuts]))
        x, log_w = _quadrature(edges, _FEW_NODES, _FEW_WEIGHTS)
        losses = self.loss(x)
        log_q = self.log_q(x) + log_w
        log_p = log_q + losses
        pair = connect_the_dots(losses, log_p, log_q, interval, pessimistic=pessimistic)
        if not pessimistic:
            return pair
        scale_p, scale_q = 1.0 / pair.p.sum(), 1.0 / pair.q.sum()
        return DiscretePair(
            interval, pair.start, pair.p * scale_p, pair.q * scale_q, 2 * tail, 2 * tail
        )

    def mixture(self, weights: Sequence[float]) -> LossLaw:
        """Poisson sampling of one person's records."""
        if weights[-1] == 1.0:
            return self.together(len(weights) - 1)
        return MixedLoss(self, tuple(float(w) for w in weights))


class MixedLoss(SampledOnce, LatentLoss):
    """The pair (Σ_j w_j P_j, Q) with P_0 = Q."""

    def __init__(self, base: LatentLoss, weights: tuple[float, ...]) -> None:
        self.base = base
        self.weights = weights

    def log_q(self, x: Array) -> Array:
        """Log-density of Q, which sampling leaves alone."""
        return self.base.log_q(x)

    @property
    def rate(self) -> float:
        """Probability that any of the person's records takes part.

        Not one minus the probability of none: that forgets rates below 1e-16.
        """
        return math.fsum(self.weights[1:])

    @property
    def variation(self) -> float:
        """Where nobody takes part, both sides are equal."""
        return self.rate

    def loss(self, x: Array, records: int = 1) -> Array:
        """Log Σ_j w_j e^{L_j}, formed as log1p(Σ_j w_j (e^{L_j} - 1))."""
        del records
        each = np.stack([self.base.loss(x, j) for j in range(1, len(self.weights))])
        weights = np.array(self.weights[1:])[:, None]
        top = np.maximum(each.max(axis=0), 0.0)
        large = top > 30.0
        safe = np.where(large, 0.0, each)
        small = np.log1p((weights * np.expm1(safe)).sum(axis=0))
        shifted = np.where(large, each - top, -np.inf)
        mass = (weights * np.exp(shifted)).sum(axis=0) + self.weights[0] * np.exp(-top)
        out: Array = np.where(large, top + np.log(np.where(large, mass, 1.0)), small)
        return out

    def inverse(self, losses: Array) -> Array:
        """Exact for one record; for several by interpolation (cuts need not be exact)."""
        if len(self.weights) == 2:
            rate = max(self.weights[1], 1e-290)  # cuts need not be exact, and 1 / rate finite
            large = losses > 30.0
            ratio = np.expm1(np.where(large, 0.0, losses)) / rate
            possible = ratio > -1.0
            small = np.log1p(np.where(possible, ratio, 0.0))
            decay = np.exp(-np.maximum(losses, 30.0))
            big = losses - np.log(rate) + np.log1p(-(1.0 - rate) * decay)
            return self.base.inverse(np.where(large, big, small)[possible])
        table = np.linspace(*self.span(60.0, 1.0), 200_000)
        out: Array = np.interp(losses, self.loss(table), table)
        return out

    def span(self, drop: float, order: float, records: int = 1) -> tuple[float, float]:
        """The span of the largest number of records."""
        del records
        return self.base.span(drop, order, len(self.weights) - 1)

    @property
    def width(self) -> float:
        """Narrower with several records, whose components overlap."""
        return self.base.width / max(1, len(self.weights) - 2)

    def kinks(self) -> list[tuple[float, float]]:
        """Where the loss changes sign, and where the sampled part overtakes the other."""
        none, one = self.weights[:2]
        if none == 0 or one == 0:
            return []
        level = np.log(none) - np.log(one)
        points = self.base.inverse(np.array([level - 0.5, level, level + 0.5]))
        if len(points) < 3 or not np.all(np.isfinite(points)):
            return []
        return [(float(points[1]), float(points[2] - points[0]))]

    def within_reach(self, orders: Array) -> npt.NDArray[np.bool_]:
        """At which orders the nodes of a quadrature are few enough."""
        lengths = np.array([np.diff(self.span(45.0, order))[0] for order in orders])
        out: npt.NDArray[np.bool_] = lengths < 3000 * self.width
        return out

    def renyi(self, orders: npt.ArrayLike) -> Array:
        """By quadrature; at orders whose tilt lies too far out, that of the unsampled law.

        The unsampled divergence is an upper bound (quasi-convexity), and no conversion to (ε, δ)
        has its best order there.
        """
        alpha = np.atleast_1d(np.asarray(orders, float))
        near = self.within_reach(alpha)
        out = self.base.together(len(self.weights) - 1).renyi(alpha)
        if near.any():
            out[near] = super().renyi(alpha[near])
            if len(self.weights) > 2:
                # That the other direction is never larger is proved for one record only.
                out[near] = np.maximum(out[near], self._reverse_renyi(alpha[near]))
        return out

    def _reverse_renyi(self, alpha: Array) -> Array:
        """D_α(Q‖P) by the same nodes: P >= w₀·Q keeps the ratio within their reach."""
        out = np.empty_like(alpha)
        for group in order_groups(alpha):
            losses, log_q = self.atoms(float(alpha[group].max()))
            for i in group:
                out[i] = log_moment(alpha[i], -losses, log_q + losses) / (alpha[i] - 1.0)
        return out

    @property
    def supremum(self) -> float:
        """ln(1 + q(e^ε - 1)) for one record; the other direction is never larger."""
        return float(mixed_loss(np.array([self.base.supremum]), self.rate)[0])

    @property
    def infimum(self) -> float:
        """ln(1 - q(1 - e^-ε)): without the records, the batch looks sampled without them."""
        return float(mixed_loss(np.array([self.base.infimum]), self.rate)[0])


def order_groups(alpha: Array) -> list[npt.NDArray[np.intp]]:
    """Orders of a like size share their nodes: high orders need a long span, low ones do not."""
    return np.array_split(np.argsort(alpha), max(1, len(alpha) // 8))


def log_moment(alpha: float, losses: Array, log_q: Array) -> float:
    """Log E_Q[e^{αL}], using E_Q[e^L] = 1 to keep small values precise."""
    exponents = alpha * losses
    if float(exponents.max()) < 30.0:
        # E[e^{αL}] - 1 = E[expm1(αL) - α·expm1(L)], each term of second order in L.
        excess = np.exp(log_q) * (np.expm1(exponents) - alpha * np.expm1(losses))
        return float(np.log1p(max(0.0, float(excess.sum()))))
    weighted = log_q + exponents
    top = float(weighted.max())
    return max(0.0, top + float(np.log(np.exp(weighted - top).sum())))


def _quadrature(edges: Array, nodes: Array, weights: Array) -> tuple[Array, Array]:
    half = 0.5 * np.diff(edges)
    middle = 0.5 * (edges[1:] + edges[:-1])
    with np.errstate(divide="ignore"):
        log_w = np.log(half[:, None] * weights)
    return (middle[:, None] + half[:, None] * nodes).ravel(), log_w.ravel()
