"""Scores of reconstructions against slow references and closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite import metrics
from recondite.metrics.images import window_for
from recondite.records import load


def pictures(n, c=1, h=12, w=12, seed=0):
    return torch.rand(n, c, h, w, generator=torch.Generator().manual_seed(seed))


def slow_ssim(x, y, window, deviation, data_range):
    """Wang et al. (2004), one window at a time around every pixel, edges mirrored."""
    radius = window // 2
    sides = ((0, 0), (radius, radius), (radius, radius))
    x, y = np.pad(x, sides, mode="reflect"), np.pad(y, sides, mode="reflect")
    line = np.exp(-0.5 * (np.arange(-radius, radius + 1) / deviation) ** 2)
    kernel = np.outer(line, line) / line.sum() ** 2
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    found = []
    for channel in range(x.shape[0]):
        a, b = x[channel], y[channel]
        for i in range(a.shape[0] - window + 1):
            for j in range(a.shape[1] - window + 1):
                p, q = a[i : i + window, j : j + window], b[i : i + window, j : j + window]
                mp, mq = (kernel * p).sum(), (kernel * q).sum()
                vp = (kernel * p * p).sum() - mp**2
                vq = (kernel * q * q).sum() - mq**2
                cov = (kernel * p * q).sum() - mp * mq
                top = (2 * mp * mq + c1) * (2 * cov + c2)
                found.append(top / ((mp**2 + mq**2 + c1) * (vp + vq + c2)))
    return np.mean(found)


@pytest.mark.parametrize(
    ("c", "h", "w", "window"), [(1, 16, 13, 11), (3, 12, 12, 11), (1, 8, 8, 7)]
)
@pytest.mark.parametrize("data_range", [1.0, 4.0])
def test_ssim_is_the_published_formula(c, h, w, window, data_range):
    x, y = pictures(3, c, h, w) * data_range, pictures(3, c, h, w, seed=1) * data_range
    y = 0.7 * x + 0.3 * y
    deviation = 1.5 if window == 11 else (window // 2 + 0.25) / 3.5
    assert window_for(x) == window
    mine = metrics.ssim(y, x, data_range=data_range)
    right = [
        slow_ssim(a.double().numpy(), b.double().numpy(), window, deviation, data_range)
        for a, b in zip(y, x, strict=True)
    ]
    assert mine.tolist() == pytest.approx(right, abs=1e-6)


@settings(max_examples=25)
@given(n=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_matching_is_the_best_of_all_orders(n, seed):
    images, originals = pictures(n, 1, 2, 2, seed), pictures(n, 1, 2, 2, seed + 1)
    order = metrics.match_order(images, originals)
    assert sorted(order.tolist()) == list(range(n))
    cost = (images.double()[None] - originals.double()[:, None]).square().flatten(2).sum(2)
    least = min(
        sum(float(cost[i, j]) for i, j in enumerate(way))
        for way in itertools.permutations(range(n))
    )
    assert sum(float(cost[i, j]) for i, j in enumerate(order)) == pytest.approx(least, rel=1e-6)


def test_a_permutation_changes_no_score():
    originals = pictures(7)
    found = (originals + 0.05 * pictures(7, seed=3)).clamp(0, 1)
    order = torch.tensor([3, 1, 6, 0, 2, 5, 4])
    one, other = metrics.score(found, originals), metrics.score(found[order], originals)
    for field in ("mse", "psnr", "ssim"):
        assert torch.allclose(getattr(one, field), getattr(other, field))
    assert torch.equal(order[other.order], torch.arange(7))
    unmatched = metrics.score(found[order], originals, matched=False)
    assert float(unmatched.mse.mean()) > float(one.mse.mean())


def test_closed_forms():
    originals = torch.full((2, 3, 9, 9), 0.5)
    found = originals + torch.tensor([0.1, 0.01]).reshape(2, 1, 1, 1)
    scores = metrics.score(found, originals, matched=False)
    assert scores.mse.tolist() == pytest.approx([1e-2, 1e-4], rel=1e-4)
    assert scores.psnr.tolist() == pytest.approx([20.0, 40.0], rel=1e-4)
    wide = metrics.psnr(255 * found, 255 * originals, data_range=255.0)
    assert wide.tolist() == pytest.approx([20.0, 40.0], rel=1e-4)
    # Constant images: only the means differ.
    luminance = (2 * 0.5 * 0.6 + 1e-4) / (0.5**2 + 0.6**2 + 1e-4)
    assert float(scores.ssim[0]) == pytest.approx(luminance, rel=1e-6)
    summary = scores.summary()
    assert summary["mse_worst"] == pytest.approx(1e-4, rel=1e-4)
    assert summary["ssim_worst"] == float(scores.ssim.max())


@pytest.mark.parametrize("side", [1, 2, 3, 4, 8, 28])
def test_copies_are_perfect_at_every_size(side):
    originals = pictures(2, 1, side, side)
    scores = metrics.score(originals.flip(0), originals)
    assert scores.mse.tolist() == [0.0, 0.0]
    assert all(math.isinf(value) and value > 0 for value in scores.psnr)
    assert scores.ssim.tolist() == pytest.approx([1.0, 1.0], abs=1e-6)
    assert scores.window <= side
    assert scores.window % 2 == 1


def test_real_digits_noise_lowers_ssim():
    digits = load("digits").images[:8]
    noise = torch.randn(digits.shape, generator=torch.Generator().manual_seed(0))
    values = [float(metrics.ssim(digits + s * noise, digits).mean()) for s in (0.0, 0.05, 0.2, 1.0)]
    assert values == sorted(values, reverse=True)


def test_wrong_shapes_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"one shape \(n, c, h, w\), got \(2, 1, 3, 3\)"):
        metrics.score(torch.zeros(2, 1, 3, 3), torch.zeros(3, 1, 3, 3))
    with pytest.raises(ValueError, match="images and originals"):
        metrics.score(torch.zeros(1, 3, 3), torch.zeros(1, 3, 3))
    with pytest.raises(ValueError, match="data_range"):
        metrics.score(torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 3, 3), data_range=0.0)


def test_a_broken_reconstruction_is_matched_last():
    originals = pictures(3)
    found = originals[[2, 0, 1]].clone()
    found[1] = torch.nan
    order = metrics.score(found, originals).order
    assert order.tolist() == [1, 2, 0]
