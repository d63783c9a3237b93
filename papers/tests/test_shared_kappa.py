"""κ shared by blocks: 2κ√m holds and is attained for equal blocks, and not for unequal ones."""

import math

import numpy as np
import pytest

import recondite as rc
from recondite.mechanisms import Neighbouring, Setting
from recondite.numerics.bessel import bessel_ratio
from recondite.testing import check_mechanism
from recondite_papers.shared_kappa import SharedKappa


def test_it_keeps_the_contract_of_mechanisms():
    check_mechanism(SharedKappa(0.8))


def largest_loss(made, v, other):
    """max over releases of the log-density ratio of two gradients: block by block."""
    sizes, edges = made.sizes, np.cumsum(made.sizes)[:-1]
    peak = np.concatenate(
        [a - b for a, b in zip(np.split(v, edges), np.split(other, edges), strict=True)]
    )
    units = [p / np.linalg.norm(p) * math.sqrt(n / made.dim)
             for p, n in zip(np.split(peak, edges), sizes, strict=True)]  # fmt: skip
    release = np.concatenate(units)
    one, two = (made.log_likelihood(release, g[None]) for g in (v, other))
    return float(one - two)


def test_equal_blocks_cost_two_kappa_root_m_and_attain_it():
    made = SharedKappa(3.0, dim=20, blocks=5)
    assert made.pure_epsilon == pytest.approx(2 * 3 * math.sqrt(5))
    even = np.ones(20)
    assert largest_loss(made, even, -even) == pytest.approx(made.pure_epsilon)
    rng = np.random.default_rng(0)
    for _ in range(300):
        v, other = rng.standard_normal((2, 20)) * np.repeat(rng.exponential(size=(2, 5)), 4, 1)
        assert largest_loss(made, v, other) <= made.pure_epsilon + 1e-9
    assert made.loss(Neighbouring.REPLACE).supremum == made.metric_privacy().per_record
    # One flat block is the directional mechanism, at its 2κ.
    flat = SharedKappa(3.0, dim=20, blocks=1)
    assert flat.pure_epsilon == pytest.approx(6.0)
    assert flat.log_bayes_capacity() == pytest.approx(rc.Directional(3.0, 20).log_bayes_capacity())


def test_unequal_blocks_cost_more_than_two_kappa_root_m():
    made = SharedKappa(4.0, dim=402, blocks=(2, 400))
    claimed = 2 * 4 * math.sqrt(2)
    worst = 0.0
    for first in np.linspace(0.1, 1.4, 27):
        for second in np.linspace(0.1, 1.4, 27):
            v, other = np.zeros((2, 402))
            v[0], v[2] = math.cos(first), math.sin(first)
            other[0], other[2] = -math.cos(second), -math.sin(second)
            worst = max(worst, largest_loss(made, v, other))
    assert worst == pytest.approx(12.13, abs=0.01)
    assert claimed < worst <= made.pure_epsilon


def test_each_block_has_its_own_concentration_and_zero_is_uniform():
    made = SharedKappa(6.0, dim=6, blocks=2)
    gradient = np.array([[3.0, 0, 0, 4.0, 0, 0]])  # shares .6 and .8
    many = np.broadcast_to(gradient, (40_000, 1, 6))
    drawn = made.perturb(many, np.random.default_rng(0))
    half = math.sqrt(0.5)
    for place, share in ((0, 0.6), (3, 0.8)):
        kept = float(bessel_ratio(0.5, 6.0 * share))
        assert drawn[:, place].mean() / half == pytest.approx(kept, abs=0.015)
    nothing = made.perturb(np.zeros((20_000, 1, 6)), np.random.default_rng(1))
    assert np.abs(nothing.mean(0)).max() < 0.03
    mixed = np.stack([gradient[0], np.array([0.0, 0, 0, 0, 1, 0])])[None]
    assert np.isfinite(made.perturb(mixed, np.random.default_rng(2))).all()


def test_a_run_is_accounted_and_add_or_remove_is_refused():
    made = SharedKappa(0.2, blocks="rows").configured(
        Setting(((4, 6), (4,)), max_batch_size=8, batch_size=8)
    )
    assert made.sizes == (6, 6, 6, 6, 4)
    assert made.pure_epsilon > 2 * 0.2 * math.sqrt(5)
    few, many = (rc.epsilon(made, rc.FixedSize(8, 100, n), 1e-5) for n in (1, 50))
    assert 0 < few < made.pure_epsilon
    assert few < many < 50 * made.pure_epsilon
    with pytest.raises(ValueError, match="no finite epsilon"):
        made.loss(Neighbouring.ADD_OR_REMOVE)
