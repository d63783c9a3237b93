"""Settings at the edge of floating point: a sound number or one line, never a hang."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import recondite as rc
from recondite.accounting import pld
from recondite.leakage.rero import rero
from recondite.mechanisms.blocks import block_sizes
from recondite.numerics.bessel import bessel_ratio


def test_rero_at_a_rate_whose_loss_vanishes():
    # The Rényi divergence is 0 in floating point, and so was the interval of the grid.
    run = rc.Poisson(1e-12, 1)
    bound = rero(run.composition(rc.Gaussian(1.0)), 1e-9)
    assert 1e-9 <= bound <= 1.001e-9


def test_more_steps_than_a_window_holds():
    run = rc.Poisson(0.01, 10**12).composition(rc.Gaussian(1.0))
    assert rero(run, 0.1) == 1.0
    assert rc.epsilon(rc.Gaussian(1.0), rc.Poisson(0.01, 10**12), delta=1e-5) > 1e6


def test_noise_too_weak_to_integrate_counts_as_none():
    # The tilt is far out, the divergence of the unsampled law stands: α·μ²/2 at α near 1.
    run = rc.Poisson(0.01, 10)
    assert 1e23 < rc.epsilon(rc.Gaussian(1e-12), run, delta=1e-5) < 1e26
    assert rero(run.composition(rc.Gaussian(1e-12)), 0.1) < 0.2  # it takes part with 0.0957
    # Without noise δ is the probability of taking part, and so it is with next to none.
    assert rc.epsilon(rc.Gaussian(1e-12), run, delta=0.0957) < 1e-9


def test_a_target_that_holds_without_noise():
    with pytest.raises(ValueError, match="met by any amount of noise"):
        rc.calibrate(rc.Gaussian(1.0), 0.5, "epsilon", rc.Poisson(0.01, 10), delta=0.1)


def test_a_tiny_epsilon_at_a_large_delta():
    epsilon = rc.epsilon(rc.Gaussian(1.0), rc.Poisson(0.001, 2), delta=5e-4)
    # Both directions by quadrature over the two releases' outcomes without the record.
    x = np.linspace(-9.0, 10.0, 3801)
    weights = np.exp(-0.5 * x * x) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    ratio = 1.0 + 0.001 * np.expm1(x - 0.5)
    both = np.multiply.outer(ratio, ratio)

    def delta(at):
        remove = weights @ np.maximum(both - math.exp(at), 0.0) @ weights
        return max(remove, weights @ np.maximum(1.0 - math.exp(at) * both, 0.0) @ weights)

    assert delta(epsilon) <= 5e-4 < delta(epsilon / 1.001)


@pytest.mark.parametrize(
    ("kappa", "dim", "blocks", "most"),
    [
        (5000.0, 6, (2, 2, 2), 360_100),
        (5000.0, 302, (2, 300), 236_700),
        (500.0, 13_700, 100, 1_049_400),
        (50.0, 13_700, 1000, 1_057_600),
    ],
)
def test_strong_losses_in_many_blocks(kappa, dim, blocks, most):
    # 0.1.0 took minutes or refused. A record takes part k times with the binomial law, and then
    # loses at least the mean loss of k releases, less a few standard deviations.
    mechanism = rc.PartitionedVonMisesFisher(kappa, dim=dim, blocks=blocks)
    run = rc.Poisson(128 / 60_000, 1_407)
    epsilon = rc.epsilon(mechanism, run, delta=1 / 60_000)
    sizes = blocks if isinstance(blocks, tuple) else block_sizes(dim, blocks)
    mean = sum(2 * kappa * float(bessel_ratio(size / 2 - 1, kappa)) for size in sizes)
    often = int(binom.isf(2 / 60_000, run.steps, run.rate))
    assert 0.97 * often * mean < epsilon < most


def test_an_epsilon_of_billions_is_computed_on_a_coarse_grid(monkeypatch):
    # Four million cells took ten seconds; a million are enough for four digits.
    cells = []

    def counted(*given, **options):
        cells.append(len((found := composed(*given, **options)).losses))
        return found

    composed = pld.compose_pairs
    monkeypatch.setattr(pld, "compose_pairs", counted)
    run = rc.Poisson(9 / 99, 22)
    found = rc.epsilon(rc.Directional(1e9, 50), run, delta=0.01)
    often = int(binom.isf(0.01, run.steps, run.rate))  # releases of it, a loss of 2κ each
    assert 1.0 <= found / (2e9 * often) < 1.0001
    assert 0 < max(cells) <= 1.01 * 2**20


@pytest.mark.parametrize(
    ("mechanism", "least"),
    [
        (rc.PartitionedVonMisesFisher(5000.0, dim=302, blocks=(2, 300)), 58_000.0),
        (rc.PartitionedVonMisesFisher(5000.0, dim=6, blocks=(2, 2, 2)), 89_000.0),
        (rc.VonMisesFisher(1e12, 2), 5.9e12),
        (rc.Gaussian(1e-3), 1.4e6),
        (rc.Gaussian(1e-150), 1e299),
    ],
    ids=["blocks", "pairs", "sphere", "weak", "none"],
)
def test_allocation_that_hides_nothing_has_the_price_of_its_epochs(mechanism, least):
    # Sums of likelihood ratios underflow; the grid for them was divided by their width, 0.
    found = rc.epsilon(mechanism, rc.RandomAllocation(469, 3), 1e-5)
    alone = rc.epsilon(mechanism, rc.Poisson(1.0, 3), 1e-5)
    assert least < found <= alone * (1 + 1e-3)


@pytest.mark.parametrize(
    ("mechanism", "schedule", "delta"),
    [
        (rc.Gaussian(1.0), rc.Poisson(1.0, 10**9), 1e-300),
        (rc.Gaussian(1e-300), rc.Poisson(1.0, 1), 1e-5),
        (rc.VonMisesFisher(1e-300, 2), rc.Poisson(1.0, 10**9), 1e-5),
        (rc.VonMisesFisher(1e12, 10**9), rc.Poisson(0.001, 10**9), 1e-5),
        (rc.VonMisesFisher(1e12, 2), rc.Poisson(1.0, 1), 1e-300),
        (rc.VonMisesFisher(1.0, 10**9), rc.Poisson(1e-12, 10**9), 0.5),
    ],
)
def test_extremes_have_a_bound(mechanism, schedule, delta):
    found = rc.account(mechanism, schedule, delta)
    assert 0 <= found.epsilon["pld"] <= math.inf
    assert 0.1 <= found.rero["bound"] <= 1


@pytest.mark.parametrize("rate", [1e-17, 1e-300])
@pytest.mark.parametrize("mechanism", [rc.VonMisesFisher(1000.0, 2), rc.Gaussian(1 / 30)])
def test_rates_below_the_spacing_of_numbers_near_one_are_not_forgotten(rate, mechanism):
    # One minus such a rate is 1. A record takes part once in a billion steps with the
    # probability 1e9·q, and then loses the mean of one release in half of the cases.
    run = rc.Poisson(rate, 10**9)
    mean = 2 * 1000.0 * 0.9995 if mechanism.name == "vmf" else 0.5 * 30.0**2
    found = rc.epsilon(mechanism, run, delta=1e-3 * rate * 1e9)
    assert mean + math.log(rate) < found < 2 * mean
    assert rc.epsilon(mechanism, run, delta=2 * rate * 1e9) < 1e-6


@pytest.mark.parametrize("group", [1, 3])
def test_next_to_no_noise_at_such_a_rate_counts_as_none(group):
    run = rc.Poisson(1e-17, 10**9)
    protected = 1e-8 * group  # the probability of not taking part at all is one minus this
    assert rc.epsilon(rc.Gaussian(1e-12), run, 0.9 * protected, group_size=group) > 1e20
    assert rc.epsilon(rc.Gaussian(1e-12), run, 1.1 * protected, group_size=group) < 1e-6
    whole = rc.VonMisesFisher(1e12, 2)  # of which a group takes part as one
    assert rc.epsilon(whole, run, 0.9 * protected, group_size=group) > 1e9


def test_reconstruction_at_the_smallest_rate():
    run = rc.Poisson(5e-324, 50)
    assert 0.1 <= rero(run.composition(rc.Gaussian(0.5)), 0.1) < 0.1 + 1e-9
