"""Settings at the edge of floating point: a sound number or one line, never a hang."""

import pytest

import recondite as rc
from recondite.leakage.rero import rero


def test_rero_at_a_rate_whose_loss_vanishes():
    # The Rényi divergence is 0 in floating point, and so was the interval of the grid.
    run = rc.Poisson(1e-12, 1)
    bound = rero(run.composition(rc.Gaussian(1.0)), 1e-9)
    assert 1e-9 <= bound <= 1.001e-9


def test_more_steps_than_a_window_holds():
    run = rc.Poisson(0.01, 10**12).composition(rc.Gaussian(1.0))
    assert rero(run, 0.1) == 1.0
    assert rc.epsilon(rc.Gaussian(1.0), rc.Poisson(0.01, 10**12), delta=1e-5) > 1e6


def test_noise_too_weak_to_integrate_is_one_line():
    with pytest.raises(ValueError, match="take a larger noise multiplier"):
        rc.epsilon(rc.Gaussian(1e-12), rc.Poisson(0.01, 10), delta=1e-5)
