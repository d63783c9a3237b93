"""The white channel: the paper's formula where it applies, a floor where it does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from recondite.channels import Spectrum, WhiteChannel


def test_the_papers_formula():
    values = np.array([222.21, 85.08, 9.91, 0.3])
    channel = WhiteChannel.from_spectrum(Spectrum.from_covariance(np.diag(values)), 8.0)
    np.testing.assert_allclose(channel.noise.along, values / math.expm1(2 * 8 / 4), rtol=1e-10)


def test_noise_has_the_shape_of_the_data():
    data = np.random.default_rng(0).standard_normal((100, 5)) @ np.diag([3, 1, 1, 0.5, 0.2])
    channel = WhiteChannel.fit(data, 4.0)
    ratio = np.linalg.solve(channel.noise.covariance(), channel.spectrum.covariance())
    np.testing.assert_allclose(ratio, np.eye(5) * math.expm1(8 / 5), rtol=1e-8, atol=1e-8)


def test_every_direction_keeps_the_same_share():
    channel = WhiteChannel.from_spectrum(Spectrum.from_covariance(np.diag([5.0, 1.0, 0.1])), 3.0)
    np.testing.assert_allclose(0.5 * np.log1p(channel.ratios), 1.0, rtol=1e-10)


def test_singular_directions_get_the_floor():
    spectrum = Spectrum.from_covariance(np.diag([4.0, 2.0, 0.0]))
    channel = WhiteChannel.from_spectrum(spectrum, 3.0, floor=1e-3)
    assert channel.noise.along[-1] == pytest.approx(1e-3 * 2.0 / math.expm1(2.0))
    # Where the data does not vary it tells nothing: the truth stays below the floored capacity.
    noise = channel.noise.covariance()
    truth = 0.5 * np.linalg.slogdet(np.eye(3) + np.linalg.solve(noise, spectrum.covariance()))[1]
    assert truth == pytest.approx(2.0)
    assert truth < channel.capacity_nats


@pytest.mark.parametrize("floor", [1e-6, 1e-2])
def test_low_rank_path_equals_the_exact_path(floor):
    data = np.random.default_rng(0).standard_normal((9, 25))
    exact = WhiteChannel.fit(data, 6.0, method="covariance", floor=floor)
    gram = WhiteChannel.fit(data, 6.0, floor=floor)
    np.testing.assert_allclose(
        gram.noise.covariance(), exact.noise.covariance(), atol=1e-9 * exact.noise.power
    )
    assert gram.noise_std_range == pytest.approx(exact.noise_std_range, rel=1e-6)


def test_the_complement_of_a_sketch_is_bounded():
    """Every discarded direction, too, keeps at most its share of the capacity."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((200, 30)) * np.linspace(3, 0.2, 30)
    channel = WhiteChannel.fit(data, 6.0, method="sketch", rank=5)
    vectors = channel.spectrum.eigenvectors
    outside = np.eye(30) - vectors @ vectors.T
    largest = np.linalg.eigvalsh(outside @ channel.spectrum.covariance() @ outside)[-1]
    assert 0.5 * math.log1p(largest / channel.noise.variance) <= 6.0 / 30


@pytest.mark.parametrize("floor", [0, -1, math.nan])
def test_bad_floor(floor):
    with pytest.raises(ValueError, match="floor"):
        WhiteChannel.from_spectrum(Spectrum.from_covariance(np.eye(2)), 1.0, floor=floor)
