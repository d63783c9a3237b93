"""Score functions alone: known optima, monotonicity, one-line refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from scipy.stats import norm

from recondite.attacks.membership import (
    lira_offline_scores,
    lira_online_scores,
    reference_scores,
    rmia_scores,
    threshold_scores,
)
from recondite.metrics.roc import auc, tpr_at

LOSSES = arrays(np.float64, 7, elements=st.floats(0, 10))
TABLES = st.integers(1, 6).flatmap(lambda k: arrays(np.float64, (k, 7), elements=st.floats(0, 10)))


def test_threshold_prefers_small_losses():
    assert threshold_scores([0.1, 2.0]).tolist() == [-0.1, -2.0]


@given(LOSSES, TABLES, st.floats(0.01, 3))
def test_reference_score_falls_with_the_loss(losses, table, step):
    # The scale of one reference is that of the victim's distances: keep the table's own.
    if len(table) == 1:
        table = np.vstack([table, table + 1])
    low, high = reference_scores(losses, table), reference_scores(losses + step, table)
    assert np.isfinite(low).all()
    assert (high <= low + 1e-9).all()


@given(LOSSES)
def test_reference_score_is_the_level_among_the_references(losses):
    references = np.linspace(2, 8, 7)[:, None] * np.ones(7)
    level = 1 - expit(reference_scores(losses, references))
    share = (references <= losses).mean(axis=0)
    assert (np.abs(level - share) <= 1 / 7 + 1e-9).all()


def test_reference_score_ranks_beyond_all_references():
    references = np.array([[1.0, 1, 1, 1], [2, 2, 2, 2]])
    scores = reference_scores([0.1, 0.5, 3.0, 9.0], references)
    assert (np.diff(scores) < 0).all()
    assert scores[1] > 0 > scores[2]
    with pytest.raises(ValueError, match="reference_losses must be"):
        reference_scores([1.0, 2.0], [[1.0]])


def test_reference_score_knows_hard_records_from_easy_ones():
    generator = np.random.default_rng(0)
    hard = generator.uniform(0, 6, 800)
    references = np.abs(hard + generator.normal(0, 0.3, (8, 800)))
    losses = np.abs(hard + generator.normal(0, 0.3, 800))
    losses[:400] -= 0.6
    ours = reference_scores(losses, references)
    plain = threshold_scores(losses)
    assert auc(ours[:400], ours[400:]) > auc(plain[:400], plain[400:]) + 0.2


@pytest.mark.parametrize("shadows", [64, 256])
def test_lira_reaches_the_known_optimum_on_gaussians(shadows):
    # Each record has its own means, one standard deviation apart: the best test has d' = 1.
    generator = np.random.default_rng(1)
    n = 4000
    out = generator.normal(0, 3, n)
    inside = generator.permuted(np.arange(shadows)[:, None] % 2 * np.ones(n), axis=0) == 1
    shadow = out + inside + generator.normal(size=(shadows, n))
    truth = np.arange(n) < n // 2
    own = out + truth + generator.normal(size=n)
    scores = lira_online_scores(own, shadow, inside)
    best = norm.cdf(1 / np.sqrt(2))
    assert auc(scores[truth], scores[~truth]) == pytest.approx(best, abs=0.02)
    assert tpr_at(scores[truth], scores[~truth], 0.1) == pytest.approx(
        norm.sf(norm.isf(0.1) - 1), abs=0.05
    )
    offline = lira_offline_scores(own, np.where(inside, shadow - 1, shadow))
    assert auc(offline[truth], offline[~truth]) == pytest.approx(best, abs=0.02)


def test_lira_ratio_is_the_gaussian_log_likelihood_ratio():
    shadow = np.array([[1.0, 5], [3, 7], [0, 1], [2, 3]])
    inside = np.array([[1, 1], [1, 1], [0, 0], [0, 0]], dtype=bool)
    scores = lira_online_scores([2.5, 2.5], shadow, inside)
    deviation = np.sqrt(2)  # pooled, of two pairs two apart
    expected = norm.logpdf(2.5, [2, 6], deviation) - norm.logpdf(2.5, [1, 2], deviation)
    np.testing.assert_allclose(scores, expected)


@given(
    arrays(np.float64, 5, elements=st.floats(-20, 20)),
    arrays(np.float64, (4, 5), elements=st.floats(-20, 20)),
)
def test_lira_is_unchanged_by_shifts_of_each_record(own, shadow):
    inside = np.array([[1, 0, 1, 0, 1]] * 2 + [[0, 1, 0, 1, 0]] * 2, dtype=bool)
    shift = np.array([1.0, -2, 3, 0.5, 7])
    plain = lira_online_scores(own, shadow, inside)
    assert np.isfinite(plain).all()
    moved = lira_online_scores(own + shift, shadow + shift, inside)
    np.testing.assert_allclose(moved, plain, rtol=1e-5, atol=1e-6 * (1 + np.abs(plain).max()))


def test_lira_stands_in_for_records_that_no_model_saw():
    shadow = np.array([[1.0, 1, 0], [0, 0, 0]])
    scores = lira_online_scores([1.0, 1, 1], shadow, [[True, True, False], [False] * 3])
    assert scores[2] == pytest.approx(scores[0])
    with pytest.raises(ValueError, match="inside must hold records"):
        lira_online_scores([1.0, 1, 1], shadow, np.zeros((2, 3), bool))
    with pytest.raises(ValueError, match="shadow_confidences must be"):
        lira_offline_scores([1.0], shadow)


RATIOS = arrays(np.float64, 9, elements=st.floats(0, 5))


@given(RATIOS, RATIOS, st.floats(1, 4))
def test_rmia_is_the_share_beaten_and_rises_with_the_ratio(own, others, gamma):
    scores = rmia_scores(own, others, gamma)
    assert ((scores >= 0) & (scores < 1 + 1e-12)).all()
    share = np.mean(own[:, None] >= gamma * others[None], axis=1)
    assert (np.abs(scores - share) <= 1 / 10 + 1e-6).all()
    order = np.argsort(own)
    assert (np.diff(scores[order]) >= 0).all()
    assert (rmia_scores(own, others, gamma + 1) <= scores + 1e-12).all()


@pytest.mark.parametrize(
    ("own", "others", "gamma", "line"),
    [([1.0], [], 2, "ratios"), ([-1.0], [1.0], 2, "0 or more"), ([1.0], [1.0], 0.5, "gamma")],
)
def test_rmia_refuses_in_one_line(own, others, gamma, line):
    with pytest.raises(ValueError, match=line):
        rmia_scores(own, others, gamma)
