"""Noise so weak that it protects nothing: numbers grow, and no bound falls below the truth."""

import math
import warnings

import numpy as np
import pytest

import recondite as rc
from recondite.accounting.distribution import discounted_tail
from recondite.laws.pair import connect_the_dots

RATE = 64 / 1437


def mechanism(name: str, strength: float):
    if name == "vmf":
        return rc.VonMisesFisher(kappa=strength, dim=2570)
    return rc.Gaussian(noise_multiplier=1 / strength, dim=100, batch_size=64, max_batch_size=99)


@pytest.mark.parametrize("name", ["vmf", "gaussian"])
def test_reconstruction_is_never_below_what_participation_alone_gives(name):
    # Noise-free, a record that took part once in n batches is laid bare.
    for steps in (1, 23):
        never = (1 - RATE) ** steps
        bounds = []
        for strength in (1e4, 1e6):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                run = rc.account(mechanism(name, strength), rc.Poisson(RATE, steps), 1 / 1437)
            bounds.append(run.rero["bound"])
            assert run.epsilon["rdp"] >= run.epsilon["pld"] * (1 - 1e-6)
        assert bounds[0] >= 1 - never * 0.9 - 1e-3
        assert bounds[1] >= bounds[0] - 1e-4  # grids differ


def test_a_coarse_grid_keeps_every_mass():
    losses = np.array([-0.0455, 0.3, 49.9])
    log_q = np.log([0.6, 0.3, 0.1])
    pair = connect_the_dots(losses, log_q + losses, log_q, 900.0)
    assert pair.q.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.isfinite(pair.p).all()
    assert pair.p[:2].sum() + pair.p[2:].sum() == pytest.approx(np.exp(log_q + losses).sum())


def test_tails_of_coarse_grids_follow_the_recursion():
    masses = np.random.default_rng(0).random(500)
    found = discounted_tail(masses, 20.0)
    expected = masses.copy()
    for index in range(len(masses) - 2, -1, -1):
        expected[index] += math.exp(-20.0) * expected[index + 1]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
