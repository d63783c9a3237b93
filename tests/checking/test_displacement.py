"""The bounds hold as often as they say, and come near."""

import numpy as np
import pytest

from recondite.checking.claim import allowed
from recondite.checking.displacement import displacement, equal_spread, repeats, would_notice
from recondite.mechanisms import Gaussian, PartitionedVonMisesFisher, VonMisesFisher

rng = np.random.default_rng(5)


def test_the_lower_bound_is_rarely_above_the_truth_and_near_it():
    wrong, lows = 0, []
    for _ in range(2000):
        first, second = rng.standard_normal((2, 100))
        found = displacement(3.0 * (first + 0.8), 3.0 * second, 0.05)
        wrong += found.low > 0.8
        lows.append(found.low)
        assert found.low < found.estimate
    assert wrong < 2000 * 0.05  # a sum of two bounds: far fewer in fact
    assert np.mean(lows) > 0.35
    assert displacement(np.ones(5), np.zeros(5), 0.01).low == np.inf
    assert displacement(np.ones(5), np.ones(5), 0.01).low == 0.0


def test_what_would_be_noticed_is_noticed_about_half_the_time():
    limit, count, miss = 2.0, 200, 1e-3
    share = would_notice(limit, count, miss)
    seen = 0
    for _ in range(400):
        first, second = rng.standard_normal((2, count))
        seen += displacement(first + limit / share, second, miss).low > limit
    assert 100 < seen < 300


def test_spreads_that_differ_are_told_apart():
    one, two = rng.standard_normal((2, 500))
    assert equal_spread(one, two, 1e-4)[0]
    equal, ratio = equal_spread(2 * one, two, 1e-4)
    assert not equal
    assert ratio == pytest.approx(2, rel=0.2)
    assert equal_spread(np.ones(5), np.ones(5), 1e-4) == (True, 1.0)
    assert not equal_spread(np.ones(5), rng.standard_normal(5), 1e-4)[0]


def test_repeated_noise_is_found_whatever_is_added_to_it():
    noise, other = rng.standard_normal((2, 24, 6))
    assert repeats(noise, noise + 5.0, 1e-4) == (True, pytest.approx(1.0))
    assert not repeats(noise, other, 1e-4)[0]
    assert repeats(np.zeros((24, 6)), other, 1e-4) == (False, 0.0)


def test_a_release_without_scale_moves_no_further_than_to_its_opposite():
    assert allowed(Gaussian(2.0, dim=5), 3, rng) == 1.5
    kappa, dim = 8.0, 400
    limit = allowed(VonMisesFisher(kappa, dim=dim), 1, rng)
    # Far below p: a displacement of 2κ/√p.
    assert 2 * kappa / dim**0.5 < limit < 1.15 * 2 * kappa / dim**0.5
    parts = PartitionedVonMisesFisher((8.0, 2.0), blocks=(400, 100), dim=500)
    both = np.hypot(2 * 8.0 / 20, 2 * 2.0 / 10)
    assert both < allowed(parts, 1, rng) < 1.15 * both
