"""DirDP-SGD: noise on every record's direction, then the average."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import recondite as rc
from recondite.laws import SphereLoss
from recondite.mechanisms import UndefinedNotionError
from recondite.numerics.bessel import bessel_ratio

REPLACE = rc.Neighbouring.REPLACE


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("blocks", [1, 3])
def test_release_is_the_average_of_noised_directions(blocks):
    mechanism = rc.Directional(2.0, dim=9, blocks=blocks)
    gradients = np.random.default_rng(0).standard_normal((4, 7, 9))
    release = mechanism.perturb(gradients, np.random.default_rng(1))
    records = mechanism.perturb_records(gradients, np.random.default_rng(1))
    assert records.shape == gradients.shape
    np.testing.assert_allclose(release, records.mean(-2), rtol=1e-12, atol=1e-15)
    # Every record has norm 1 after noise, block by block a constant, so the average has less.
    for block in np.split(records, blocks, axis=-1):
        np.testing.assert_allclose(np.linalg.norm(block, axis=-1), math.sqrt(1 / blocks))
    assert np.all(np.linalg.norm(release, axis=-1) < 1)
    tensor = torch.from_numpy(gradients)
    out = mechanism.perturb(tensor, torch.Generator().manual_seed(1))
    rows = mechanism.perturb_records(tensor, torch.Generator().manual_seed(1))
    np.testing.assert_allclose(out.numpy(), rows.mean(-2).numpy(), rtol=1e-14)


@pytest.mark.parametrize("blocks", [1, 2, (5, 1, 2)])
def test_mean_of_releases(blocks):
    # Unbiased up to the shrinkage A of each block: E = weight·A·(average of unit directions).
    mechanism = rc.Directional(3.0, dim=8, blocks=blocks)
    gradients = np.random.default_rng(2).standard_normal((3, 8)) * [[1e-6], [1.0], [1e6]]
    draws = 40_000
    rows = np.broadcast_to(gradients, (draws, 3, 8))
    release = mechanism.perturb(rows, np.random.default_rng(3))
    cuts = np.cumsum(mechanism.sizes)[:-1]
    expected = np.concatenate(
        [
            math.sqrt(size / 8) * float(bessel_ratio(size / 2 - 1, 3.0)) * unit(piece).mean(0)
            for size, piece in zip(mechanism.sizes, np.split(gradients, cuts, -1), strict=True)
        ]
    )
    np.testing.assert_allclose(release.mean(0), expected, atol=5 / math.sqrt(3 * draws))


def test_the_noise_of_records_is_independent():
    # The variance of the average falls as 1/records.
    mechanism = rc.Directional(1.0, dim=6)
    spread = []
    for records in (1, 10):
        rows = np.ones((20_000, records, 6))
        spread.append(mechanism.perturb(rows, np.random.default_rng(4)).var(0).sum())
    assert spread[0] / spread[1] == pytest.approx(10, rel=0.05)


def test_one_record_is_exact():
    mechanism = rc.Directional(4.0, dim=6, blocks=2)
    twin = rc.PartitionedVonMisesFisher(4.0, dim=6, blocks=2)
    gradient = np.random.default_rng(5).standard_normal((9, 1, 6))
    release = mechanism.perturb(gradient, np.random.default_rng(6))
    np.testing.assert_allclose(release, twin.perturb(gradient[:, 0], np.random.default_rng(6)))
    np.testing.assert_allclose(
        mechanism.log_likelihood(release, gradient),
        twin.log_likelihood(release, gradient[:, 0]),
        rtol=1e-12,
    )
    for notion in ("log_bayes_capacity", "mutual_information"):
        assert getattr(mechanism, notion)() == pytest.approx(getattr(twin, notion)(), rel=1e-13)


@pytest.mark.parametrize("kappa", [6.0, 40.0])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_stand_in_density_has_the_right_centre_and_spread(blocks, kappa):
    # Mean and total variance are exact, so the mean score is minus the entropy of the normal law.
    mechanism = rc.Directional(kappa, dim=40, blocks=blocks)
    gradients = np.random.default_rng(7).standard_normal((30, 40))
    rows = np.broadcast_to(gradients, (4_000, 30, 40))
    release = mechanism.perturb(rows, np.random.default_rng(8))
    scores = mechanism.log_likelihood(release, gradients)
    entropy = 0.0
    for size in mechanism.sizes:
        shrink = float(bessel_ratio(size / 2 - 1, kappa))
        variance = (size / 40) * (1 - shrink**2) / (30 * size)
        entropy += 0.5 * size * math.log(2 * math.pi * math.e * variance)
    assert scores.mean() == pytest.approx(-entropy, abs=5 * scores.std() / math.sqrt(len(scores)))
    if kappa < 10:  # nearly isotropic: twice the spread of the score is p
        assert np.var(scores) == pytest.approx(20, rel=0.2)
    # It is the most likely at the true gradients.
    other = np.random.default_rng(9).standard_normal((30, 40))
    assert scores.mean() > mechanism.log_likelihood(release, other).mean()


def test_add_or_remove_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"^neighbouring must be replace-one.*reveals how many"):
        rc.Directional(1.0, dim=5).loss(rc.Neighbouring.ADD_OR_REMOVE)


def test_the_reason_is_true():
    # The norm of a sum of n noised unit vectors tells n from n + 1: at p = 3,000, n = 10 the two
    # laws of the norm hardly overlap, though each record's own direction is all but lost.
    mechanism = rc.Directional(1.0, dim=3_000)
    norms = []
    for n in (10, 11):
        rows = np.random.default_rng(n).standard_normal((200, n, 3_000))
        release = mechanism.perturb(rows, np.random.default_rng(100 + n))
        norms.append(n * np.linalg.norm(release, axis=-1))
    auc = stats.mannwhitneyu(norms[1], norms[0]).statistic / 200**2
    assert auc > 0.95


def test_loss():
    assert rc.Directional(1.5, dim=7).loss(REPLACE) == SphereLoss(7, 1.5)
    law = rc.Directional(1.5, dim=9, blocks=3).loss(REPLACE)
    assert law.supremum == pytest.approx(2 * 1.5 * 3)  # 2κm, not 2κ√m (erratum 10)
    np.testing.assert_allclose(law.renyi([2.0]), 3 * SphereLoss(3, 1.5).renyi([2.0]), rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), kappa=st.floats(0.01, 100), blocks=st.sampled_from([1, 3]))
@settings(max_examples=100)
def test_metric_privacy(seed, kappa, blocks):
    mechanism = rc.Directional(kappa, dim=9, blocks=blocks)
    privacy = mechanism.metric_privacy()
    generator = np.random.default_rng(seed)
    u, v, other = generator.standard_normal((3, 1, 9))
    release = mechanism.perturb(other, generator)
    gap = abs(float(mechanism.log_likelihood(release, u) - mechanism.log_likelihood(release, v)))
    pairs = zip(np.split(u, blocks, -1), np.split(v, blocks, -1), strict=True)
    chords = sum(float(np.linalg.norm(unit(a) - unit(b))) for a, b in pairs)
    assert gap <= privacy.constant * chords + 1e-10 * (1 + kappa)
    assert gap <= privacy.per_record + 1e-10 * (1 + kappa)
    # Attained at the antipode of the release: pure ε.
    worst = float(mechanism.log_likelihood(release, release[None]))
    worst -= float(mechanism.log_likelihood(release, -release[None]))
    assert worst == pytest.approx(privacy.per_record, rel=1e-9)
    assert "one record" in privacy.between


def test_fisher_information():
    flat = rc.Directional(2.0, dim=5)
    assert flat.fisher_information() == rc.VonMisesFisher(2.0, dim=5).fisher_information()
    with pytest.raises(UndefinedNotionError, match="differs between blocks"):
        rc.Directional(2.0, dim=6, blocks=2).fisher_information()


def test_a_single_vector_is_refused():
    with pytest.raises(ValueError, match=r"^gradient must have one row a record"):
        rc.Directional(2.0, dim=5).perturb(np.ones(5))


def test_zero_gradients_are_refused():
    rows = np.ones((2, 5))
    rows[1] = 0
    with pytest.raises(ValueError, match="zero has no direction"):
        rc.Directional(2.0, dim=5).perturb(rows)
