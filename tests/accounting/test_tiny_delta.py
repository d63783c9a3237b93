"""δ so small that products fall below the smallest numbers of floating point."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

import recondite as rc
from recondite.accounting import Composition
from recondite.accounting.distribution import discounted_tail
from recondite.accounting.pld import pld_epsilon
from recondite.laws import ProductLoss, SphereLoss


def test_discounted_tails_are_never_too_large():
    # What δ subtracts: one that is too large makes δ, and then ε, too small.
    interval = 0.5
    losses = interval * np.arange(600)
    masses = 1e-200 * np.exp(-((losses - 290.0) ** 2) / 50.0)
    exact = np.empty_like(masses)
    carry = 0.0
    for j in reversed(range(len(masses))):
        exact[j] = carry = masses[j] + math.exp(-interval) * carry
    found = discounted_tail(masses, interval)
    assert np.all(found <= exact * (1 + 1e-9) + 1e-270)


@pytest.mark.parametrize(("sigma", "steps"), [(0.2, 10), (0.05, 1), (0.3, 100)])
@pytest.mark.parametrize("delta", [1e-226, 1e-260])
def test_epsilon_at_a_tiny_delta_is_above_the_closed_form_and_near_it(sigma, steps, delta):
    epsilon = rc.epsilon(rc.Gaussian(sigma), rc.Poisson(1.0, steps), delta=delta)

    def log_delta(at):
        mean = math.sqrt(steps) / sigma
        first = log_ndtr(mean / 2 - at / mean)
        return first + math.log(-math.expm1(at + log_ndtr(-mean / 2 - at / mean) - first))

    assert log_delta(epsilon) <= math.log(delta)
    assert log_delta(epsilon / 1.0003) > math.log(delta)


@pytest.mark.parametrize("sigma", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-230, 1e-265, 1e-290, 1e-300])
def test_one_release_is_never_below_the_closed_form(sigma, delta):
    import mpmath as mp

    epsilon = rc.epsilon(rc.Gaussian(sigma), rc.Poisson(1.0, 1), delta=delta)
    with mp.workdps(400):
        mu, at = 1 / mp.mpf(sigma), mp.mpf(epsilon)

        def true(eps):
            above, below = mu / 2 - eps / mu, -mu / 2 - eps / mu
            root = mp.sqrt(2)
            return (mp.erfc(-above / root) - mp.exp(eps) * mp.erfc(-below / root)) / 2

        assert true(at) <= delta < true(at / mp.mpf("1.03"))


def test_blocks_noised_side_by_side_cost_what_so_many_releases_do():
    # The transform that joins the blocks has noise of 1e-17: near such a δ the sum of four losses
    # came out 0.2% below the four releases.
    law = SphereLoss(50, 5.0)
    for delta in (1e-8, 1e-15, 1e-16, 1e-17, 1e-30):
        apart = pld_epsilon(Composition.of([(law, 8)]), delta)
        joined = pld_epsilon(Composition.of([(ProductLoss(((law, 8),)), 1)]), delta)
        assert apart / 1.0003 <= joined <= 1.05 * apart


def test_a_delta_below_what_is_computed_has_no_epsilon_from_the_curve():
    epsilon = rc.epsilon(rc.Gaussian(1.0), rc.Poisson(1.0, 1), delta=1e-290)
    assert epsilon >= 36.8  # the closed form has 36.82; Rényi's route stands in
