"""ε of noise on directions, in blocks and a record, against quadrature over the cosine.

No law or grid of the package is used on the expected side: VMF(v, κ) against VMF(-v, κ) has the
loss 2κ times the cosine t with v, whose density is (1 - t²)^((p-3)/2)·e^(κt), normalised. Every
check has both sides: a value that is too small claims too much, one that is too large hides it.
"""

import math
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import fft, integrate, optimize

import recondite as rc
from recondite import accounting

DIMS, KAPPAS, DELTAS = (3, 10, 50), (1.0, 5.0, 20.0), (1e-2, 1e-5)
ONCE = (rc.Shuffled(1, 10, 10), rc.FixedSize(10, 10, 1), rc.Poisson(1.0, 1))
# The table of docs/howto/train.md: 4,000 records in batches of 128, the layers of its model.
LAYERS, RATE, STEPS, DELTA = (256 * 50, 50 * 15, 15 * 10), 128 / 4_000, 32, 1 / 4_000


def assert_tight(value, exact):
    """Never below the exact ε (but for the oracle's own error), at most 1% above it."""
    assert exact * (1 - 1e-4) <= value <= exact * 1.01


@cache
def antipodal_epsilon(dim, kappa, delta):
    """ε(δ) of one antipodal pair by adaptive quadrature of its hockey-stick divergence."""

    def density(t):
        return (1 - t * t) ** ((dim - 3) / 2) * math.exp(kappa * (t - 1))

    def excess(epsilon):
        low = epsilon / (2 * kappa)
        part = integrate.quad(
            lambda t: -density(t) * math.expm1(epsilon - 2 * kappa * t), low, 1, epsabs=0, limit=200
        )
        return part[0] / whole - delta

    whole = integrate.quad(density, -1, 1, epsabs=0, limit=200)[0]
    return optimize.brentq(excess, 0, 2 * kappa * (1 - 1e-12), rtol=1e-12)


def loss_masses(dim, kappa, step):
    """Midpoint masses of the loss under VMF(v), on the cells of width ``step`` of ±2κ."""
    count = round(2 * kappa / step)
    losses = step * (np.arange(-count, count) + 0.5)
    logs = losses / 2 + (dim - 3) / 2 * np.log1p(-((losses / (2 * kappa)) ** 2))
    masses = np.exp(logs - logs.max())
    return masses / masses.sum()


def product_masses(blocks, step):
    """Losses of independent blocks add: their masses are convolved."""
    parts = [loss_masses(dim, kappa, step) for dim, kappa in blocks]
    size = sum(len(part) for part in parts) - len(parts) + 1
    spectrum = np.prod([fft.rfft(part, size) for part in parts], axis=0)
    masses = np.maximum(fft.irfft(spectrum, size), 0)
    return step * (np.arange(size) - (size - 1) / 2), masses


def grid_epsilon(losses, masses, delta):
    """ε(δ) of losses on a grid with masses of P."""

    def excess(epsilon):
        above = losses > epsilon
        return -(masses[above] * np.expm1(epsilon - losses[above])).sum() - delta

    return optimize.brentq(excess, 0, losses[-1], rtol=1e-12)


