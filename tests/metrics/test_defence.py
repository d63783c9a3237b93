"""The improvements of Tan et al. (2024) and top-k accuracy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import top_k_accuracy_score

from recondite.metrics.defence import (
    general_defence_capability,
    improvement_membership,
    improvement_reconstruction,
    topk_accuracy,
)

RATES = st.floats(0.05, 1)
ERRORS = st.floats(1e-4, 10)


@given(RATES, RATES, ERRORS, ERRORS)
def test_definitions_as_printed(auc, before, mse, mse_before):
    membership = (before - auc) / before
    reconstruction = (1 / mse_before - 1 / mse) / (1 / mse_before)
    assert improvement_membership(auc, before) == pytest.approx(membership)
    assert improvement_reconstruction(mse, mse_before) == pytest.approx(reconstruction, rel=1e-9)
    expected = (membership + reconstruction) / 2
    assert general_defence_capability(auc, before, mse, mse_before) == pytest.approx(expected)


def test_ends():
    assert improvement_membership(0.8, 0.8) == 0
    assert improvement_membership(0.9, 0.8) < 0
    assert improvement_reconstruction(0.1, 0.1) == 0
    assert improvement_reconstruction(0.3, 0) == 1
    assert improvement_reconstruction(0, 0.3) == -np.inf
    # The table of the paper: Natural channel on LeNet, κ = 50, against no defence.
    assert improvement_reconstruction(0.7166, 0.1448) == pytest.approx(0.79794, abs=1e-5)
    with pytest.raises(ValueError, match="both 0"):
        improvement_reconstruction(0, 0)
    with pytest.raises(ValueError, match="auc_undefended must lie in"):
        improvement_membership(0.5, 0)


def test_topk_equals_scikit_learn_without_ties():
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(300, 12)), generator.integers(0, 12, 300)
    found = topk_accuracy(logits, labels)
    assert list(found) == [1, 5, 10]
    for k, value in found.items():
        expected = top_k_accuracy_score(labels, logits, k=k, labels=range(12))
        assert value == pytest.approx(expected)


def test_topk_ties_count_as_chance_whatever_the_order_of_classes():
    assert topk_accuracy(np.zeros((4, 10)), [0, 3, 5, 9], (1, 5, 10)) == {
        1: pytest.approx(0.1),
        5: pytest.approx(0.5),
        10: 1.0,
    }
    assert topk_accuracy(np.zeros((4, 2)), [0, 1, 1, 0], (5,)) == {5: 1.0}


@pytest.mark.parametrize(
    ("logits", "labels", "line"),
    [
        (np.zeros((2, 3)), [0], "logits must be"),
        (np.zeros((1, 3)), [3], "labels must be whole numbers from 0 to 2"),
        (np.zeros((1, 3)), [0.5], "labels must be whole numbers"),
        (np.full((1, 3), np.nan), [0], "they have a NaN"),
    ],
)
def test_topk_refuses_in_one_line(logits, labels, line):
    with pytest.raises(ValueError, match=line):
        topk_accuracy(logits, labels)
