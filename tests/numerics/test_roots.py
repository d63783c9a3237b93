"""Bracketed roots that never miss on the unsafe side."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recondite.numerics.roots import last_true


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


@pytest.mark.parametrize("ends", [(1.0, 4.0), (4.0, 1.0), (1e-9, 1e9), (1e9, 1e-9)])
@pytest.mark.parametrize("relative", [1e-5, 1e-3])
@pytest.mark.parametrize(
    "shape", [lambda x: x**0.3, lambda x: math.exp(min(x, 600.0)), lambda x: x + 1e3, math.floor]
)
def test_heights_lead_to_the_answer_of_the_bisection(ends, relative, shape):
    good, bad = ends
    limit = shape(math.sqrt(1.7 * 2.3))
    sign = 1.0 if good < bad else -1.0
    tried = []

    def holds(x):
        tried.append(x)
        return sign * (shape(x) - limit) <= 0

    plain = last_true(holds, good, bad, relative=relative)
    steps = len(tried)
    tried.clear()
    quick = last_true(holds, good, bad, relative=relative, height=lambda x: shape(x) - limit)
    assert quick == plain
    assert quick in tried
    assert len(tried) <= steps + 45
    assert last_true(holds, good, bad, relative=relative, height=lambda _: math.nan) == plain


def test_with_heights_too_the_answer_was_seen_to_hold():
    noise = random.Random(1)
    for _ in range(200):
        answers = {}

        def holds(x, answers=answers):
            answers[x] = x < 2.0 + noise.uniform(-0.2, 0.2)
            return answers[x]

        found = last_true(holds, 1.0, 4.0, relative=1e-6, height=lambda x: x - 2.0)
        assert found == 1.0 or answers[found]
