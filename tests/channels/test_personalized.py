"""The personalized channel: exact by rescaling, and the paper's bound beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from recondite.channels import NaturalChannel, PersonalizedChannel, Spectrum
from recondite.channels.personalized import _paper_bound


def covariance(dim=5, rank=None, seed=0):
    factor = np.random.default_rng(seed).standard_normal((dim, rank or dim))
    return factor @ factor.T


@given(st.integers(0, 1000), st.floats(0.05, 30))
@settings(deadline=None, max_examples=40)
def test_exact_solver_meets_the_log_determinant(seed, capacity):
    matrix = covariance(seed=seed)
    beta = np.random.default_rng(seed).uniform(0.1, 50, 5)
    channel = PersonalizedChannel.from_spectrum(
        Spectrum.from_covariance(matrix), capacity, beta=beta
    )

    def excess(log_variance):
        noise = math.exp(log_variance) * beta
        return 0.5 * np.linalg.slogdet(np.eye(5) + matrix / noise[:, None])[1] - capacity

    wanted = math.exp(brentq(excess, -60, 40, xtol=1e-12))
    assert channel.noise_variance == pytest.approx(wanted, rel=1e-6)
    np.testing.assert_allclose(
        channel.noise.covariance(), channel.noise_variance * np.diag(beta), rtol=1e-12
    )


def test_equal_weights_are_the_natural_channel():
    spectrum = Spectrum.from_covariance(covariance())
    natural = NaturalChannel.from_spectrum(spectrum, 3.0)
    for beta in (1.0, np.ones(5), 1):
        channel = PersonalizedChannel.from_spectrum(spectrum, 3.0, beta=beta)
        assert channel.noise_variance == pytest.approx(natural.noise_variance, rel=1e-9)
        assert channel.error_floor == pytest.approx(natural.error_floor, rel=1e-8)


def test_only_the_proportions_of_beta_matter():
    spectrum = Spectrum.from_covariance(covariance())
    beta = np.array([1, 2, 3, 4, 50.0])
    one = PersonalizedChannel.from_spectrum(spectrum, 3.0, beta=beta)
    ten = PersonalizedChannel.from_spectrum(spectrum, 3.0, beta=10 * beta)
    np.testing.assert_allclose(ten.noise.covariance(), one.noise.covariance(), rtol=1e-9)


def test_beta_may_have_the_shape_of_a_record():
    data = np.random.default_rng(0).standard_normal((50, 2, 3))
    beta = np.arange(1.0, 7).reshape(2, 3)
    channel = PersonalizedChannel.fit(data, 2.0, beta=beta)
    flat = PersonalizedChannel.fit(data.reshape(50, 6), 2.0, beta=beta.reshape(-1))
    assert channel.noise_variance == pytest.approx(flat.noise_variance)


@pytest.mark.parametrize("method", ["gram", "sketch"])
def test_low_rank_path_equals_the_exact_path(method):
    data = np.random.default_rng(0).standard_normal((9, 25))
    beta = np.linspace(1, 20, 25)
    exact = PersonalizedChannel.fit(data, 6.0, beta=beta, spectrum_method="covariance")
    other = PersonalizedChannel.fit(data, 6.0, beta=beta, spectrum_method=method)
    assert other.noise_variance == pytest.approx(exact.noise_variance, rel=1e-6)
    assert other.error_floor["linear_mmse"] == pytest.approx(
        exact.error_floor["linear_mmse"], rel=1e-6
    )


def printed_terms(matrix, beta):
    """u_i and k_i of Theorem 3 as printed, by its own recursion."""
    u, k = [matrix[0, 0]], [beta[0]]
    for i in range(1, len(beta)):
        row = np.linalg.solve(matrix[:i, :i], matrix[:i, i])
        u.append(matrix[i, i] - matrix[:i, i] @ row)
        k.append(beta[i] + row @ (beta[:i] * row))
    return np.array(u), np.array(k)


@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=40)
def test_the_papers_bound(seed, variance):
    matrix, beta = covariance(seed=seed), np.random.default_rng(seed).uniform(0.1, 50, 5)
    bound, _ = _paper_bound(matrix, beta)
    u, k = printed_terms(matrix, beta)
    noise = np.log(variance * beta).sum()
    first = np.log(np.diag(matrix) + variance * beta).sum() - noise
    second = np.log(u + variance * k).sum() - noise
    assert bound(variance) == pytest.approx(0.5 * min(first, second), rel=1e-6, abs=1e-9)
    exact = 0.5 * np.linalg.slogdet(np.eye(5) + matrix / (variance * beta)[:, None])[1]
    assert exact <= bound(variance) * (1 + 1e-7)


@pytest.mark.parametrize("rank", [5, 2])
@pytest.mark.parametrize("capacity", [0.1, 3.0, 20.0])
def test_the_papers_method_adds_more_noise(rank, capacity):
    spectrum = Spectrum.from_covariance(covariance(rank=rank))
    beta = np.array([1, 1, 1, 50, 50.0])
    exact = PersonalizedChannel.from_spectrum(spectrum, capacity, beta=beta)
    paper = PersonalizedChannel.from_spectrum(spectrum, capacity, beta=beta, method="paper")
    assert paper.noise_variance >= exact.noise_variance * (1 - 1e-9)
    assert paper.exact_nats <= paper.capacity_nats <= capacity
    assert exact.exact_nats == exact.capacity_nats
    # Fresh noise is counted by the exact formula, so its total may lie below the paper's bound.
    assert paper.information(1, "per_step") == pytest.approx(paper.exact_nats)


@pytest.mark.parametrize(
    ("beta", "reason"),
    [
        ([1, 2, 3], "one weight for each of 5 features"),
        ([1, 2, 3, 4, 0], "above 0"),
        ([1, 2, 3, 4, -1], "above 0"),
        ([1, 2, 3, 4, math.nan], "finite"),
        (["a"] * 5, "real numbers"),
    ],
)
def test_bad_beta(beta, reason):
    with pytest.raises(ValueError, match=reason):
        PersonalizedChannel.from_spectrum(Spectrum.from_covariance(covariance()), 1.0, beta=beta)


def test_bad_method():
    with pytest.raises(ValueError, match="method"):
        PersonalizedChannel.from_spectrum(
            Spectrum.from_covariance(covariance()), 1.0, beta=1.0, method="guess"
        )
