"""The price of choosing, against exact output laws of small mechanisms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.accounting import Composition, Poisson, epsilon
from recondite.accounting.selection import (
    NegativeBinomialRuns,
    PoissonRuns,
    repeated,
    selection_epsilon,
)
from recondite.laws import GaussianLoss
from recondite.mechanisms import Gaussian


def generating(runs, z):
    """E[z^K], from the published closed forms."""
    if isinstance(runs, PoissonRuns):
        return np.exp(runs.average * (z - 1.0))
    if runs.shape == 0.0:
        return np.log1p(-(1 - runs.gamma) * z) / math.log(runs.gamma)
    return ((1 - (1 - runs.gamma) * z) ** -runs.shape - 1) / (runs.gamma**-runs.shape - 1)


def winner(runs, law):
    """The exact law of the best outcome (outcomes ranked by position), and of 'nothing'."""
    below = np.concatenate([[0.0], np.cumsum(law)])
    steps = np.diff(generating(runs, np.minimum(below, 1.0)))
    return np.concatenate([[generating(runs, 0.0)], steps])


def divergence(p, q, order):
    kept = p > 0
    logs = order * np.log(p[kept]) + (1 - order) * np.log(q[kept])
    return float(np.logaddexp.reduce(logs)) / (order - 1)


class _Discrete:
    """Stands for a composition: a mechanism with finitely many outcomes."""

    def __init__(self, p, q):
        self.p, self.q = p, q
        self.parts = ((None, 1),)
        self.supremum = float(np.abs(np.log(p / q)).max())

    def renyi(self, orders):
        both = ((self.p, self.q), (self.q, self.p))
        return np.array([max(divergence(a, b, o) for a, b in both) for o in np.atleast_1d(orders)])


LAWS = [
    NegativeBinomialRuns(1.0, 0.1),
    NegativeBinomialRuns(0.0, 0.05),
    NegativeBinomialRuns(-0.5, 0.02),
    NegativeBinomialRuns(2.0, 0.3),
]


@pytest.mark.parametrize("runs", LAWS)
@pytest.mark.parametrize("order", [1.5, 2.0, 5.0, 20.0])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), strength=st.floats(0.01, 2.0))
def test_no_winner_tells_more_than_the_bound(runs, order, seed, strength):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(6))
    p = q * np.exp(strength * rng.uniform(-1, 1, 6))
    p /= p.sum()
    base = _Discrete(p, q)
    bound = float(runs.renyi(np.array([order]), base)[0])
    for a, b in ((p, q), (q, p)):
        assert divergence(winner(runs, a), winner(runs, b), order) <= bound + 1e-9


@pytest.mark.parametrize("runs", LAWS)
def test_the_law_is_the_published_one(runs):
    weights = np.array([runs.probability(k) for k in range(1, 4000)])
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    assert weights @ np.arange(1, 4000) == pytest.approx(runs.mean, rel=1e-6)
    for z in (0.2, 0.9):
        expected = weights @ z ** np.arange(1, 4000)
        assert generating(runs, z) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("runs", [*LAWS, PoissonRuns(5.0)])
def test_draws_follow_the_law(runs):
    rng = np.random.default_rng(3)
    found = np.array([runs.draw(rng) for _ in range(4000)])
    assert found.mean() == pytest.approx(runs.mean, abs=6 * found.std() / math.sqrt(4000))


@pytest.mark.parametrize("mean", [1.5, 10.0, 300.0])
@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0])
def test_a_law_with_a_given_mean(mean, shape):
    assert NegativeBinomialRuns.with_mean(mean, shape).mean == pytest.approx(mean, rel=1e-6)


def test_poisson_runs_of_a_gaussian():
    """Exact for N(μ, 1) against N(0, 1) ranked by the outcome, on a grid of outcomes."""
    from scipy.stats import norm

    mu, runs = 0.2, PoissonRuns(8.0)
    edges = np.concatenate([[-np.inf], np.linspace(-3.5, 3.5, 141), [np.inf]])
    p, q = (np.diff(norm.cdf(edges, loc)) for loc in (mu, 0.0))
    base = Composition.of([(GaussianLoss(mu), 1)])
    orders = np.array([2.0, 5.0, 20.0])
    bounds = runs.renyi(orders, base)
    for order, bound in zip(orders, bounds, strict=True):
        for a, b in ((p, q), (q, p)):
            exact = divergence(winner(runs, a / a.sum()), winner(runs, b / b.sum()), order)
            assert exact <= bound


def test_random_numbers_of_runs_are_cheaper_than_composition():
    one = Poisson(0.01, 1000).composition(Gaussian(1.0))
    alone = epsilon(Gaussian(1.0), Poisson(0.01, 1000), 1e-5)
    best = selection_epsilon(one, 1e-5, NegativeBinomialRuns.with_mean(30.0))
    every = selection_epsilon(one, 1e-5, 30)
    assert alone < best < every
    assert best < 5 * alone


def test_a_fixed_number_is_composition():
    one = Composition.of([(GaussianLoss(0.3), 10)])
    assert repeated(one, 4).parts == ((GaussianLoss(0.3), 40),)
    assert selection_epsilon(one, 1e-5, 1) == pytest.approx(
        epsilon(Gaussian(1 / 0.3), Poisson(1.0, 10), 1e-5)
    )


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: NegativeBinomialRuns(-1.0, 0.5), "shape must be above -1"),
        (lambda: NegativeBinomialRuns(0.0, 1.0), "gamma"),
        (lambda: NegativeBinomialRuns.with_mean(1.0), "mean must be above 1"),
        (lambda: PoissonRuns(0.0), "average"),
        (lambda: repeated(Composition.of([]), 0), "runs"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(ValueError, match=match):
        make()
