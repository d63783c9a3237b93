"""DirDP on single weights with public lengths: randomised response, and what it truly costs."""

import math

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.mechanisms import Neighbouring
from recondite.testing import check_mechanism
from recondite_papers.response import ResponseLoss
from recondite_papers.single_weights import SingleWeights


def test_it_keeps_the_contract_of_mechanisms():
    check_mechanism(SingleWeights(0.3))


def test_signs_are_kept_as_often_as_the_law_says_and_lengths_are_constants():
    made = SingleWeights(1.0, dim=4)
    rows = np.array([[3.0, -1e-9, 2.0, -5.0]])
    draws = made.perturb(np.broadcast_to(rows, (40_000, 1, 4)), np.random.default_rng(0))
    assert np.array_equal(np.unique(np.abs(draws)), [0.5])
    kept = (np.sign(draws) == np.sign(rows)).mean(0)
    assert kept == pytest.approx(1 / (1 + math.exp(-2.0)), abs=0.01)
    zeros = made.perturb(np.zeros((40_000, 1, 4)), np.random.default_rng(1))
    assert np.sign(zeros).mean(0) == pytest.approx(0.0, abs=0.03)
    one = made.perturb(torch.tensor(rows).float(), torch.Generator().manual_seed(0))
    assert one.dtype == torch.float32


def test_the_true_epsilon_of_lenet_at_kappa_1_is_124_012_where_1_is_printed():
    lenet = SingleWeights(1.0, dim=62_006)
    assert lenet.loss(Neighbouring.REPLACE).supremum == 124_012
    assert lenet.metric_privacy().per_record == 124_012
    gradient = np.linspace(-1, 1, 62_006)[None]
    peak = np.sign(gradient[0]) / math.sqrt(62_006)
    ratio = lenet.log_likelihood(peak, gradient) - lenet.log_likelihood(peak, -gradient)
    assert ratio == pytest.approx(124_012)
    with pytest.raises(ValueError, match="no finite epsilon"):
        lenet.loss(Neighbouring.ADD_OR_REMOVE)


def test_epsilon_of_few_weights_is_that_of_the_binomial_law():
    kappa, dim, delta = 0.25, 8, 1e-3
    found = rc.epsilon(SingleWeights(kappa, dim), rc.FixedSize(1, 1, 1), delta)
    kept, losses = 1 / (1 + math.exp(-2 * kappa)), 2 * kappa * (2 * np.arange(9) - 8)
    p = np.array([math.comb(8, k) * kept**k * (1 - kept) ** (8 - k) for k in range(9)])
    exact = next(
        e for e in np.linspace(0, 4, 4_001) if (p - np.exp(e) * p[::-1])[losses > e].sum() <= delta
    )
    assert found == pytest.approx(exact, abs=5e-3)
    assert found >= exact - 1.1e-3


def test_more_than_a_random_number_resolves_is_refused():
    with pytest.raises(ValueError, match="kappa must be 15 or less, got 300"):
        SingleWeights(300.0)


def test_the_channel_of_each_sign():
    made = SingleWeights(0.5, dim=10)
    flip = 1 / (1 + math.e)
    assert made.log_bayes_capacity() == pytest.approx(10 * math.log(2 * (1 - flip)))
    entropy = -flip * math.log(flip) - (1 - flip) * math.log(1 - flip)
    assert made.mutual_information() == pytest.approx(10 * (math.log(2) - entropy))


@pytest.mark.parametrize("epsilon", [1e-4, 0.5, 40.0])
def test_renyi_of_a_response(epsilon):
    law = ResponseLoss(epsilon)
    kept, flipped = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    for order in (1.5, 2.0, 9.0):
        told = kept**order * flipped ** (1 - order) + flipped**order * kept ** (1 - order)
        told = math.log(told) / (order - 1)
        assert law.renyi([order])[0] == pytest.approx(told, rel=1e-5, abs=1e-12)
    assert law.together(3).supremum == pytest.approx(3 * epsilon)
