"""Bracketed roots that never miss on the unsafe side."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recondite.numerics.roots import Crossing, last_true


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


@given(st.floats(0.02, 50.0), st.floats(0.3, 6.0), st.sampled_from([1, -1]))
def test_a_narrowed_threshold_gives_what_plain_bisection_gives(root, power, safe):
    """The same point, from fewer measurements; what it infers is what it would have measured."""
    calls = []

    def measure(x):
        calls.append(x)
        return (x / root) ** power + (x / root) ** 0.5

    def met(value):
        return value <= 2.0 if safe == 1 else value >= 2.0

    good, bad = (1e-2, 100.0)[::safe]
    plain = last_true(lambda x: met(measure(x)), good, bad, relative=1e-7)
    bisected = len(calls)
    calls.clear()
    threshold = Crossing(measure, met, 2.0, safe=safe)
    assert threshold(good)
    assert not threshold(bad)
    threshold.narrow(1e-7)
    assert last_true(threshold, good, bad, relative=1e-7) == plain
    assert len(calls) <= 20 < bisected
    assert met(measure(threshold.good))


def test_a_threshold_of_what_cannot_be_interpolated_bisects():
    """Steps, zeros and infinities: no worse than bisection, and never a point that misses."""
    for measure in (lambda x: 0.0 if x < 1.5 else math.inf, lambda x: 1.0 if x < 1.5 else 3.0):
        threshold = Crossing(measure, lambda value: value <= 2.0, 2.0)
        assert threshold(1.0)
        assert not threshold(4.0)
        threshold.narrow(1e-9)
        found = last_true(threshold, 1.0, 4.0, relative=1e-9)
        assert 1.5 * (1 - 2e-9) < found < 1.5


def test_a_rough_measurement_is_met_where_it_was_measured():
    def rough(x):
        return x * (1 + 1e-4 * math.sin(1e6 * x))

    threshold = Crossing(rough, lambda value: value <= 2.0, 2.0)
    assert threshold(1.0)
    assert not threshold(4.0)
    threshold.narrow(1e-8)
    last_true(threshold, 1.0, 4.0, relative=1e-8)
    assert threshold.good is not None
    assert rough(threshold.good) <= 2.0
    assert threshold.good == pytest.approx(2.0, rel=1e-3)
