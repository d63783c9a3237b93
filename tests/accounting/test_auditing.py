"""The empirical lower bound: sound, tight where samples allow it, and never NaN."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from recondite.accounting.auditing import (
    clopper_pearson_high,
    clopper_pearson_low,
    epsilon_lower_bound,
)


def gaussian_epsilon(delta: float, shift: float) -> float:
    def excess(epsilon: float) -> float:
        near = norm.cdf(shift / 2 - epsilon / shift)
        return near - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift) - delta

    return brentq(excess, 0, 60) if excess(0) > 0 else 0.0


def gaussian_pair(generator, shift, draws):
    return generator.normal(shift, 1, draws), generator.normal(0, 1, draws)


def response_pair(generator, epsilon, draws):
    keep = 1 / (1 + math.exp(-epsilon))
    bits = generator.random((2, draws)) < keep
    return bits[0], ~bits[1]


def test_clopper_pearson_is_exact():
    trials, miss = 50, 0.01
    hits = np.arange(trials + 1)
    low = clopper_pearson_low(hits, trials, miss)
    high = clopper_pearson_high(hits, trials, miss)
    assert low[0] == 0
    assert high[-1] == 1
    # At its own bound, a count this large (small) has probability exactly `miss`.
    np.testing.assert_allclose(binom.sf(hits[1:] - 1, trials, low[1:]), miss, rtol=1e-9)
    np.testing.assert_allclose(binom.cdf(hits[:-1], trials, high[:-1]), miss, rtol=1e-9)


@pytest.mark.parametrize(
    ("pair", "parameter", "delta"),
    [
        (gaussian_pair, 1.0, 0.1),
        (gaussian_pair, 0.5, 0.05),
        (response_pair, 1.0, 0.0),
        (response_pair, 0.5, 0.05),
    ],
)
def test_coverage(pair, parameter, delta):
    if pair is gaussian_pair:
        truth = gaussian_epsilon(delta, parameter)
    else:
        keep = 1 / (1 + math.exp(-parameter))
        truth = math.log((keep - delta) / (1 - keep))
    generator = np.random.default_rng(11)
    runs, confidence = 400, 0.8
    results = [
        epsilon_lower_bound(*pair(generator, parameter, 600), delta, confidence).epsilon
        for _ in range(runs)
    ]
    wrong = sum(value > truth for value in results)
    assert wrong <= binom.ppf(1 - 1e-6, runs, 1 - confidence)
    assert max(results) > 0


def test_coverage_when_the_two_laws_are_equal():
    generator = np.random.default_rng(2)
    runs, confidence = 400, 0.9
    wrong = sum(
        epsilon_lower_bound(*gaussian_pair(generator, 0.0, 500), 0.0, confidence).epsilon > 0
        for _ in range(runs)
    )
    assert wrong <= binom.ppf(1 - 1e-6, runs, 1 - confidence)


def test_sorted_scores_are_as_good_as_mixed_ones():
    # A split by position would compare the low half of one law with the high half of itself.
    generator = np.random.default_rng(4)
    for _ in range(20):
        p, q = gaussian_pair(generator, 0.0, 4_000)
        assert epsilon_lower_bound(np.sort(p), np.sort(q)).epsilon == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 6.0])
def test_tight_for_randomised_response_and_laplace(epsilon, seed):
    generator = np.random.default_rng(seed)
    draws = 150_000
    bits = epsilon_lower_bound(*response_pair(generator, epsilon, draws))
    noisy = epsilon_lower_bound(
        generator.laplace(1, 1 / epsilon, draws), generator.laplace(0, 1 / epsilon, draws)
    )
    for result in (bits, noisy):
        assert 0.8 * epsilon <= result.epsilon <= epsilon


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("shift", "delta"), [(1.0, 0.01), (1.0, 0.05), (2.0, 0.1), (0.5, 0.01), (2.0, 0.05)]
)
def test_tight_for_the_gaussian_with_delta(shift, delta, seed):
    generator = np.random.default_rng(seed)
    truth = gaussian_epsilon(delta, shift)
    pair = gaussian_pair(generator, shift, 200_000)
    result = epsilon_lower_bound(*pair, delta)
    assert 0.8 * truth <= result.epsilon <= truth
    # Half the noise is seen to break the claim.
    halved = epsilon_lower_bound(*gaussian_pair(generator, 2 * shift, 200_000), delta)
    assert halved.epsilon > truth


def test_finds_either_direction_and_either_tail():
    generator = np.random.default_rng(6)
    rare = generator.random(200_000) < 0.02  # only the first law ever shows it
    never = np.zeros(200_000)
    first = epsilon_lower_bound(rare, never)
    assert first.direction == "with"
    assert first.tail in (">", ">=")
    second = epsilon_lower_bound(never, rare)
    assert second.direction == "without"
    assert second.tail in (">", ">=")
    assert second.epsilon == pytest.approx(first.epsilon, abs=0.2)
    # A score that points the wrong way loses nothing.
    assert epsilon_lower_bound(-rare.astype(float), never).tail in ("<", "<=")
    assert first.epsilon > 4


def test_infinite_scores_are_scores():
    p = np.r_[np.full(5_000, math.inf), np.zeros(5_000)]
    q = np.r_[np.full(5_000, -math.inf), np.zeros(5_000)]
    result = epsilon_lower_bound(p, q, 1e-3)
    assert 4 < result.epsilon < 10
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_falls_with_confidence_and_delta(delta):
    for seed in range(5):
        pair = gaussian_pair(np.random.default_rng(seed), 1.0, 100_000)
        levels = [0.5, 0.9, 0.99, 0.9999, 1 - 1e-9, math.nextafter(1, 0)]
        bounds = [epsilon_lower_bound(*pair, delta, level).epsilon for level in levels]
        # The chosen test may change with the level: monotone up to that choice.
        assert all(a >= b - 0.05 for a, b in pairwise(bounds))
        assert bounds[0] > bounds[-1] > 0
        assert epsilon_lower_bound(*pair, 0.2).epsilon < epsilon_lower_bound(*pair, delta).epsilon


def test_result_is_reproducible_and_plain():
    pair = gaussian_pair(np.random.default_rng(0), 1.0, 5_000)
    result = epsilon_lower_bound(*pair, 0.01, seed=3)
    assert result == epsilon_lower_bound(*pair, 0.01, seed=3)
    assert result.samples == (5_000, 5_000)
    assert result.held_out == (4_000, 4_000)
    assert result.true_positive_low <= result.true_positive_rate
    assert result.false_positive_rate <= result.false_positive_high
    expected = math.log((result.true_positive_low - 0.01) / result.false_positive_high)
    assert result.epsilon == pytest.approx(max(0.0, expected))
    loaded = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert loaded["samples"] == {"with": 5_000, "without": 5_000}


@pytest.mark.parametrize(
    ("p", "q"),
    [([0.0, 0.0], [0.0, 0.0]), ([1.0, 2.0], [3.0, 4.0]), (np.ones(1000), np.ones(10))],
)
@pytest.mark.parametrize("delta", [0.0, 0.999])
def test_nothing_to_show_is_zero(p, q, delta):
    result = epsilon_lower_bound(p, q, delta)
    assert result.epsilon == 0
    assert not any(isinstance(x, float) and math.isnan(x) for x in vars(result).values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(scores_with=[1.0]), "scores_with must be a list of 2 or more"),
        (dict(scores_without=[[1.0, 2.0]]), "scores_without must be a list"),
        (dict(scores_with=[1.0, math.nan]), "scores_with must be numbers: it has a NaN"),
        (dict(scores_with=["a", "b"]), "scores_with must be a list of numbers"),
        (dict(delta=1.0), "delta must lie in"),
        (dict(delta=-0.1), "delta must lie in"),
        (dict(confidence=1.0), "confidence must lie in"),
        (dict(confidence=0.0), "confidence must lie in"),
        (dict(selection_fraction=1.0), "selection_fraction must lie in"),
        (dict(seed=-1), "seed must be 0 or more"),
    ],
)
def test_bad_input(arguments, message):
    good = {"scores_with": [1.0, 2.0], "scores_without": [1.0, 2.0]}
    with pytest.raises(ValueError, match=message):
        epsilon_lower_bound(**(good | arguments))
