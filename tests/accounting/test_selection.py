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
    Trial,
    choice_prices,
    repeated,
    search_epsilon,
    selection_epsilon,
)
from recondite.laws import GaussianLoss
from recondite.mechanisms import Gaussian, UndefinedNotionError
from recondite.notions.calibration import calibrate


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
    bound = float(runs.renyi(np.array([order]), Trial((base,)))[0])
    for a, b in ((p, q), (q, p)):
        assert divergence(winner(runs, a), winner(runs, b), order) <= bound + 1e-9


@pytest.mark.parametrize("runs", LAWS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), strength=st.floats(0.01, 2.0))
def test_settings_drawn_from_a_list_tell_no_more_than_the_dearest_at_every_order(
    runs, seed, strength
):
    rng = np.random.default_rng(seed)
    kinds = []
    for scale in (strength, 2 * strength * rng.random()):
        q = rng.dirichlet(np.ones(4))
        p = q * np.exp(scale * rng.uniform(-1, 1, 4))
        kinds.append((p / p.sum(), q))
    trial = Trial(tuple(_Discrete(p, q) for p, q in kinds))
    weight, ranks = rng.random(), rng.permutation(8)  # outcomes of both, in any order of merit
    both = [
        np.concatenate([weight * a, (1 - weight) * b])[ranks] for a, b in zip(*kinds, strict=True)
    ]
    orders = np.array([1.5, 2.0, 5.0, 20.0])
    for order, bound in zip(orders, runs.renyi(orders, trial), strict=True):
        for a, b in (both, both[::-1]):
            assert divergence(winner(runs, a), winner(runs, b), order) <= bound + 1e-9


def test_a_search_over_one_setting_costs_as_a_choice_among_its_runs():
    one = Composition.of([(GaussianLoss(0.5), 1)])
    other = Composition.of([(GaussianLoss(0.2), 1)])
    for runs in (NegativeBinomialRuns.with_mean(10.0), PoissonRuns(10.0)):
        alone = selection_epsilon(one, 1e-5, runs)
        assert search_epsilon(Trial((one, one)), 1e-5, runs) == alone
        # The dearer setting decides where it is dearer throughout.
        assert search_epsilon(Trial((other, one)), 1e-5, runs) == pytest.approx(alone, rel=1e-9)
    assert search_epsilon(Trial(()), 1e-5, runs) == 0.0


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
    bounds = runs.renyi(orders, Trial((base,)))
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


def test_noise_for_the_best_of_several_runs():
    schedule, target = Poisson(0.01, 200), 2.0
    one = calibrate(Gaussian(1.0), target, "epsilon", schedule, delta=1e-5)
    fixed = calibrate(Gaussian(1.0), target, "epsilon", schedule, delta=1e-5, chosen_from=5)
    law = NegativeBinomialRuns.with_mean(5.0)
    secret = calibrate(Gaussian(1.0), target, "epsilon", schedule, delta=1e-5, chosen_from=law)
    for found, runs in ((one, 1), (fixed, 5), (secret, law)):
        price = selection_epsilon(schedule.composition(found.mechanism), 1e-5, runs)
        assert 0.998 * target < price <= target
    assert one.value < min(fixed.value, secret.value)
    # Five runs are five times the steps.
    assert epsilon(fixed.mechanism, Poisson(0.01, 1000), 1e-5) <= target
    # What choosing costs in ReRo is known for a fixed number only; capacity has no price at all.
    rero = calibrate(Gaussian(1.0), 0.2, "rero", schedule, chosen_from=5)
    assert rero.value > calibrate(Gaussian(1.0), 0.2, "rero", schedule).value
    with pytest.raises(UndefinedNotionError, match="give a fixed number"):
        calibrate(Gaussian(1.0), 0.2, "rero", schedule, chosen_from=law)
    with pytest.raises(ValueError, match="chosen_from does not price bayes-capacity"):
        calibrate(Gaussian(1.0, dim=10, max_batch_size=1), 1.0, "bayes-capacity", chosen_from=5)


def test_the_prices_of_choosing_are_those_of_one_of_all_and_of_a_secret_number():
    one = Poisson(0.01, 1000).composition(Gaussian(1.0))
    prices = choice_prices(one, 1e-5, 13)
    assert prices.one == epsilon(Gaussian(1.0), Poisson(0.01, 1000), 1e-5)
    assert prices.every == epsilon(Gaussian(1.0), Poisson(0.01, 13_000), 1e-5)
    law = NegativeBinomialRuns.with_mean(13)
    assert prices.secret == selection_epsilon(one, 1e-5, law)
    assert prices.one < prices.secret < prices.every


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
