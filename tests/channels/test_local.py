"""A noisy copy as a local release: against quadrature, simulation and the exact Gaussian."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import recondite as rc
from recondite.channels import MinimumPowerChannel, NaturalChannel, Spectrum, WhiteChannel
from recondite.notions.pairs import local_epsilon, local_rero, log_bayes_capacity, shift


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


def plane_capacity(covariance):
    """Log of the integral over y of the largest density that a point of the unit square gives y."""
    precision = np.linalg.inv(covariance)
    axes = [np.linspace(-8 * s, 1 + 8 * s, 501) for s in np.sqrt(np.diag(covariance))]
    y = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    least = np.where(((y >= 0) & (y <= 1)).all(1), 0.0, np.inf)
    for free, fixed in ((0, 1), (1, 0)):
        for level in (0.0, 1.0):  # the nearest point of this side of the square
            gap = y[:, fixed] - level
            slope = precision[fixed, free] / precision[free, free]
            gaps = np.empty_like(y)
            nearest = np.clip(y[:, free] + slope * gap, 0, 1)
            gaps[:, fixed], gaps[:, free] = gap, y[:, free] - nearest
            least = np.minimum(least, np.einsum("nd,de,ne->n", gaps, precision, gaps))
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    volume = 2 * math.pi * math.sqrt(np.linalg.det(covariance))
    return math.log(np.exp(-0.5 * least).sum() * cell / volume)


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("kind", [NaturalChannel, WhiteChannel, MinimumPowerChannel])
@pytest.mark.parametrize("rank", [None, 1])
def test_capacity_of_correlated_noise_is_bounded_and_near(kind, correlation, rank):
    covariance = np.array([[1.0, 0.6 * correlation], [0.6 * correlation, 0.36]])
    spectrum = Spectrum.from_covariance(covariance)
    if rank is not None:
        data = np.random.default_rng(0).standard_normal((400, 2)) @ np.linalg.cholesky(covariance).T
        spectrum = Spectrum.of(data, method="sketch", rank=rank)
    channel = kind.from_spectrum(spectrum, 1.0)
    exact, bound = plane_capacity(channel.noise.covariance()), log_bayes_capacity(channel, 1.0)
    if kind is NaturalChannel or (correlation == 0 and rank is None):
        assert bound == pytest.approx(exact, rel=1e-5)
    # A larger box around the turned one, and a ball for what a sketch left out, cost this much.
    assert exact - 1e-5 <= bound <= exact + (0.35 if correlation else 0.2)


def test_shift_is_the_diagonal_over_the_least_noise(channel):
    diagonal = math.sqrt(channel.dim)
    low = channel.noise_std_range[0]
    assert shift(channel, 1.0) == pytest.approx(diagonal / low)
    assert shift(channel, 1.0, uses=9) == pytest.approx(3 * diagonal / low)


@pytest.mark.parametrize(
    ("mu", "share"), [(0.3, 0.98), (2.0, 0.98), (19.0, 0.9), (21.0, 0.3), (100.0, 0.3)]
)
def test_epsilon_bounds_the_exact_curve(mu, share):
    delta = 1e-4
    found = local_epsilon(mu, delta)
    low, high = (
        stats.norm.logsf(found / mu - mu / 2),
        found + stats.norm.logcdf(-mu / 2 - found / mu),
    )
    exact = math.exp(low) - math.exp(high)
    assert share * delta < exact <= delta * (1 + 1e-6)


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
