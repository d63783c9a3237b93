"""Bracketed roots that never miss on the unsafe side."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recondite.numerics.roots import last_met, last_true


@given(st.floats(1e-12, 1e12), st.booleans())
def test_finds_the_threshold_from_the_safe_side(threshold, upwards):
    seen = []

    def holds(x):
        seen.append(x)
        return x <= threshold if upwards else x >= threshold

    good, bad = (1e-13, 1e13) if upwards else (1e13, 1e-13)
    found = last_true(holds, good, bad)
    assert found == pytest.approx(threshold, rel=2e-12)
    assert holds(found)
    assert len(seen) < 70  # bisects on a logarithmic scale


@given(st.floats(-1e6, 1e6))
def test_brackets_with_a_sign(threshold):
    found = last_true(lambda x: x <= threshold, -2e6, 2e6)
    assert found <= threshold
    assert found == pytest.approx(threshold, rel=1e-11, abs=1e-9)


def test_a_noisy_predicate_is_never_missed():
    # What comes back was seen to hold, even where the predicate is not monotone.
    def holds(x):
        return math.sin(1e9 * x) > 0 if 0.9 < x < 1.1 else x < 1.0

    assert holds(last_true(holds, 0.5, 2.0))


def test_nothing_between():
    assert last_true(lambda x: False, 1.0, 2.0) == 1.0
    assert last_true(lambda x: True, 1.0, math.nextafter(1.0, 2.0)) == 1.0
    assert last_true(lambda x: x < 1.5, 1.0, 2.0, relative=0.0) == math.nextafter(1.5, 0)


@given(st.floats(1e-6, 1e6), st.booleans(), st.floats(0.2, 5.0))
def test_a_smooth_excess_needs_few_evaluations_and_stays_on_the_safe_side(root, upwards, power):
    seen = []

    def excess(x):
        seen.append(x)
        return (1 if upwards else -1) * power * math.log(x / root) + 0.1 * math.log(x / root) ** 2

    good, bad = (root / 3, root * 1.4) if upwards else (root * 3, root / 1.4)
    found = last_met(excess, good, bad, relative=1e-6)
    assert found == pytest.approx(root, rel=2e-6)
    assert excess(found) <= 0
    assert len(seen) < 16, "a bisection takes 21"


@given(st.floats(1e-3, 1e3))
def test_an_excess_that_jumps_or_is_infinite_takes_a_bisection(root):
    seen = []

    def excess(x):
        seen.append(x)
        return math.inf if x > root else -1e-9

    found = last_met(excess, 1e-4, 1e4, relative=1e-6)
    assert found <= root
    assert found == pytest.approx(root, rel=2e-6)
    assert len(seen) <= 2 + 25 + 2


def test_a_rough_excess_is_never_missed():
    def excess(x):
        return -math.sin(1e9 * x) if 0.9 < x < 1.1 else x - 1.0

    assert excess(last_met(excess, 0.5, 2.0)) <= 0
    assert last_met(lambda x: 1.0, 1.0, 2.0) == 1.0
