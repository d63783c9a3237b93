"""The tight accountant against other accountants, closed forms and its own optimistic twin."""

import math
import warnings

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as google
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism
from scipy import optimize, special

import recondite as rc
from recondite import accounting
from recondite.accounting.composition import Composition, rdp_epsilon
from recondite.accounting.distribution import discounted_tail
from recondite.accounting.pld import pld_bracket, pld_delta, pld_epsilon
from recondite.laws import GaussianLoss, SphereLoss

RATE, STEPS, DELTA, DIM = 128 / 60_000, 1_407, 1 / 60_000, 13_700
PAPER = rc.Poisson(rate=RATE, steps=STEPS)


def log_gaussian_delta(mu, epsilon):
    """Balle and Wang's closed form, in logs so that it survives tiny δ."""
    first = special.log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


@pytest.mark.parametrize(
    ("kappa", "low", "high", "renyi"),
    [
        (25, 0.1078, 0.1085, 0.164),
        (75, 0.789, 0.792, 1.52),
        (100, 2.68, 2.69, 3.61),
        (150, 11.60, 11.63, 14.10),
        (200, 31.14, 31.21, 36.7),
        (300, 108.66, 108.80, 125.0),
    ],
)
def test_papers_setting_lies_in_the_bracket_computed_elsewhere(kappa, low, high, renyi):
    mechanism = rc.VonMisesFisher(kappa=kappa, dim=DIM)
    lower, upper = accounting.epsilon_bracket(mechanism, PAPER, DELTA)
    assert low <= lower <= upper <= high
    assert upper - lower <= max(0.01 * upper, 1e-3)
    exact, _ = accounting.renyi_epsilon(mechanism, PAPER, DELTA)
    assert upper <= exact <= renyi * 1.003


@pytest.mark.parametrize(("sigma", "pld"), [(1.23, 0.262), (0.42, 8.96), (0.174, 149.0)])
def test_gaussian_in_the_papers_setting(sigma, pld):
    lower, upper = accounting.epsilon_bracket(rc.Gaussian(noise_multiplier=sigma), PAPER, DELTA)
    assert upper == pytest.approx(pld, rel=3e-3)
    assert upper - lower <= 0.01 * upper


@pytest.mark.parametrize("sigma", [0.8, 1.23, 4.0])
@pytest.mark.parametrize(("rate", "steps"), [(RATE, STEPS), (0.05, 300), (1.0, 7)])
def test_gaussian_agrees_with_googles_accountant(sigma, rate, steps):
    theirs = google.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-4, sampling_prob=rate
    ).self_compose(steps)
    ours = rc.epsilon(rc.Gaussian(noise_multiplier=sigma), rc.Poisson(rate=rate, steps=steps), 1e-5)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=3e-3, abs=1e-4)


def test_gaussian_agrees_with_the_prv_accountant():
    accountant = PRVAccountant(
        prvs=[PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=1.0)],
        max_self_compositions=[1_000],
        eps_error=0.01,
        delta_error=1e-10,
    )
    low, _, high = accountant.compute_epsilon(1e-5, [1_000])
    ours = rc.epsilon(rc.Gaussian(noise_multiplier=1.0), rc.Poisson(rate=0.01, steps=1_000), 1e-5)
    assert low - 1e-3 <= ours <= high + 1e-3


@given(
    mu=st.floats(0.02, 8.0),
    steps=st.integers(1, 5_000),
    log_delta=st.floats(-60.0, -1.0),
)
@hypothesis_settings(max_examples=40)
def test_unsampled_gaussian_equals_the_closed_form_at_any_delta(mu, steps, log_delta):
    delta = math.exp(log_delta)
    total = mu * math.sqrt(steps)
    composition = Composition.of([(GaussianLoss(mu), steps)])
    ours = pld_epsilon(composition, delta)
    if log_gaussian_delta(total, 0.0) <= log_delta:
        assert ours <= 1e-3
        return
    exact = optimize.brentq(
        lambda e: log_gaussian_delta(total, e) - log_delta, 0, 12 * total + total**2
    )
    assert exact - 1e-6 * (1 + exact) <= ours <= exact * 1.002 + 1e-4


@given(epsilon=st.floats(0.0, 60.0), mu=st.floats(0.5, 3.0))
@hypothesis_settings(max_examples=40)
def test_delta_has_relative_precision_however_small(epsilon, mu):
    exact = math.exp(log_gaussian_delta(mu, epsilon))
    if exact < 1e-200:
        return
    ours = pld_delta(Composition.of([(GaussianLoss(mu), 1)]), epsilon)
    assert exact * (1 - 1e-6) <= ours <= exact * 1.01


