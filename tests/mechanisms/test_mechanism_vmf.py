"""Von Mises-Fisher noise, flat and partitioned, from its releases and densities."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

import recondite as rc
from recondite.laws import SphereLoss
from recondite.mechanisms import UndefinedNotionError

ADD, REPLACE = rc.Neighbouring.ADD_OR_REMOVE, rc.Neighbouring.REPLACE


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def mean_cosine(dim, kappa):
    """A_p(κ) from mpmath."""
    with mp.workdps(30):
        half, x = mp.mpf(dim) / 2, mp.mpf(kappa) ** 2 / 4
        return float(mp.mpf(kappa) / dim * mp.hyp0f1(half + 1, x) / mp.hyp0f1(half, x))


@pytest.mark.parametrize("kappa", [0.3, 2.0, 40.0])
def test_density_integrates_to_one_on_the_circle(kappa):
    mechanism = rc.VonMisesFisher(kappa, dim=2)
    angles = np.linspace(0, 2 * np.pi, 4_001)[:-1]
    points = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    density = np.exp(mechanism.log_likelihood(points, np.array([3.0, -4.0])))
    assert density.mean() == pytest.approx(1.0, rel=1e-12)  # with respect to the uniform law


@pytest.mark.parametrize("kappa", [0.3, 2.0, 40.0])
def test_density_integrates_to_one_on_the_sphere(kappa):
    mechanism = rc.VonMisesFisher(kappa, dim=3)
    z, w = np.polynomial.legendre.leggauss(200)
    angles = np.linspace(0, 2 * np.pi, 401)[:-1]
    ring = np.sqrt(1 - z**2)
    points = np.stack(
        [ring[:, None] * np.cos(angles), ring[:, None] * np.sin(angles), z[:, None] + 0 * angles],
        axis=-1,
    )
    density = np.exp(mechanism.log_likelihood(points, np.array([0.2, 1.0, -0.5])))
    assert 0.5 * (w @ density.mean(-1)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("dim", "kappa"), [(5, 3.0), (50, 20.0)])
def test_density_integrates_to_one_by_monte_carlo(dim, kappa):
    mechanism = rc.VonMisesFisher(kappa, dim=dim)
    points = unit(np.random.default_rng(0).standard_normal((100_000, dim)))
    density = np.exp(mechanism.log_likelihood(points, np.arange(1.0, dim + 1)))
    assert density.mean() == pytest.approx(1.0, abs=6 * density.std() / math.sqrt(len(density)))


def test_density_knows_directions_only():
    mechanism = rc.VonMisesFisher(4.0, dim=6)
    generator = np.random.default_rng(1)
    release, gradient = unit(generator.standard_normal((9, 6))), generator.standard_normal((9, 6))
    exact = mechanism.log_likelihood(release, gradient)
    for scale in (1e-300, 1e-161, 1e-30, 1e30, 1e300):
        np.testing.assert_allclose(
            mechanism.log_likelihood(release, scale * gradient), exact, rtol=1e-12
        )
    small = (1e-30 * gradient).astype(np.float32)
    for row, answer in zip(small, exact, strict=True):
        single = mechanism.log_likelihood(release.astype(np.float32), row)
        assert np.isfinite(single).all()
        tensor = mechanism.log_likelihood(torch.from_numpy(release).float(), torch.from_numpy(row))
        np.testing.assert_allclose(tensor.numpy(), single, atol=1e-5)
        del answer
    # A zero average releases a uniform direction, whose log-density is 0.
    assert mechanism.log_likelihood(release[0], np.zeros(6)) == 0.0
    assert float(mechanism.log_likelihood(torch.from_numpy(release[0]), torch.zeros(6))) == 0.0
    mixed = mechanism.log_likelihood(release[:2], np.stack([np.zeros(6), gradient[1]]))
    np.testing.assert_allclose(mixed, [0.0, exact[1]])


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.5), (2, 6.0), (3, 2.0), (10, 10.0), (300, 60.0)])
def test_antipodal_divergence_from_releases(dim, kappa):
    # E[log p(y|x)/p(y|-x)] = 2κA, from perturb and log_likelihood; A from mpmath.
    mechanism = rc.VonMisesFisher(kappa, dim=dim)
    centre = np.linspace(1, 2, dim)
    draws = 20_000
    release = mechanism.perturb(np.broadcast_to(centre, (draws, dim)), np.random.default_rng(2))
    ratio = mechanism.log_likelihood(release, centre) - mechanism.log_likelihood(release, -centre)
    exact = 2 * kappa * mean_cosine(dim, kappa)
    assert ratio.mean() == pytest.approx(exact, abs=5 * ratio.std() / math.sqrt(draws))
    for relation in (ADD, REPLACE):
        law = mechanism.loss(relation)
        assert law == SphereLoss(dim, kappa)
        assert law.renyi([1 + 1e-9])[0] == pytest.approx(exact, rel=1e-6)
    assert np.abs(ratio).max() <= mechanism.metric_privacy().per_record


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.5), (2, 6.0), (3, 2.0), (10, 10.0), (300, 60.0)])
def test_mutual_information_from_releases(dim, kappa):
    # The release of a uniform direction is uniform, so the information is E[log-likelihood].
    mechanism = rc.VonMisesFisher(kappa, dim=dim)
    generator = np.random.default_rng(3)
    secrets = generator.standard_normal((20_000, dim))
    scores = mechanism.log_likelihood(mechanism.perturb(secrets, generator), secrets)
    error = scores.std() / math.sqrt(len(scores))
    assert scores.mean() == pytest.approx(mechanism.mutual_information(), abs=5 * error)


@pytest.mark.parametrize(("kappa", "value"), [(75.0, 0.205283), (500.0, 9.105914)])
def test_mutual_information_at_the_papers_size(kappa, value):
    assert round(rc.VonMisesFisher(kappa, dim=13_700).mutual_information(), 6) == value


@pytest.mark.parametrize("kappa", [1e-4, 0.1, 1.0, 30.0])
def test_mutual_information_on_the_circle_by_quadrature(kappa):
    density = np.exp(kappa * (np.cos(np.linspace(0, 2 * np.pi, 20_001)[:-1]) - 1))
    density /= density.mean()
    exact = np.mean(density * np.log(density))
    ours = rc.VonMisesFisher(kappa, dim=2).mutual_information()
    assert ours == pytest.approx(exact, rel=1e-7 if kappa < 1e-3 else 1e-10)


def test_small_information_is_precise():
    # Leading term κ²/2p, however small.
    for dim, kappa in ((3, 1e-6), (13_700, 1e-3), (10**9, 1.0)):
        ours = rc.VonMisesFisher(kappa, dim=dim).mutual_information()
        assert ours == pytest.approx(kappa**2 / (2 * dim), rel=1e-6)


@pytest.mark.parametrize(("dim", "kappa"), [(2, 3.0), (3, 1.0), (20, 15.0)])
def test_fisher_information_from_releases(dim, kappa):
    # Turn the centre by ±h in a plane: E[(d/dh log p)²].
    mechanism = rc.VonMisesFisher(kappa, dim=dim)
    centre, aside = np.eye(dim)[0], np.eye(dim)[1]
    release = mechanism.perturb(np.tile(centre, (100_000, 1)), np.random.default_rng(4))
    h = 1e-4
    up, down = (
        mechanism.log_likelihood(release, math.cos(h) * centre + s * math.sin(h) * aside)
        for s in (1, -1)
    )
    score = (up - down) / (2 * h)
    error = np.std(score**2) / math.sqrt(len(score))
    assert np.mean(score**2) == pytest.approx(mechanism.fisher_information(), abs=5 * error)
    assert mechanism.fisher_information() == pytest.approx(kappa * mean_cosine(dim, kappa))


@given(dim=st.integers(2, 40), kappa=st.floats(1e-3, 1e3), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_metric_privacy_bounds_every_ratio(dim, kappa, seed):
    mechanism = rc.VonMisesFisher(kappa, dim=dim)
    privacy = mechanism.metric_privacy()
    generator = np.random.default_rng(seed)
    u, v, y = unit(generator.standard_normal((3, dim)))
    if seed % 3 == 0:
        v = unit(u + 1e-3 * v)
    if seed % 3 == 1:
        y = unit(u - v)  # the worst release for this pair
    gap = abs(mechanism.log_likelihood(y, u) - mechanism.log_likelihood(y, v))
    chord = np.linalg.norm(u - v)
    angle = 2 * math.asin(min(1.0, chord / 2))
    slack = 1e-12 * (1 + kappa)
    assert gap <= privacy.constant * chord + slack
    assert gap <= privacy.constant * angle + slack
    assert gap <= privacy.per_record + slack
    if seed % 3 == 1:
        assert gap == pytest.approx(privacy.constant * chord, rel=1e-9)  # tight


def test_metric_privacy_says_between_what():
    privacy = rc.VonMisesFisher(3.0, dim=5).metric_privacy()
    assert privacy.constant == 3.0
    assert privacy.per_record == 6.0
    assert "averaged" in privacy.between
    assert "angular" in privacy.metric


@pytest.mark.parametrize("dim", [2, 3])
def test_capacity_is_the_total_of_the_suprema(dim):
    # Of finitely many secrets spread over the sphere: Σ_y max_x, from log_likelihood alone.
    mechanism = rc.VonMisesFisher(2.5, dim=dim)
    generator = np.random.default_rng(6)
    if dim == 2:
        angles = np.linspace(0, 2 * np.pi, 721)[:-1]
        points = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    else:
        points = unit(generator.standard_normal((3_000, 3)))
    best = np.max([np.exp(mechanism.log_likelihood(points, x)) for x in points[:720]], axis=0)
    total = math.log(best.mean())
    assert total <= mechanism.log_bayes_capacity() + 1e-12
    assert total == pytest.approx(mechanism.log_bayes_capacity(), abs=1e-3 if dim == 2 else 0.05)


PARTITIONS = [
    rc.PartitionedVonMisesFisher(2.0, dim=10, blocks=3),
    rc.PartitionedVonMisesFisher((2.0, 0.5, 4.0), dim=10, blocks=(5, 3, 2)),
    rc.PartitionedVonMisesFisher(2.0, dim=10, blocks=(5, 1, 4)),
    rc.PartitionedVonMisesFisher(2.0, dim=10, blocks=1),
]


@pytest.mark.parametrize("mechanism", PARTITIONS)
def test_a_partition_is_a_product_of_spheres(mechanism):
    parts = [
        rc.VonMisesFisher(kappa, dim=size)
        for size, kappa in zip(mechanism.sizes, mechanism.kappas, strict=True)
    ]
    for notion in ("log_bayes_capacity", "mutual_information"):
        total = sum(getattr(part, notion)() for part in parts)
        assert getattr(mechanism, notion)() == pytest.approx(total, rel=1e-12)
    generator = np.random.default_rng(7)
    gradient = generator.standard_normal((50, 10))
    release = mechanism.perturb(gradient, generator)
    cuts = np.cumsum(mechanism.sizes)[:-1]
    pieces = zip(np.split(release, cuts, -1), np.split(gradient, cuts, -1), strict=True)
    total = sum(part.log_likelihood(r, g) for part, (r, g) in zip(parts, pieces, strict=True))
    np.testing.assert_allclose(mechanism.log_likelihood(release, gradient), total, rtol=1e-12)
    for relation in (ADD, REPLACE):
        law = mechanism.loss(relation)
        assert law.supremum == pytest.approx(2 * sum(mechanism.kappas))
        exact = sum(part.loss(relation).renyi([1.3, 2.0, 40.0]) for part in parts)
        np.testing.assert_allclose(law.renyi([1.3, 2.0, 40.0]), exact, rtol=1e-12)
    privacy = mechanism.metric_privacy()
    assert privacy.per_record == pytest.approx(2 * sum(mechanism.kappas))
    assert privacy.constant == max(mechanism.kappas)
    assert sum(mechanism.sizes) == 10
    assert len(parts) == {3: 3, (5, 3, 2): 3, (5, 1, 4): 2, 1: 1}[mechanism.blocks]


@given(
    sizes=st.lists(st.integers(2, 6), min_size=2, max_size=5),
    exponents=st.lists(st.floats(-30, 30), min_size=5, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    library=st.sampled_from(["numpy", "torch"]),
)
@settings(max_examples=100)
def test_block_norms_are_public_constants(sizes, exponents, seed, library):
    # Whatever the gradient puts into each block, its released norm is sqrt(size/dim).
    dim = sum(sizes)
    mechanism = rc.PartitionedVonMisesFisher(2.0, dim=dim, blocks=tuple(sizes))
    generator = np.random.default_rng(seed)
    scale = np.repeat(10.0 ** np.array(exponents[: len(sizes)]), sizes)
    gradient = generator.standard_normal(dim) * scale
    release = mechanism.perturb(torch.from_numpy(gradient) if library == "torch" else gradient)
    blocks = np.split(np.asarray(release), np.cumsum(sizes)[:-1])
    norms = [np.linalg.norm(block) for block in blocks]
    np.testing.assert_allclose(norms, np.sqrt(np.array(sizes) / dim), rtol=1e-12)
    assert np.linalg.norm(np.asarray(release)) == pytest.approx(1.0)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_metric_privacy_of_a_partition(seed):
    mechanism = PARTITIONS[1]
    generator = np.random.default_rng(seed)
    u, v = generator.standard_normal((2, 10))
    release = mechanism.perturb(generator.standard_normal(10), generator)
    gap = abs(mechanism.log_likelihood(release, u) - mechanism.log_likelihood(release, v))
    pairs = zip(np.split(u, [5, 8]), np.split(v, [5, 8]), strict=True)
    distances = [np.linalg.norm(unit(a) - unit(b)) for a, b in pairs]
    privacy = mechanism.metric_privacy()
    assert gap <= privacy.constant * sum(distances) + 1e-9
    assert gap <= privacy.per_record + 1e-9


def test_one_block_is_best_at_equal_concentration():
    # Prop. 3: at the same κ for each block, cutting costs privacy at every order.
    orders = [1.01, 1.5, 2.0, 8.0, 64.0]
    losses = [
        rc.PartitionedVonMisesFisher(2.0, dim=60, blocks=m).loss(ADD).renyi(orders)
        for m in (1, 2, 3, 6, 30)
    ]
    assert all(np.all(a < b) for a, b in pairwise(losses))


def test_partition_refuses_a_zero_block():
    gradient = np.ones(10)
    gradient[:5] = 0
    with pytest.raises(ValueError, match="zero has no direction"):
        PARTITIONS[1].perturb(gradient)


def test_partition_has_no_single_fisher_information():
    with pytest.raises(UndefinedNotionError, match="differs between blocks"):
        PARTITIONS[0].fisher_information()


def test_partition_on_two_circles_by_quadrature():
    # p = 2 + 2: capacity and normalisation from log_likelihood on a torus grid.
    mechanism = rc.PartitionedVonMisesFisher((1.5, 0.7), dim=4, blocks=2)
    angles = np.linspace(0, 2 * np.pi, 161)[:-1]
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    first, second = np.meshgrid(np.arange(160), np.arange(160), indexing="ij")
    points = np.concatenate([circle[first], circle[second]], axis=-1) * math.sqrt(0.5)
    density = np.exp(mechanism.log_likelihood(points, np.array([1.0, 1.0, -2.0, 0.3])))
    assert density.mean() == pytest.approx(1.0, rel=1e-12)
    assert mechanism.log_bayes_capacity() == pytest.approx(math.log(density.max()), abs=1e-3)
    information = np.mean(density * np.log(density))
    assert mechanism.mutual_information() == pytest.approx(information, rel=1e-9)


def test_gaussian_limit_of_small_concentration():
    # For κ ≪ p the pair looks like N(μ, 1) against N(0, 1) with μ = 2κ/√p.
    law = rc.VonMisesFisher(40.0, dim=10**6).loss(ADD)
    mu = 2 * 40.0 / 1e3
    orders = np.array([1.1, 2.0, 10.0])
    np.testing.assert_allclose(law.renyi(orders), 0.5 * mu**2 * orders, rtol=1e-4)


def test_mean_of_releases_points_the_right_way():
    mechanism = rc.VonMisesFisher(5.0, dim=4)
    gradient = np.array([0.0, -2.0, 0.0, 1.0])
    release = mechanism.perturb(np.tile(gradient, (100_000, 1)), np.random.default_rng(8))
    exact = mean_cosine(4, 5.0) * unit(gradient)
    np.testing.assert_allclose(release.mean(0), exact, atol=5 / math.sqrt(len(release)))


def test_capacity_of_the_circle_by_quad():
    constant = integrate.quad(lambda a: math.exp(2.5 * math.cos(a)), 0, 2 * math.pi)[0]
    exact = math.log(2 * math.pi) + 2.5 - math.log(constant)
    assert rc.VonMisesFisher(2.5, dim=2).log_bayes_capacity() == pytest.approx(exact, rel=1e-13)
