"""The minimum-power channel is the minimum: against SLSQP, and against the other channels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from recondite.channels import (
    MinimumPowerChannel,
    NaturalChannel,
    PersonalizedChannel,
    Spectrum,
    WhiteChannel,
)


@pytest.mark.parametrize("capacity", [0.2, 2.0, 8.0])
@pytest.mark.parametrize("values", [[5.0, 1.0, 0.2], [100.0, 1.0, 0.5, 0.01], [1.0, 1.0]])
def test_against_slsqp(values, capacity):
    values = np.array(values)
    channel = MinimumPowerChannel.from_spectrum(Spectrum.from_covariance(np.diag(values)), capacity)

    def nats(logs):
        return 0.5 * np.sum(np.log1p(values * np.exp(-logs)))

    start = np.log(NaturalChannel.from_spectrum(channel.spectrum, capacity).noise_variance)
    found = minimize(
        lambda logs: np.exp(logs).sum(),
        np.full(values.size, start),
        constraints={"type": "eq", "fun": lambda logs: nats(logs) - capacity},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success
    assert channel.noise.power == pytest.approx(found.fun, rel=1e-6)
    np.testing.assert_allclose(channel.noise.along, np.exp(found.x), rtol=1e-3)


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=10),
    st.floats(0.05, 30),
)
@settings(deadline=None, max_examples=60)
def test_least_power_of_all_channels(values, capacity):
    spectrum = Spectrum.from_covariance(np.diag(values))
    least = MinimumPowerChannel.from_spectrum(spectrum, capacity).noise.power
    slack = 1 + 1e-9
    assert least <= NaturalChannel.from_spectrum(spectrum, capacity).noise.power * slack
    assert least <= WhiteChannel.from_spectrum(spectrum, capacity).noise.power * slack
    beta = np.sqrt(values)
    personalized = PersonalizedChannel.from_spectrum(spectrum, capacity, beta=beta)
    assert least <= personalized.noise.power * slack


def test_stationarity():
    values = np.array([50.0, 3.0, 0.1])
    channel = MinimumPowerChannel.from_spectrum(Spectrum.from_covariance(np.diag(values)), 2.5)
    variances = channel.noise.along
    multipliers = 2 * variances * (values + variances) / values
    np.testing.assert_allclose(multipliers, multipliers[0], rtol=1e-10)


def test_limits_of_the_formula():
    """Near the natural channel for little noise, like √λ for much."""
    values = np.array([50.0, 3.0, 0.1])
    spectrum = Spectrum.from_covariance(np.diag(values))
    little = MinimumPowerChannel.from_spectrum(spectrum, 30.0).noise.along
    np.testing.assert_allclose(little, little[0], rtol=1e-4)
    much = MinimumPowerChannel.from_spectrum(spectrum, 1e-4).noise.along
    np.testing.assert_allclose(much / np.sqrt(values), (much / np.sqrt(values))[0], rtol=1e-2)


def test_low_rank_path_equals_the_exact_path():
    data = np.random.default_rng(0).standard_normal((9, 25))
    exact = MinimumPowerChannel.fit(data, 6.0, method="covariance")
    gram = MinimumPowerChannel.fit(data, 6.0)
    np.testing.assert_allclose(
        gram.noise.covariance(), exact.noise.covariance(), atol=1e-8 * exact.noise.power
    )


def test_singular_directions_get_noise():
    spectrum = Spectrum.from_covariance(np.diag([4.0, 2.0, 0.0]))
    channel = MinimumPowerChannel.from_spectrum(spectrum, 3.0, floor=1e-4)
    assert channel.noise.along.min() > 0
    assert np.linalg.eigvalsh(channel.noise.covariance()).min() > 0