@given(
    kappa=st.floats(1.0, 400.0),
    dim=st.integers(2, 10**8),
    steps=st.integers(1, 3_000),
    rate=st.floats(1e-3, 1.0),
    log_delta=st.floats(-25.0, -3.0),
)
@hypothesis_settings(max_examples=18)
def test_tight_epsilon_is_monotone_and_below_every_other_bound(kappa, dim, steps, rate, log_delta):
    delta = math.exp(log_delta)

    def epsilon(kappa=kappa, steps=steps, rate=rate, delta=delta):
        return rc.epsilon(rc.VonMisesFisher(kappa, dim), rc.Poisson(rate, steps), delta)

    value, slack = epsilon(), 1 + 2e-3
    assert value <= epsilon(kappa=1.2 * kappa) * slack + 1e-6
    assert value <= epsilon(steps=steps + max(1, steps // 5)) * slack + 1e-6
    assert value <= epsilon(rate=min(1.0, 1.2 * rate)) * slack + 1e-6
    assert value <= epsilon(delta=delta / 2) * slack + 1e-6
    run = rc.Poisson(rate, steps).composition(rc.VonMisesFisher(kappa, dim))
    assert value <= rdp_epsilon(run, delta)[0] * (1 + 1e-12)
    assert value <= run.supremum * (1 + 1e-12)


@given(
    kappa=st.floats(5.0, 200.0),
    dim=st.integers(50, 10**7),
    steps=st.integers(1, 2_000),
    rate=st.floats(1e-3, 0.5),
)
@hypothesis_settings(max_examples=15)
def test_upper_and_lower_bounds_are_within_one_per_cent(kappa, dim, steps, rate):
    kappa = min(kappa, 3 * math.sqrt(dim))  # beyond, one step alone has losses above 700
    run = rc.Poisson(rate, steps).composition(rc.VonMisesFisher(kappa, dim))
    lower, upper = pld_bracket(run, 1e-5)
    assert lower <= upper
    assert upper - lower <= max(0.01 * upper, 1e-3)


@pytest.mark.parametrize(("kappa", "dim"), [(75.0, 10**7), (500.0, 10**8), (20.0, 10**6)])
def test_weak_concentration_is_gaussian_noise(kappa, dim):
    sigma = math.sqrt(dim) / (2 * kappa)
    for run in (rc.Poisson(0.01, 20_000), rc.Poisson(1.0, 50)):
        ours = rc.epsilon(rc.VonMisesFisher(kappa, dim), run, 1e-6)
        theirs = google.from_gaussian_mechanism(
            sigma, value_discretization_interval=1e-4, sampling_prob=run.rate
        ).self_compose(run.steps)
        assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-6), rel=0.01, abs=5e-4)


@pytest.mark.parametrize("steps", [10_000, 1_000_000])
@pytest.mark.parametrize("dim", [2, DIM, 10**9])
def test_many_steps_stay_tight(steps, dim):
    kappa = min(75.0, 0.6 * math.sqrt(dim))
    run = rc.Poisson(RATE, steps).composition(rc.VonMisesFisher(kappa, dim))
    lower, upper = pld_bracket(run, DELTA)
    assert upper - lower <= max(0.01 * upper, 1e-3)


@pytest.mark.parametrize("dim", [2, 3, 13_700, 10**9])
@pytest.mark.parametrize("kappa", [1e-6, 1e-2, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("rate", [1e-6, 0.5, 1.0])
def test_no_warning_and_no_nan_in_the_corners(dim, kappa, rate):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = rc.epsilon(rc.VonMisesFisher(kappa, dim), rc.Poisson(rate, 3), 1e-6)
    assert 0 <= value <= 6 * kappa * (1 + 1e-9)


def test_compositions_add_up_in_any_order():
    sphere, gaussian = SphereLoss(500, 10.0).mixture((0.9, 0.1)), GaussianLoss(0.2)
    one = Composition.of([(sphere, 10), (gaussian, 5), (sphere, 7)])
    other = Composition.of([(gaussian, 5)]) + Composition.of([(sphere, 17)])
    assert one.releases == other.releases == 22
    assert pld_epsilon(one, 1e-5) == pytest.approx(pld_epsilon(other, 1e-5), rel=1e-9)
    assert pld_epsilon(one, 1e-5) > pld_epsilon(Composition.of([(sphere, 17)]), 1e-5)


def test_nothing_released_costs_nothing():
    assert pld_epsilon(Composition(()), 1e-5) == 0.0
    assert pld_delta(Composition(()), 1.0) == 0.0
    assert rdp_epsilon(Composition(()), 1e-5)[0] == 0.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 200.0))
def test_discounted_tail_is_the_sum_it_says(masses, interval):
    got = discounted_tail(np.array(masses), interval)
    for j in range(len(masses)):
        exact = sum(m * math.exp(-(k) * interval) for k, m in enumerate(masses[j:]))
        # Never above: what a coarse grid leaves out is nothing beside the masses above.
        left_out = 1e-17 * sum(masses[j + 1 :]) + 1e-200  # denormals on the way
        assert exact * (1 - 1e-9) - left_out <= got[j] <= exact * (1 + 1e-9) + 1e-200


def test_epsilon_and_delta_are_inverse():
    mechanism, run = rc.VonMisesFisher(75, DIM), PAPER
    epsilon = rc.epsilon(mechanism, run, 1e-7)
    assert rc.delta(mechanism, run, epsilon) == pytest.approx(1e-7, rel=5e-3)
