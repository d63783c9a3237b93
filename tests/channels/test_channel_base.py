"""What every channel owes: its capacity, its totals, its noise, its honesty."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recondite.channels import NaturalChannel, Spectrum, WhiteChannel
from recondite.channels.base import LIMITS

FAST = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("capacity", [1e-9, 1e-3, 0.5, 3.0, 40.0, 300.0])
def test_capacity_is_met_and_never_exceeded(name, spectrum, build, capacity):
    channel = build(name, spectrum, capacity)
    assert channel.requested == capacity
    assert capacity * (1 - 1e-9) <= channel.capacity_nats <= capacity
    assert channel.noise_std_range[0] > 0


@given(
    st.lists(st.floats(0, 1e8), min_size=1, max_size=20).filter(lambda v: max(v) > 1e-8),
    st.floats(1e-6, 60),
)
@settings(deadline=None, max_examples=100)
def test_capacity_for_any_spectrum(values, capacity):
    spectrum = Spectrum.from_eigenvalues(values)
    for kind in (NaturalChannel, WhiteChannel):
        channel = kind.from_spectrum(spectrum, capacity)
        assert capacity * (1 - 1e-9) <= channel.capacity_nats <= capacity


def test_capacity_is_the_log_determinant(name, kind, build, build_spectrum):
    """slogdet of the real covariances: equal on the exact path, a bound on the others."""
    spectrum = build_spectrum(kind)
    channel = build(name, spectrum, 3.0)
    covariance, noise = spectrum.covariance(), channel.noise.covariance()
    exact = 0.5 * np.linalg.slogdet(np.eye(6) + np.linalg.solve(noise, covariance))[1]
    assert exact <= channel.capacity_nats * (1 + 1e-6)
    if name in ("natural", "personalized") and kind != "sketch":
        assert exact == pytest.approx(3.0, rel=1e-6)
    if kind == "exact" and name != "paper":
        assert exact == pytest.approx(3.0, rel=1e-6)


def test_reuse_is_the_log_determinant(name, build, build_spectrum):
    spectrum = build_spectrum("exact")
    channel = build(name, spectrum, 3.0)
    covariance, noise = spectrum.covariance(), channel.noise.covariance()
    exact = 0.5 * np.linalg.slogdet(np.eye(6) + 7 * np.linalg.solve(noise, covariance))[1]
    assert channel.information(7, "per_step") == pytest.approx(exact, rel=1e-6)


@FAST
@given(uses=st.integers(1, 10**6))
def test_totals(channel, uses):
    assert channel.information(uses) == channel.capacity_nats
    total = channel.information(uses, "per_step")
    assert total <= uses * channel.capacity_nats
    assert total <= channel.information(uses + 1, "per_step")
    if getattr(channel, "solver", "exact") == "exact":
        assert total >= channel.capacity_nats * (1 - 1e-12)


def test_no_use_tells_nothing(channel):
    assert channel.information(0) == channel.information(0, "per_step") == 0


def test_more_capacity_is_less_noise(name, spectrum, build):
    powers = [build(name, spectrum, capacity).noise.power for capacity in (0.5, 1, 2, 4, 8, 16)]
    assert all(later < earlier for earlier, later in itertools.pairwise(powers))


def test_noise_covariance_agrees_with_its_range_and_power(channel):
    values = np.linalg.eigvalsh(channel.noise.covariance())
    low, high = channel.noise_std_range
    assert low == pytest.approx(math.sqrt(values[0]), rel=1e-4)
    assert high == pytest.approx(math.sqrt(values[-1]), rel=1e-9)
    assert channel.noise.power == pytest.approx(values.sum(), rel=1e-9)


def test_linear_mmse_is_the_error_of_the_best_linear_estimator(name, kind, build, build_spectrum):
    spectrum = build_spectrum(kind)
    channel = build(name, spectrum, 3.0)
    covariance, noise = spectrum.covariance(), channel.noise.covariance()
    gain = covariance @ np.linalg.inv(covariance + noise)
    exact = np.trace(covariance - gain @ covariance) / 6
    estimate = channel.error_floor["linear_mmse"]
    # A sketch knows its complement by bounds only: below the truth, not far from it.
    tolerance = 0.2 if kind == "sketch" else 1e-6
    assert estimate == pytest.approx(exact, rel=tolerance)


def test_theorem_1_estimate(channel, kind, spectrum):
    floor = channel.error_floor["theorem_1"]
    if kind == "exact":
        mean = math.exp(np.mean(np.log(spectrum.eigenvalues)))
        assert floor == pytest.approx(mean * math.exp(-2 * channel.capacity_nats / 6))
        assert floor <= channel.error_floor["linear_mmse"] * (1 + 1e-9)
    assert 0 <= floor <= channel.error_floor["linear_mmse"] * (1 + 1e-9)


def test_per_dimension_and_per_record(channel, spectrum):
    assert channel.capacity_per_dimension == channel.capacity_nats / 6
    if spectrum.records is None:
        assert channel.capacity_over_log_records is None
    else:
        expected = channel.capacity_nats / math.log(spectrum.records)
        assert channel.capacity_over_log_records == expected


def test_local_gaussian_is_the_worst_direction(channel):
    """The worst pair at distance 2 has Mahalanobis distance 1/multiplier."""
    multiplier = channel.local_gaussian(2.0)
    values, vectors = np.linalg.eigh(channel.noise.covariance())
    pair = 2.0 * vectors[:, 0]
    distance = math.sqrt(pair @ np.linalg.solve(channel.noise.covariance(), pair))
    assert distance == pytest.approx(1 / multiplier, rel=1e-4)
    assert multiplier == pytest.approx(math.sqrt(values[0]) / 2, rel=1e-4)


def test_summary_is_json(channel, name):
    summary = json.loads(json.dumps(channel.summary(), allow_nan=False))
    assert summary["channel"] == ("personalized" if name == "paper" else name)
    assert summary["capacity_nats"] == channel.capacity_nats
    assert summary["error_floor"]["kind"] == "estimate"
    assert summary["limits"] == list(LIMITS)


def test_limits_speak_of_noise_that_rounding_hides():
    fine = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues([1.0]), 5.0)
    coarse = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues([1.0]), 50.0)
    assert fine.limits == LIMITS
    assert len(coarse.limits) == len(LIMITS) + 1
    assert "resolution of floating point" in coarse.limits[-1]


def test_channels_are_frozen(channel):
    with pytest.raises(AttributeError):
        channel.requested = 1.0


@pytest.mark.parametrize("capacity", [0, -1, math.nan, math.inf, "7", True])
def test_bad_capacity(name, build, build_spectrum, capacity):
    with pytest.raises(ValueError, match="capacity"):
        build(name, build_spectrum("exact"), capacity)


def test_capacity_beyond_floating_point_is_refused(name, build, build_spectrum):
    with pytest.raises(ValueError, match="capacity is out of reach"):
        build(name, build_spectrum("singular"), 1e5)


def test_constant_data_is_refused(name, build):
    with pytest.raises(ValueError, match="no variance"):
        build(name, Spectrum.of(np.ones((5, 3))), 1.0)


def test_bad_arguments(channel):
    with pytest.raises(ValueError, match="uses"):
        channel.information(-1)
    with pytest.raises(ValueError, match="noise"):
        channel.information(1, "twice")
    with pytest.raises(ValueError, match="diameter"):
        channel.local_gaussian(0)
