"""ROC curves against scikit-learn, and the properties every curve has."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from recondite.metrics import roc as module

# A small grid of values makes ties common.
SCORES = st.lists(st.integers(-6, 6).map(float), min_size=2, max_size=40)


def _both(members, nonmembers):
    truth = np.r_[np.ones(len(members)), np.zeros(len(nonmembers))]
    return truth, np.r_[members, nonmembers]


@given(SCORES, SCORES)
def test_curve_and_area_equal_scikit_learn_with_ties(members, nonmembers):
    truth, scores = _both(members, nonmembers)
    fpr, tpr, thresholds = roc_curve(truth, scores, drop_intermediate=False)
    curve = module.roc(members, nonmembers)
    np.testing.assert_allclose(curve.fpr, fpr, atol=1e-15)
    np.testing.assert_allclose(curve.tpr, tpr, atol=1e-15)
    np.testing.assert_array_equal(curve.thresholds[1:], thresholds[1:])
    area = roc_auc_score(truth, scores)
    assert module.auc(members, nonmembers) == pytest.approx(area, abs=1e-12)
    assert curve.auc == pytest.approx(area, abs=1e-12)


@given(SCORES, SCORES)
def test_curve_is_monotone_from_corner_to_corner(members, nonmembers):
    curve = module.roc(members, nonmembers)
    assert (np.diff(curve.fpr) >= 0).all()
    assert (np.diff(curve.tpr) >= 0).all()
    assert (curve.fpr[0], curve.tpr[0], curve.fpr[-1], curve.tpr[-1]) == (0, 0, 1, 1)
    points = curve.points(5)
    assert len(points) <= 5
    assert points[0] == [0, 0]
    assert points[-1] == [1, 1]


@given(SCORES, SCORES)
def test_area_is_invariant_to_increasing_maps_and_turns_round(members, nonmembers):
    area = module.auc(members, nonmembers)
    assert module.auc(np.exp(members), np.exp(nonmembers)) == area
    assert module.auc(np.negative(members), np.negative(nonmembers)) == pytest.approx(1 - area)
    assert module.auc(nonmembers, members) == pytest.approx(1 - area)
    assert module.auc(members[::-1], nonmembers[::-1]) == area
    assert module.auc(members * 2, nonmembers * 3) == pytest.approx(area)


@given(SCORES, SCORES, st.floats(0, 1))
def test_rate_at_a_rate_is_that_of_a_usable_threshold(members, nonmembers, fpr):
    ours, others = np.array(members), np.array(nonmembers)
    best = max(
        (np.mean(ours >= t) for t in [*ours, np.inf] if np.mean(others >= t) <= fpr), default=0
    )
    assert module.tpr_at(members, nonmembers, fpr) == pytest.approx(best)


@settings(max_examples=25)
@given(SCORES, SCORES)
def test_intervals_hold_the_estimate_and_lie_in_the_unit_interval(members, nonmembers):
    low, high = module.auc_interval(members, nonmembers, resamples=100)
    assert 0 <= low <= module.auc(members, nonmembers) <= high <= 1
    low, high = module.tpr_interval(members, nonmembers, 0.1, resamples=100)
    assert 0 <= low <= module.tpr_at(members, nonmembers, 0.1) <= high <= 1


@given(SCORES, SCORES)
def test_standard_error_is_delongs_by_brute_force(members, nonmembers):
    ours, others = np.array(members)[:, None], np.array(nonmembers)[None]
    wins = (ours > others) + (ours == others) / 2
    expected = math.sqrt(
        wins.mean(1).var(ddof=1) / len(members) + wins.mean(0).var(ddof=1) / len(nonmembers)
    )
    found = module.auc_standard_error(members, nonmembers)
    assert found == pytest.approx(expected, abs=1e-12)


def test_bootstrap_spread_agrees_with_the_standard_error_and_covers():
    generator = np.random.default_rng(0)
    inside = 0
    for seed in range(60):
        ours, others = generator.normal(1, 1, 150), generator.normal(0, 1, 150)
        low, high = module.auc_interval(ours, others, resamples=200, seed=seed)
        inside += low <= 0.7602499 <= high  # Φ(1/√2)
    assert inside >= 52
    areas, rates = module.bootstrap(ours, others, (0.1, 0.5), resamples=2000)
    assert areas.std() == pytest.approx(module.auc_standard_error(ours, others), rel=0.1)
    assert rates.shape == (2000, 2)
    assert (rates[:, 0] <= rates[:, 1]).all()


def test_bootstrap_is_the_plain_one_in_one_piece_or_many(monkeypatch):
    ours, others = [3.0, 2, 2, 5], [1.0, 2, 0]
    whole = module.bootstrap(ours, others, (0.4,), resamples=50, seed=3)
    again = module.bootstrap(ours, others, (0.4,), resamples=50, seed=3)
    np.testing.assert_array_equal(whole[0], again[0])
    monkeypatch.setattr(module, "_CELLS", 8)
    pieces = module.bootstrap(ours, others, (0.4,), resamples=50, seed=3)
    assert pieces[0].shape == whole[0].shape
    assert set(pieces[0]) <= {i / 24 for i in range(25)}


def test_under_the_null_the_area_has_the_known_standard_error():
    generator = np.random.default_rng(1)
    areas = [module.auc(generator.random(40), generator.random(60)) for _ in range(2000)]
    assert np.std(areas) == pytest.approx(np.sqrt((40 + 60 + 1) / (12 * 40 * 60)), rel=0.06)


def test_no_hits_and_all_hits_still_have_an_interval():
    low, high = module.tpr_interval([0.0] * 20, [1.0] * 20, 0.01)
    assert (low, high) == (0, pytest.approx(0.1684, abs=1e-3))
    low, high = module.tpr_interval([1.0] * 20, [0.0] * 20, 0.01)
    assert (low, high) == (pytest.approx(1 - 0.1684, abs=1e-3), 1)


@pytest.mark.parametrize(
    ("members", "nonmembers", "line"),
    [
        ([], [1.0], "members must be a list of 1 or more numbers"),
        ([1.0], [float("nan")], "nonmembers must be numbers: it has a NaN"),
        ([[1.0]], [1.0], "members must be a list"),
        (["a"], [1.0], "members must be a list of numbers"),
    ],
)
def test_what_is_no_list_of_scores_gets_one_line(members, nonmembers, line):
    with pytest.raises(ValueError, match=line):
        module.roc(members, nonmembers)


def test_infinite_scores_and_tensors_are_fine():
    torch = pytest.importorskip("torch")
    assert module.auc([np.inf, 1], [-np.inf, 1]) == 0.875
    assert module.auc(torch.tensor([2.0, 3.0]), torch.tensor([1.0])) == 1
    with pytest.raises(ValueError, match="standard error needs 2"):
        module.auc_standard_error([1], [2, 3])
