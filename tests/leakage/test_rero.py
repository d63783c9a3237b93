"""Reconstruction robustness: exact where it can be, sound against every attacker."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import recondite as rc
from recondite.accounting.composition import Composition
from recondite.accounting.pld import compose_pairs
from recondite.laws import GaussianLoss, InfiniteLoss, SphereLoss
from recondite.laws.pair import connect_the_dots
from recondite.leakage.rero import reconstruction_bound, rero


@given(mu=st.floats(0.01, 6.0), prior=st.floats(1e-4, 0.9))
@hypothesis_settings(max_examples=60)
def test_gaussian_equals_the_closed_form(mu, prior):
    exact = float(ndtr(ndtri(prior) + mu))
    bound = rero(Composition.of([(GaussianLoss(mu), 1)]), prior)
    assert exact - 1e-9 <= bound <= exact + 2e-4


@given(steps=st.integers(1, 400), mu=st.floats(0.01, 0.5), prior=st.floats(0.01, 0.5))
@hypothesis_settings(max_examples=30)
def test_composed_gaussian_equals_the_closed_form(steps, mu, prior):
    exact = float(ndtr(ndtri(prior) + mu * math.sqrt(steps)))
    bound = rero(Composition.of([(GaussianLoss(mu), steps)]), prior)
    assert exact - 1e-9 <= bound <= exact + 5e-4


def _curves(p, q):
    """The two composed losses of a finite channel with rows p (with) and q (without)."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    pair = connect_the_dots(log_p - log_q, log_p, log_q, 1e-3)
    return compose_pairs([(pair, 1)]), compose_pairs([(pair.reverse(), 1)])


@given(st.lists(st.floats(0.02, 1.0), min_size=2, max_size=6))
@hypothesis_settings(max_examples=40)
def test_bound_is_attained_by_the_best_guess_on_a_symmetric_channel(weights):
    """Secret z shifts a row by z; without it the outcome is uniform. The best guess wins max(row).

    Blind guessing wins 1/n, so the bound at 1/n must be max(row): neither below nor above it.
    """
    row = np.array(weights) / np.sum(weights)
    size = len(row)
    channel = np.stack([np.roll(row, z) for z in range(size)])
    success = float(channel.max(axis=0).sum() / size)
    bound = reconstruction_bound(1 / size, *_curves(row, np.full(size, 1 / size)))
    assert success - 1e-9 <= bound <= success + 2e-3


def test_the_swapped_pair_is_violated_by_a_toy_channel():
    """Level must be taken under *without*, power under *with*; the other way round is no bound."""
    p, q, prior = np.array([0.5, 0.5]), np.array([0.999, 0.001]), 0.01
    best = max(
        p[list(event)].sum()
        for size in range(3)
        for event in itertools.combinations(range(2), size)
        if q[list(event)].sum() <= prior
    )
    forward, backward = _curves(p, q)
    assert reconstruction_bound(prior, forward, backward) >= best
    assert reconstruction_bound(prior, backward, forward) < best


@given(kappa=st.floats(1.0, 100.0), prior=st.floats(0.01, 0.5), steps=st.integers(1, 50))
@hypothesis_settings(max_examples=20)
def test_bound_grows_with_prior_noise_and_steps_and_stays_a_probability(kappa, prior, steps):
    def bound(kappa=kappa, prior=prior, steps=steps):
        return rero(Composition.of([(SphereLoss(500, kappa).mixture((0.9, 0.1)), steps)]), prior)

    value = bound()
    assert prior <= value <= 1
    assert value <= bound(kappa=1.3 * kappa) + 1e-4
    assert value <= bound(prior=min(0.9, 1.2 * prior)) + 1e-4
    assert value <= bound(steps=steps + 5) + 1e-4


def test_no_release_leaves_the_blind_guess_and_no_noise_gives_everything():
    assert rero(Composition(()), 0.1) == 0.1
    account = rc.account(rc.NoNoise(), rc.Poisson(1.0, 1), 1e-5)
    assert account.rero["bound"] == 1.0
    sampled = rc.account(rc.NoNoise(), rc.Poisson(0.2, 1), 1e-5, prior_success=0.1)
    # In truth 0.2 + 0.8 · 0.1; with a law that stands for both directions 0.2 + 0.1.
    assert 0.28 <= sampled.rero["bound"] <= 0.3 + 1e-12


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, float("nan")])
def test_prior_must_be_a_probability(prior):
    with pytest.raises(ValueError, match="prior"):
        rero(Composition.of([(GaussianLoss(1.0), 1)]), prior)


@pytest.mark.parametrize("releases", [1, 7, 1000])
@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 3.0])
def test_tiny_priors_do_not_drown_in_rounding(mu, releases):
    # At a prior of 1e-24 the bound was 41% below the truth: δ was lost to the transform.
    composition = Composition.of([(GaussianLoss(mu), releases)])
    for prior in (1e-5, 9e-7, 1e-9, 1e-15, 1e-18, 1e-24, 1e-100):
        truth = float(ndtr(ndtri(prior) + mu * math.sqrt(releases)))
        found = rero(composition, prior)
        assert truth * (1 - 1e-9) <= found <= min(1.0, 12.0 * truth)


def test_tiny_priors_of_odd_releases():
    assert rero(Composition.of([(InfiniteLoss(), 2)]), 1e-9) == 1.0
    rare = rc.Poisson(1e-12, 10).composition(rc.Gaussian(1.0))
    assert 1e-9 <= rero(rare, 1e-9) <= 1.1e-9
    strong = rc.Poisson(0.5, 20).composition(rc.Gaussian(0.05))
    assert 0.5 <= rero(strong, 1e-9) <= 1.0
    direction = Composition.of([(SphereLoss(50, 4.0), 3)])
    assert 1e-12 < rero(direction, 1e-12) <= 1e-12 * math.exp(direction.supremum)
