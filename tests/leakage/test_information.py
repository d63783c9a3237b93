"""CHANNEL's laws as properties, each value against an outside reference."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import trapezoid

from recondite.leakage import information as info

PROPERTY = settings(deadline=None, max_examples=80)

SPECTRA = arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1e6))
NOISE = st.floats(1e-6, 1e6)


def random_covariance(dim, rank, seed=0):
    factor = np.random.default_rng(seed).standard_normal((dim, rank))
    return factor @ factor.T


@pytest.mark.parametrize("rank", [6, 3])
def test_theorem_2_is_the_log_determinant(rank):
    covariance = random_covariance(6, rank)
    noise_variance = 0.37
    sign, logdet = np.linalg.slogdet(np.eye(6) + covariance / noise_variance)
    assert sign == 1
    values = np.linalg.eigvalsh(covariance)  # for rank 3 some are tiny and negative
    assert info.gaussian_information(values, noise_variance) == pytest.approx(logdet / 2, rel=1e-12)


def test_per_direction_noise_is_the_log_determinant():
    values, noise = np.array([4.0, 1.0, 0.25]), np.array([0.5, 2.0, 1.0])
    wanted = 0.5 * np.linalg.slogdet(np.diag((values + noise) / noise))[1]
    assert info.gaussian_information(values, noise) == pytest.approx(wanted, rel=1e-14)


@PROPERTY
@given(SPECTRA, NOISE)
def test_theorem_2_against_mpmath(values, noise_variance):
    with mpmath.workdps(40):
        exact = mpmath.fsum(mpmath.log1p(mpmath.mpf(x) / noise_variance) for x in values) / 2
    assert info.gaussian_information(values, noise_variance) == pytest.approx(
        float(exact), rel=1e-13, abs=1e-300
    )


def test_no_overflow_and_no_cancellation_at_the_ends():
    assert info.gaussian_information([1e300], 1e-300) == pytest.approx(300 * math.log(10))
    assert info.gaussian_information([1e-20], 1.0) == pytest.approx(0.5e-20, rel=1e-14)
    assert info.reuse_information([1e300], 1e-5, 10**9) == pytest.approx(157 * math.log(10))


def test_gaussian_data_attains_the_bound():
    """For Gaussian data the bound is the mutual information: Monte Carlo of its definition."""
    rng = np.random.default_rng(1)
    values, noise_variance, draws = np.array([2.0, 0.5]), 0.8, 200_000
    record = rng.standard_normal((draws, 2)) * np.sqrt(values)
    noisy = record + rng.standard_normal((draws, 2)) * math.sqrt(noise_variance)
    given_record = -0.5 * ((noisy - record) ** 2 / noise_variance + math.log(noise_variance))
    marginal = -0.5 * (noisy**2 / (values + noise_variance) + np.log(values + noise_variance))
    density = (given_record - marginal).sum(axis=1)
    error = 5 * density.std() / math.sqrt(draws)
    assert density.mean() == pytest.approx(
        info.gaussian_information(values, noise_variance), abs=error
    )


def test_other_laws_stay_below_the_bound():
    """A fair coin ±1 in noise: at most ln 2 nats, and below the Gaussian of equal variance."""
    noise_variance = 0.3
    grid = np.linspace(-8, 8, 40_001)

    def normal(mean):
        return np.exp(-((grid - mean) ** 2) / (2 * noise_variance)) / math.sqrt(
            2 * math.pi * noise_variance
        )

    mixture = 0.5 * (normal(-1) + normal(1))
    entropy = -trapezoid(mixture * np.log(np.maximum(mixture, 1e-300)), grid)
    exact = entropy - 0.5 * math.log(2 * math.pi * math.e * noise_variance)
    assert 0 < exact < math.log(2)
    assert exact < info.gaussian_information([1.0], noise_variance)


@PROPERTY
@given(SPECTRA, NOISE, st.floats(1, 100))
def test_monotone_in_noise_and_in_variance(values, noise_variance, factor):
    base = info.gaussian_information(values, noise_variance)
    slack = 1 + 1e-12
    assert info.gaussian_information(values, noise_variance * factor) <= base * slack
    assert base <= info.gaussian_information(values * factor, noise_variance) * slack
    more = np.append(values, 1.0)
    assert base <= info.gaussian_information(more, noise_variance) * slack


@PROPERTY
@given(SPECTRA, NOISE, st.floats(1e-3, 1e3))
def test_only_the_ratio_matters(values, noise_variance, unit):
    assert info.gaussian_information(values * unit, noise_variance * unit) == pytest.approx(
        info.gaussian_information(values, noise_variance), rel=1e-12
    )


@PROPERTY
@given(SPECTRA, NOISE, st.integers(1, 10_000))
def test_reuse_lies_between_one_use_and_k_uses(values, noise_variance, uses):
    once = info.gaussian_information(values, noise_variance)
    total = info.reuse_information(values, noise_variance, uses)
    tiny = 1e-300  # subnormal variances round
    assert once * (1 - 1e-12) - tiny <= total <= uses * once * (1 + 1e-12) + tiny
    assert total == pytest.approx(info.gaussian_information(values, noise_variance / uses))


def test_reuse_is_the_log_determinant_of_stacked_copies():
    covariance, noise_variance, uses = random_covariance(3, 3), 0.7, 4
    stacked = np.kron(np.ones((uses, uses)), covariance) / noise_variance
    wanted = 0.5 * np.linalg.slogdet(np.eye(3 * uses) + stacked)[1]
    values = np.linalg.eigvalsh(covariance)
    assert info.reuse_information(values, noise_variance, uses) == pytest.approx(wanted, rel=1e-11)
    assert info.reuse_information(values, noise_variance, 0) == 0


def test_n_times_capacity_is_vacuous_at_the_papers_setting():
    """Erratum 16: κ = 300, n = 1e4, d = 3072."""
    values = np.ones(3072)
    noise_variance = 1 / math.expm1(2 * 300 / 3072)
    assert info.gaussian_information(values, noise_variance) == pytest.approx(300)
    assert pytest.approx(-1953.125) == -2 * 300 * 1e4 / 3072
    assert info.reuse_information(values, noise_variance, 10_000) < 300 * 40


@PROPERTY
@given(SPECTRA, NOISE, st.integers(1, 1000))
def test_batches_scale_the_covariance(values, noise_variance, batch):
    scaled = info.batch_information(values, noise_variance, batch)
    assert scaled == pytest.approx(info.gaussian_information(values, noise_variance * batch))
    assert scaled <= info.gaussian_information(values, noise_variance) * (1 + 1e-12)


@PROPERTY
@given(SPECTRA, NOISE, st.data())
def test_compression_removes_exactly_its_directions(values, noise_variance, data):
    removed = data.draw(st.sets(st.integers(0, values.size - 1)))
    whole = info.gaussian_information(values, noise_variance)
    left = info.compressed_information(values, noise_variance, removed)
    dropped = sum(info.gaussian_information(values[[i]], noise_variance) for i in removed)
    assert left <= whole * (1 + 1e-12)
    assert left + dropped == pytest.approx(whole, rel=1e-9, abs=1e-12)


@PROPERTY
@given(SPECTRA, NOISE)
def test_discarded_part_is_bounded(values, noise_variance):
    bound = info.discarded_information(values.size, float(values.sum()), noise_variance)
    assert info.gaussian_information(values, noise_variance) <= bound * (1 + 1e-12) + 1e-300
    flat = np.full(values.size, values.mean())
    assert info.gaussian_information(flat, noise_variance) == pytest.approx(
        bound, rel=1e-12, abs=1e-300
    )


@PROPERTY
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_data_processing(seed, kept):
    """A linear map of the release never tells more than the release."""
    rng = np.random.default_rng(seed)
    covariance, noise_variance = random_covariance(5, 5, seed), 0.5
    mapped = rng.standard_normal((kept, 5))
    noise = noise_variance * mapped @ mapped.T
    ratio = np.linalg.solve(noise, mapped @ covariance @ mapped.T)
    after = 0.5 * np.linalg.slogdet(np.eye(kept) + ratio)[1]
    values = np.linalg.eigvalsh(covariance)
    assert after <= info.gaussian_information(values, noise_variance) * (1 + 1e-7)


def test_entropy_and_error_floor():
    values = np.array([2.0, 8.0])
    from scipy.stats import multivariate_normal

    entropy = info.gaussian_entropy(values)
    assert entropy == pytest.approx(multivariate_normal(cov=np.diag(values)).entropy())
    assert info.error_floor(entropy, 2, 0.0) == pytest.approx(4.0)  # the geometric mean
    assert info.error_floor(entropy, 2, math.log(2)) == pytest.approx(2.0)
    assert info.gaussian_entropy([1.0, 0.0]) == -math.inf
    assert info.error_floor(-math.inf, 2, 1.0) == 0
    assert info.error_floor(entropy, 2, math.inf) == 0


def test_error_floor_holds_for_the_best_estimator():
    """For a white Gaussian it is attained by the conditional mean."""
    variance, noise_variance = 3.0, 0.7
    nats = info.gaussian_information([variance] * 4, noise_variance)
    floor = info.error_floor(info.gaussian_entropy([variance] * 4), 4, nats)
    assert floor == pytest.approx(variance * noise_variance / (variance + noise_variance))


@PROPERTY
@given(st.integers(1, 512), st.floats(0.1, 10), st.floats(1e-2, 1e2), st.integers(1, 50))
def test_dp_information_bounds_theorem_2(batch, norm, noise_variance, dim):
    """Clipped gradients have trace at most S²; a sum of B of them B times that."""
    bound = info.dp_information(batch, norm, noise_variance)
    exact = info.gaussian_information(np.full(dim, batch * norm**2 / dim), noise_variance)
    assert exact <= bound * (1 + 1e-12)


def test_dp_information_is_tight_in_high_dimension():
    exact = info.gaussian_information(np.full(10**6, 64 / 10**6), 2.0)
    assert info.dp_information(64, 1.0, 2.0) == 16.0
    assert exact == pytest.approx(16.0, rel=1e-4)


def test_dp_information_from_epsilon():
    epsilon, delta, batch = 0.5, 1e-5, 64
    noise_variance = 2 * 3.0**2 * math.log(1.25 / delta) / epsilon**2
    direct = info.dp_information(batch, 3.0, noise_variance)
    assert info.dp_information_from_epsilon(batch, epsilon, delta) == pytest.approx(direct)
    assert info.dp_information_from_epsilon(
        batch, epsilon, delta, sensitivity=3.0, noise_variance=noise_variance
    ) == pytest.approx(direct)
    with pytest.raises(ValueError, match="an accountant calibrated it"):
        info.dp_information_from_epsilon(
            batch, epsilon, delta, sensitivity=3.0, noise_variance=0.9 * noise_variance
        )
    with pytest.raises(ValueError, match="epsilon must be at most 1"):
        info.dp_information_from_epsilon(batch, 1.5, delta)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: info.gaussian_information([1.0], 0.0), "noise_variance"),
        (lambda: info.gaussian_information([1.0], math.nan), "noise_variance"),
        (lambda: info.gaussian_information([1.0], "1"), "noise_variance"),
        (lambda: info.gaussian_information([1.0, 2.0], [1.0, 2.0, 3.0]), "noise_variance"),
        (lambda: info.reuse_information([1.0], 1.0, -1), "uses"),
        (lambda: info.batch_information([1.0], 1.0, 0), "batch_size"),
        (lambda: info.compressed_information([1.0], 1.0, [1]), "removed"),
        (lambda: info.compressed_information([1.0], 1.0, [-1]), "removed"),
        (lambda: info.discarded_information(0, 1.0, 1.0), "trace"),
        (lambda: info.discarded_information(3, -1.0, 1.0), "trace"),
        (lambda: info.dp_information(0, 1.0, 1.0), "batch_size"),
        (lambda: info.dp_information(1, 1.0, 0.0), "noise_variance"),
        (lambda: info.dp_information_from_epsilon(1, 0.5, 0.0), "delta"),
    ],
)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_zero_dimensions_carry_nothing():
    assert info.discarded_information(0, 0.0, 1.0) == 0
    assert info.discarded_information(5, 0.0, 1.0) == 0
