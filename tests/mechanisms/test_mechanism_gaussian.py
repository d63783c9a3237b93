"""Gaussian noise: flat and per-layer clipping, and what the noise leaks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

import recondite as rc
from recondite.laws import GaussianLoss
from recondite.mechanisms import UndefinedNotionError
from recondite.numerics.ball import log_gaussian_ball_capacity

ADD = rc.Neighbouring.ADD_OR_REMOVE
REPLACE = rc.Neighbouring.REPLACE


def test_noise_has_the_deviation_it_says():
    # σ·C/L, whatever the gradient; tested on the release itself.
    mechanism = rc.Gaussian(1.5, clip_norm=2.0, batch_size=4)
    assert mechanism.noise_std == pytest.approx(0.75)
    gradient = np.array([3.0, -1.0, 0.0])
    release = mechanism.perturb(np.tile(gradient, (30_000, 1)), np.random.default_rng(0))
    z = (release - gradient) / 0.75
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(z.T) - np.eye(3)).max() < 0.03
    assert rc.Gaussian(1.5).noise_std == 1.5  # the sum itself


def test_density_is_the_normal_density():
    mechanism = rc.Gaussian(0.8, clip_norm=2.0, batch_size=2)
    generator = np.random.default_rng(1)
    release, gradient = generator.standard_normal((2, 7, 3))
    exact = stats.norm(gradient, 0.8).logpdf(release).sum(-1)
    np.testing.assert_allclose(mechanism.log_likelihood(release, gradient), exact, rtol=1e-12)


def test_density_integrates_to_one():
    mechanism = rc.Gaussian(0.6)
    gradient = np.array([0.4, -0.3])
    x, w = np.polynomial.legendre.leggauss(60)
    x, w = 6 * x, 6 * w
    points = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    density = np.exp(mechanism.log_likelihood(points, gradient))
    assert w @ density @ w == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("relation", "factor"), [(ADD, 1.0), (REPLACE, 2.0)])
def test_sensitivity(relation, factor):
    assert rc.Gaussian(2.0, clip_norm=5.0).loss(relation) == GaussianLoss(factor / 2.0)
    # Per-layer clipping to 1 each: root-sum-square of the layers, not 1 (erratum 5).
    four = rc.Gaussian(2.0, layers=(3, 3, 3, 3))
    assert four.sensitivity == pytest.approx(2.0)
    assert four.loss(relation).mu == pytest.approx(factor * 2.0 / 2.0)
    uneven = rc.Gaussian(2.0, clip_norm=10.0, layers=(3, 2), layer_norms=(6.0, 8.0))
    assert uneven.sensitivity == pytest.approx(1.0)
    # Units do not matter: everything scales with the clipping norm.
    scaled = rc.Gaussian(2.0, clip_norm=1.0, layers=(3, 2), layer_norms=(0.6, 0.8))
    assert scaled.loss(relation).mu == pytest.approx(uneven.loss(relation).mu)


@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=5),
    st.floats(0.1, 10),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_no_clipped_record_moves_the_sum_further(norms, clip, seed):
    # Any record clipped layer by layer moves the release by at most sensitivity·C/L.
    layers = (3,) * len(norms)
    mechanism = rc.Gaussian(
        1.0, clip_norm=clip, batch_size=4, layers=layers, layer_norms=tuple(norms)
    )
    generator = np.random.default_rng(seed)
    record = generator.standard_normal((len(norms), 3)) * generator.exponential(10, (len(norms), 1))
    size = np.linalg.norm(record, axis=1, keepdims=True)
    clipped = record * np.minimum(1.0, np.array(norms)[:, None] / size)
    moved = np.linalg.norm(clipped) / 4
    assert moved / mechanism.noise_std <= mechanism.loss(ADD).mu * (1 + 1e-12)


def test_capacity_needs_a_largest_batch():
    mechanism = rc.Gaussian(1.0, dim=3)
    for notion in (mechanism.log_bayes_capacity, mechanism.mutual_information):
        with pytest.raises(UndefinedNotionError, match="max_batch_size"):
            notion()
    bounded = mechanism.for_batches(7)
    assert bounded.max_batch_size == 7
    assert bounded.for_batches(3) == bounded  # what was enforced stays
    assert bounded.log_bayes_capacity() == pytest.approx(log_gaussian_ball_capacity(3, 7.0))


def test_capacity_by_brute_force():
    # Sums of up to 3 gradients clipped to 2, divided by 2, with noise of deviation σC/L = 1.5:
    # ∫ sup over the disc of radius 3 of the normal density, on a grid, no closed form.
    mechanism = rc.Gaussian(1.5, dim=2, clip_norm=2.0, batch_size=2, max_batch_size=3)
    radius, std = 3.0, mechanism.noise_std
    grid = np.linspace(-14, 14, 1201)
    x, y = np.meshgrid(grid, grid)
    distance = np.maximum(0.0, np.hypot(x, y) - radius)
    density = np.exp(-0.5 * (distance / std) ** 2) / (2 * math.pi * std**2)
    total = density.sum() * (grid[1] - grid[0]) ** 2
    assert mechanism.log_bayes_capacity() == pytest.approx(math.log(total), abs=2e-5)


def test_per_layer_capacity_is_a_product_by_brute_force():
    # Two layers of one coordinate each: the secrets fill a rectangle, which is no ball.
    mechanism = rc.Gaussian(1.0, max_batch_size=2, layers=(1, 1), layer_norms=(1.0, 0.5))
    grid = np.linspace(-10, 10, 2001)
    sides = [np.maximum(0.0, np.abs(grid) - half) for half in (2.0, 1.0)]
    density = np.exp(-0.5 * (sides[0][:, None] ** 2 + sides[1][None, :] ** 2)) / (2 * math.pi)
    total = density.sum() * (grid[1] - grid[0]) ** 2
    assert mechanism.log_bayes_capacity() == pytest.approx(math.log(total), abs=1e-5)


def test_per_layer_is_the_product_of_layers():
    layers, norms = (40, 7, 300), (1.0, 0.3, 2.0)
    whole = rc.Gaussian(1.3, max_batch_size=5, layers=layers, layer_norms=norms)
    parts = [
        rc.Gaussian(1.3 / norm, dim=size, max_batch_size=5)
        for size, norm in zip(layers, norms, strict=True)
    ]
    for notion in ("log_bayes_capacity", "mutual_information"):
        total = sum(getattr(part, notion)() for part in parts)
        assert getattr(whole, notion)() == pytest.approx(total, rel=1e-12)
    # The box lies in the ball around it, so its capacity is smaller.
    radius = math.hypot(*norms)
    ball = rc.Gaussian(1.3 / radius, dim=sum(layers), max_batch_size=5)
    assert whole.log_bayes_capacity() < ball.log_bayes_capacity()


def test_capacity_scales_with_the_batch():
    # The leaked channel has radius-to-noise ratio max/σ (erratum 6).
    mechanism = rc.Gaussian(1.23, dim=1_000, batch_size=128, max_batch_size=160)
    assert mechanism.log_bayes_capacity() == pytest.approx(
        log_gaussian_ball_capacity(1_000, 160 / 1.23), rel=1e-14
    )
    # Neither the clipping norm nor the divisor changes what is released up to scale.
    same = rc.Gaussian(1.23, dim=1_000, clip_norm=9.0, max_batch_size=160)
    assert same.log_bayes_capacity() == pytest.approx(mechanism.log_bayes_capacity(), rel=1e-14)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
def test_information_bounds_what_a_ball_can_send(ratio):
    # The exact information of the uniform law on the circle of radius R (the largest power the
    # ball allows) in the plane, by quadrature, is below (p/2)·ln(1 + R²/p) and near it at low R.
    bound = rc.Gaussian(1.0, dim=2, max_batch_size=1).with_strength(1 / ratio).mutual_information()

    def log_density(r):  # of the release at distance r, uniform on the circle before noise
        return math.log(special.ive(0, r * ratio)) - 0.5 * (r - ratio) ** 2 - math.log(2 * math.pi)

    entropy = integrate.quad(
        lambda r: -2 * math.pi * r * math.exp(log_density(r)) * log_density(r), 0, ratio + 12
    )[0]
    exact = entropy - math.log(2 * math.pi * math.e)
    assert exact < bound
    if ratio < 0.5:
        assert exact > 0.95 * bound


def test_fisher_information():
    # E[(d/dθ log p)²] by Monte Carlo of finite differences.
    mechanism = rc.Gaussian(1.5, clip_norm=2.0, batch_size=4)
    centre, step = np.array([0.1, 0.2, -0.4]), np.array([0.0, 1e-4, 0.0])
    release = mechanism.perturb(np.tile(centre, (200_000, 1)), np.random.default_rng(5))
    up, down = (mechanism.log_likelihood(release, centre + s * step) for s in (1, -1))
    score = (up - down) / 2e-4
    assert np.mean(score**2) == pytest.approx(mechanism.fisher_information(), rel=0.02)
    assert mechanism.fisher_information() == pytest.approx(1 / 0.75**2)


def test_metric_privacy_is_not_defined():
    with pytest.raises(UndefinedNotionError, match="unbounded"):
        rc.Gaussian(1.0).metric_privacy()
