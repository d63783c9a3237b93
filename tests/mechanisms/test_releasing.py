"""A release has the shape that the contract promises, and finite numbers."""

import math

import numpy as np
import pytest

from recondite.mechanisms import Directional, Gaussian, NoNoise
from recondite.mechanisms.releasing import draw

RNG = np.random.default_rng(0)


class Made(NoNoise):
    """Releases what it is told to."""

    def __init__(self, release):
        self.__dict__["release"] = lambda gradient, generator=None: release


def test_sums_keep_their_shape_and_records_are_averaged():
    assert draw(Gaussian(1.0), np.zeros(5), RNG).shape == (5,)
    assert draw(Directional(9.0), RNG.normal(size=(4, 5)), RNG).shape == (5,)


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (np.zeros(4), r"must release shape \(5,\), got shape \(4,\)"),
        (np.zeros((1, 5)), r"got shape \(1, 5\)"),
        ("noise", "got no array"),
        (np.array([0.0, math.nan, 0, 0, 0]), "not finite: nothing is used"),
        (np.array([math.inf, -math.inf, 0, 0, 0]), "not finite: nothing is used"),
    ],
)
def test_what_is_no_release_is_refused(release, words):
    with pytest.raises(ValueError, match=words):
        draw(Made(release), np.zeros(5), RNG)


def test_a_sum_that_overflows_is_looked_at_again():
    large = np.full(5, 1.7e308)
    with np.errstate(over="ignore"):
        assert draw(Made(large), np.zeros(5), RNG) is large


def test_a_mechanism_with_memory_needs_somebody_who_keeps_it():
    class Filter(NoNoise):
        stateful = True

        def perturb(self, gradient, generator=None, state=None):
            state["last"] = gradient
            return gradient

    with pytest.raises(ValueError, match="keeps a state over steps, and nothing here keeps it"):
        draw(Filter(), np.zeros(5), RNG)
    state = {}
    release = draw(Filter(), np.zeros(5), RNG, state)
    release += 1.0  # what training does to it does not reach what is remembered
    assert (state["last"] == 0).all()
