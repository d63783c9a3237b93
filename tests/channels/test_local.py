"""A noisy copy as a local release: against quadrature, simulation and the exact Gaussian."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import recondite as rc
from recondite.channels import NaturalChannel, Spectrum
from recondite.channels.local import local_epsilon, local_rero, log_bayes_capacity, shift


def test_box_capacity_is_the_integral_of_the_supremum():
    channel = NaturalChannel.from_spectrum(Spectrum.from_covariance(np.eye(1) * 0.1), 0.5)
    deviation = math.sqrt(channel.noise_variance)

    def largest(y):
        return stats.norm.pdf(y - np.clip(y, 0.0, 2.0), scale=deviation)

    pieces = [integrate.quad(largest, a, b)[0] for a, b in ((-9, 0), (0, 2), (2, 11))]
    assert log_bayes_capacity(channel, 2.0) == pytest.approx(math.log(sum(pieces)), rel=1e-9)


def test_capacity_adds_up_over_features_and_grows_with_uses(channel):
    one = log_bayes_capacity(channel, 1.0)
    assert 0 < one < log_bayes_capacity(channel, 1.0, uses=4) < 4 * one
    assert log_bayes_capacity(channel, 2.0) > one


def test_capacity_bounds_a_simulated_guess(channel):
    # Records are corners of the box; an attacker who sees a copy takes the likeliest of some.
    rng = np.random.default_rng(3)
    corners = rng.integers(0, 2, size=(40, channel.dim)).astype(float)
    noisy = channel.perturb(corners.repeat(50, 0), rng)
    precision = np.linalg.inv(channel.noise.covariance())
    gaps = noisy[:, None] - corners[None]
    distance = np.einsum("nkd,de,nke->nk", gaps, precision, gaps)
    right = (distance.argmin(1) == np.arange(40).repeat(50)).mean()
    assert math.log(right * len(np.unique(corners, axis=0))) < log_bayes_capacity(channel, 1.0)


def test_shift_is_the_diagonal_over_the_least_noise(channel):
    diagonal = math.sqrt(channel.dim)
    low = channel.noise_std_range[0]
    assert shift(channel, 1.0) == pytest.approx(diagonal / low)
    assert shift(channel, 1.0, uses=9) == pytest.approx(3 * diagonal / low)


@pytest.mark.parametrize("mu", [0.3, 2.0, 19.0, 21.0, 100.0])
def test_epsilon_bounds_the_exact_curve(mu):
    delta = 1e-4
    found = local_epsilon(mu, delta)
    low, high = (
        stats.norm.logsf(found / mu - mu / 2),
        found + stats.norm.logcdf(-mu / 2 - found / mu),
    )
    exact = math.exp(low) - math.exp(high)
    assert 0.3 * delta < exact <= delta * (1 + 1e-6)


def test_reconstruction_success_is_that_of_the_best_test():
    assert local_rero(0.0, 0.1) == pytest.approx(0.1)
    assert local_rero(1.0, 0.1) == pytest.approx(0.3891437, abs=1e-6)
    exact = rc.measure(rc.Gaussian(1.0), "rero", rc.Poisson(1.0, 1), prior_success=0.1)
    assert local_rero(1.0, 0.1) <= exact + 1e-6


def test_sides_are_checked(channel):
    with pytest.raises(ValueError, match="one number for each"):
        log_bayes_capacity(channel, [1.0, 2.0])
    with pytest.raises(ValueError, match="above 0"):
        shift(channel, 0.0)
