"""Checks of arguments: what passes, and one line that names the argument where it does not."""

import math

import numpy as np
import pytest

from recondite import _validate as check


def test_what_passes_is_a_plain_number():
    assert check.finite("x", np.float32(0.5)) == 0.5
    assert check.non_negative("x", 0) == 0.0
    assert check.probability("p", 1, closed_at_one=True) == 1.0
    assert check.probability("p", 0, closed_at_zero=True) == 0.0
    assert check.integer("n", 3.0) == 3
    assert type(check.at_least("n", np.int64(2), 2)) is int
    assert check.choice("mode", "a", ("a", "b")) == "a"
    assert check.device("cpu") == "cpu"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: check.finite("x", True), "x must be a number, got True"),
        (lambda: check.finite("x", "1"), "x must be a number, got '1'"),
        (lambda: check.finite("x", math.nan), "x must be a number, got NaN"),
        (lambda: check.finite("x", math.inf), "x must be finite, got inf"),
        (lambda: check.positive("x", 0), "x must be above 0, got 0"),
        (lambda: check.non_negative("x", -1), "x must be 0 or more, got -1"),
        (lambda: check.probability("p", 1.0), "p must lie in (0, 1), got 1.0"),
        (
            lambda: check.probability("p", 2, closed_at_one=True, closed_at_zero=True),
            "p must lie in [0, 1], got 2",
        ),
        (lambda: check.integer("n", 1.5), "n must be a whole number, got 1.5"),
        (lambda: check.at_least("n", 0, 1), "n must be 1 or more, got 0"),
        (lambda: check.choice("mode", "c", ("a", "b")), "mode must be one of a, b, got 'c'"),
        (lambda: check.device("abacus"), "device must be cpu or cuda, got 'abacus'"),
    ],
)
def test_one_line_names_the_argument(call, line):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 (the whole line is compared)
        call()
    assert str(raised.value) == line