def sampled_epsilon(blocks, rate, steps, delta, step):
    """ε(δ) of ``steps`` releases, each with chance ``rate`` of holding the record.

    P is the sampled side: the direction that is larger here.
    """
    losses, ours = product_masses(blocks, step)
    theirs = ours[::-1]  # the loss under VMF(-v) is the mirror image
    mixed = np.logaddexp(math.log1p(-rate), math.log(rate) + losses)
    masses = (1 - rate) * theirs + rate * ours
    # Each mass is shared between its two neighbours on the grid, which keeps the mean.
    low = math.floor(mixed[0] / step)
    cells = mixed / step - low
    left = np.floor(cells).astype(int)
    grid = np.zeros(left[-1] + 2)
    np.add.at(grid, left, masses * (1 - (cells - left)))
    np.add.at(grid, left + 1, masses * (cells - left))
    size = steps * (len(grid) - 1) + 1
    total = np.maximum(fft.irfft(fft.rfft(grid, fft.next_fast_len(size)) ** steps), 0)[:size]
    return grid_epsilon(step * (steps * low + np.arange(len(total))), total, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("dim", DIMS)
def test_one_participation_costs_the_antipodal_pair(dim, kappa, delta):
    exact = antipodal_epsilon(dim, kappa, delta)
    assert 0 < exact < 2 * kappa
    for schedule in ONCE:
        assert_tight(rc.epsilon(rc.Directional(kappa, dim), schedule, delta), exact)
        single = rc.PartitionedVonMisesFisher(kappa, dim, blocks=1)
        assert_tight(rc.epsilon(single, schedule, delta), exact)
    # The inverse: the same curve read the other way.
    assert rc.delta(rc.Directional(kappa, dim), ONCE[0], exact) == pytest.approx(delta, rel=0.01)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("kappa", KAPPAS)
def test_in_three_dimensions_epsilon_has_a_closed_form(kappa, delta):
    """There t is a truncated exponential: δ = (e^κ - e^(ε/2))² / (e^(2κ) - 1)."""
    exact = 2 * math.log(math.exp(kappa) - math.sqrt(delta * math.expm1(2 * kappa)))
    assert antipodal_epsilon(3, kappa, delta) == pytest.approx(exact, rel=1e-8)
    result = rc.account(rc.Directional(kappa, 3), rc.FixedSize(10, 10, 1), delta)
    assert_tight(result.epsilon["pld"], exact)
    assert exact <= result.epsilon["rdp"] <= 2 * kappa * (1 + 1e-12)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize(("dim", "blocks"), [(6, 2), (20, 2), (9, 3), (30, 3)])
def test_losses_of_blocks_add(dim, blocks, kappa, delta):
    factors = [(dim // blocks, kappa)] * blocks
    exact = grid_epsilon(*product_masses(factors, kappa / 2_000), delta)
    for mechanism in (
        rc.Directional(kappa, dim, blocks=blocks),
        rc.PartitionedVonMisesFisher(kappa, dim, blocks=blocks),
    ):
        assert_tight(rc.epsilon(mechanism, ONCE[0], delta), exact)


@pytest.mark.parametrize("delta", DELTAS)
def test_blocks_have_their_own_size_and_concentration(delta):
    mechanism = rc.PartitionedVonMisesFisher((1.0, 5.0, 2.0), 60, blocks=(3, 50, 7))
    factors = [(3, 1.0), (50, 5.0), (7, 2.0)]
    exact = grid_epsilon(*product_masses(factors, 1e-3), delta)
    assert_tight(rc.epsilon(mechanism, ONCE[2], delta), exact)


@pytest.mark.parametrize("steps", [2, 5])
def test_participations_add_like_blocks(steps):
    exact = grid_epsilon(*product_masses([(10, 2.0)] * steps, 1e-3), 1e-5)
    for schedule in (rc.Shuffled(steps, 10, 100), rc.FixedSize(10, 10, steps)):
        assert_tight(rc.epsilon(rc.Directional(2.0, 10), schedule, 1e-5), exact)


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_pure_epsilon_is_two_kappa_a_block(kappa, blocks):
    for kind in (rc.Directional, rc.PartitionedVonMisesFisher):
        mechanism = kind(kappa, 30, blocks=blocks)
        result = rc.account(mechanism, ONCE[1], 1e-5)
        assert result.epsilon["pure"] == pytest.approx(2 * kappa * blocks, rel=1e-12)
        assert mechanism.metric_privacy().per_record == pytest.approx(2 * kappa * blocks)
    # It is reached: as δ goes to nothing in three dimensions, the closed form goes to 2κ.
    assert rc.epsilon(rc.Directional(kappa, 3), ONCE[1], 1e-20) == pytest.approx(2 * kappa)


@pytest.mark.parametrize("kind", [rc.Directional, rc.PartitionedVonMisesFisher])
def test_epsilon_grows_with_kappa_steps_and_blocks(kind):
    def epsilon(kappa=2.0, blocks=2, steps=3):
        return rc.epsilon(kind(kappa, 60, blocks=blocks), rc.FixedSize(10, 100, steps), 1e-5)

    for name, values in {
        "kappa": (0.5, 1.0, 2.0, 4.0),
        "blocks": (1, 2, 3, 6),
        "steps": (1, 2, 4, 8),
    }.items():
        series = [epsilon(**{name: value}) for value in values]
        assert all(less < 0.99 * more for less, more in pairwise(series))


def test_the_directional_row_of_the_guide():
    value = rc.epsilon(rc.Directional(75, sum(LAYERS)), rc.FixedSize(128, 4_000, STEPS), DELTA)
    assert value == pytest.approx(2.041, abs=5e-4)


def test_the_partitioned_row_of_the_guide():
    mechanism = rc.PartitionedVonMisesFisher(75, sum(LAYERS), blocks=LAYERS)
    value = rc.epsilon(mechanism, rc.Poisson(RATE, STEPS), DELTA)
    assert value == pytest.approx(448.0, abs=0.5)
    assert_tight(value, sampled_epsilon([(p, 75.0) for p in LAYERS], RATE, STEPS, DELTA, 0.05))


@pytest.mark.parametrize(("dim", "blocks"), [(3, 1), (10, 1), (50, 1), (30, 3)])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_capacity_and_information_of_one_release(dim, blocks, kappa):
    """The largest density against the uniform law, and the mean of its log, by quadrature."""
    power = mpmath.mpf(dim // blocks - 3) / 2

    def integral(weight):
        return mpmath.quad(lambda t: (1 - t * t) ** power * weight(t), [-1, 0, 1])

    with mpmath.workdps(30):
        flat = integral(lambda t: 1)
        tilted = integral(lambda t: mpmath.exp(kappa * t))
        mean = integral(lambda t: t * mpmath.exp(kappa * t)) / tilted
        capacity = float(blocks * (kappa + mpmath.log(flat / tilted)))
        information = float(blocks * (kappa * mean + mpmath.log(flat / tilted)))
    for kind in (rc.Directional, rc.PartitionedVonMisesFisher):
        result = rc.account(kind(kappa, dim, blocks=blocks), ONCE[0], 1e-5)
        for notion in ("per_release", "run"):
            assert result.log_bayes_capacity[notion] == pytest.approx(capacity, rel=1e-10)
            assert result.mutual_information[notion] == pytest.approx(information, rel=1e-9)


@pytest.mark.parametrize("kappa", [0.5, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-4, 1e-6])
def test_the_bracket_holds_the_closed_form(kappa, delta):
    """In three dimensions, where much mass lies at the largest loss: both ends, within 0.2%."""
    root = math.exp(kappa) - math.sqrt(delta * math.expm1(2 * kappa))
    exact = 2 * math.log(root)
    lower, upper = accounting.epsilon_bracket(rc.Directional(kappa, 3), rc.Poisson(1.0, 1), delta)
    assert lower <= exact * (1 + 1e-9) <= upper * (1 + 2e-9)
    assert upper <= exact * 1.002
