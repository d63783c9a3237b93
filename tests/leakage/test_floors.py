"""Error floors: what nobody can go below, against attackers that are optimal."""

import numpy as np
import pytest
from scipy.stats import norm

from recondite.leakage.floors import Packing, packing_floor, packings, van_trees


def gaussian_success(mu):
    return lambda prior: float(norm.cdf(norm.ppf(prior) + mu))


def test_a_packing_lies_apart():
    points = np.random.default_rng(0).standard_normal((200, 5))
    found = packings(points, (2, 4, 16, 500))
    assert [len(one.records) for one in found] == [2, 4, 16]
    for one in found:
        chosen = points[list(one.records)]
        apart = np.linalg.norm(chosen[:, None] - chosen[None], axis=-1)
        least = apart[np.triu_indices(len(chosen), 1)].min()
        assert 2 * one.radius == pytest.approx(least)
    assert found[0].radius >= found[1].radius >= found[2].radius
    assert packings(np.zeros((4, 2))) == []
    with pytest.raises(ValueError, match="two or more"):
        packings([[1.0]])


def test_the_packings_floor_falls_as_noise_does_and_is_never_negative():
    packing = Packing((0, 1, 2, 3), 1.0)
    floors = [packing_floor(packing, gaussian_success(mu), 2) for mu in (0.0, 0.5, 1, 2, 4, 50)]
    assert floors == sorted(floors, reverse=True)
    assert floors[0] == pytest.approx(0.5 * 0.75)
    assert floors[-1] == 0.0
    assert packing_floor(packing, lambda prior: 1.5, 2) == 0.0


@pytest.mark.parametrize("sigma", [0.3, 0.6, 1.0, 2.0])
def test_bayes_optimal_attackers_stay_above_the_packings_floor(sigma):
    """Records at ±1 on a line (and four on a square), seen with normal noise: the exact optimum."""
    rng = np.random.default_rng(1)
    for points in (np.array([[-1.0], [1.0]]), np.array([[1, 1], [1, -1], [-1, 1], [-1, -1.0]])):
        (packing,) = packings(points, (len(points),))
        centre = points.mean(0)
        mu = np.linalg.norm(points - centre, axis=1).max() / sigma
        floor = packing_floor(packing, gaussian_success(mu), points.shape[1])
        truth = rng.integers(len(points), size=20_000)
        seen = points[truth] + sigma * rng.standard_normal((20_000, points.shape[1]))
        logs = -0.5 * ((seen[:, None] - points[None]) ** 2).sum(-1) / sigma**2
        weights = np.exp(logs - logs.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        error = np.square(weights @ points - points[truth]).mean()
        assert error > floor
        # A floor that is always 0 would pass too.
        if sigma >= 1.0:
            assert floor > 0.03


def test_van_trees_is_attained_by_normal_records_under_normal_noise():
    prior, noise = np.diag([1.0, 4.0]), 0.5
    floor = van_trees(np.eye(2) / noise**2, np.linalg.inv(prior), [1.0, 1.0])
    exact = 1 * noise**2 / (1 + noise**2) + 4 * noise**2 / (4 + noise**2)
    assert floor == pytest.approx(exact)
    quieter = van_trees(np.eye(2) / 0.1**2, np.linalg.inv(prior))
    assert quieter < floor
    with pytest.raises(ValueError, match="square and alike"):
        van_trees(np.eye(2), np.eye(3))
