"""The one-run bound: right for mechanisms whose ε is known, and never too large."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from recondite.metrics.membership import MembershipResult
from recondite.metrics.one_run import one_run_lower_bound, one_run_p_value


def _randomised_response(generator, m, epsilon, reveal=0.0):
    """Coins and what is released of them: each flipped with 1/(1 + e^ε), or all shown."""
    coins = generator.random(m) < 0.5
    flips = generator.random(m) < 1 / (1 + math.exp(epsilon))
    if generator.random() < reveal:
        flips[:] = False
    return coins, (coins ^ flips) + generator.random(m) * 1e-3


@given(st.integers(1, 60), st.data())
def test_pure_p_value_is_the_binomial_tail(m, data):
    guesses = data.draw(st.integers(1, m))
    right = data.draw(st.integers(1, guesses))
    epsilon = data.draw(st.floats(0, 4))
    tail = binom.sf(right - 1, guesses, 1 / (1 + math.exp(-epsilon)))
    assert one_run_p_value(m, guesses, right, epsilon) == pytest.approx(tail)
    # Never falls in ε or δ: what bisection needs.
    for delta in (0.0, 1e-3, 1e-2):
        low = one_run_p_value(m, guesses, right, epsilon, delta)
        assert low <= one_run_p_value(m, guesses, right, epsilon + 0.1, delta) + 1e-12
        assert low <= one_run_p_value(m, guesses, right, epsilon, delta + 1e-3) + 1e-12


def test_p_value_is_the_best_knapsack():
    from scipy.optimize import linprog

    m, r, v, epsilon, delta = 30, 20, 16, 0.5, 0.02
    p = 1 / (1 + math.exp(-epsilon))
    mass = binom.pmf(v - np.arange(1, v + 1), r, p)
    best = linprog(
        -np.ones(v),
        A_ub=[np.arange(1, v + 1)],
        b_ub=[m * delta / 2],
        bounds=list(zip(0 * mass, mass, strict=True)),
    )
    expected = min(1, binom.sf(v - 1, r, p) - best.fun)
    assert one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(expected)


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_p_value_bounds_mechanisms_that_fail_with_probability_delta(delta):
    # With probability δ everything is shown: (ε, δ)-DP in each coin.
    m, epsilon = 40, 1.0
    p = 1 / (1 + math.exp(-epsilon))
    for right in range(20, 41):
        true = (1 - delta) * binom.sf(right - 1, m, p) + delta
        assert one_run_p_value(m, m, right, epsilon, delta) >= true - 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_bound_holds_as_often_as_it_says_and_is_near(epsilon):
    generator = np.random.default_rng(5)
    found = []
    for _ in range(100):
        coins, scores = _randomised_response(generator, 400, epsilon)
        found.append(one_run_lower_bound(scores[coins], scores[~coins], confidence=0.9).epsilon)
    assert np.mean(np.array(found) > epsilon) <= 0.1 + 3 * math.sqrt(0.09 / 100)
    if epsilon:
        assert np.median(found) > 0.6 * epsilon


def test_bound_with_delta_is_smaller_and_holds():
    generator = np.random.default_rng(6)
    wrong = 0
    for _ in range(50):
        coins, scores = _randomised_response(generator, 300, 1.0, reveal=1e-3)
        pure = one_run_lower_bound(scores[coins], scores[~coins], 0.0, 0.9)
        loose = one_run_lower_bound(scores[coins], scores[~coins], 1e-3, 0.9)
        assert loose.epsilon <= pure.epsilon + 1e-9
        wrong += loose.epsilon > 1
    assert wrong <= 11


def test_ties_say_nothing():
    # All scores equal: an order that follows the lists would guess every coin.
    assert one_run_lower_bound(np.zeros(500), np.zeros(500)).epsilon == 0


def test_perfect_guesses_give_a_finite_bound():
    bound = one_run_lower_bound(np.ones(500), np.zeros(500), confidence=0.95)
    assert 4 < bound.epsilon < math.log(1000)
    assert (bound.guesses, bound.right, bound.records) == (1000, 1000, 1000)


def test_result_says_which_bound_it_is():
    generator = np.random.default_rng(7)
    ours, others = generator.normal(1, 1, 300), generator.normal(0, 1, 300)
    given_sets = MembershipResult("a", ours, others).epsilon_lower(0.0, 0.95)
    coins = MembershipResult("a", ours, others, inclusion="coin").epsilon_lower(0.0, 0.95)
    assert (given_sets.holds, coins.holds) == (False, True)
    assert "estimate" in given_sets.how
    assert "one training run" in coins.how
    assert float(coins) == coins.epsilon > 0
    assert coins.to_dict()["holds"] is True


@pytest.mark.parametrize(("m", "r", "v"), [(5, 6, 1), (5, 4, 5), (0, 0, 0)])
def test_counts_that_cannot_be_get_one_line(m, r, v):
    with pytest.raises(ValueError, match="must"):
        one_run_p_value(m, r, v, 1.0)
    with pytest.raises(ValueError, match="none of them NaN"):
        one_run_lower_bound([float("nan")], [1.0])
