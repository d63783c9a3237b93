"""Eigenvalues that are those of a covariance, and the error floor's arguments."""

import math

import numpy as np
import pytest

from recondite.numerics.spectra import as_eigenvalues, error_floor


def test_eigenvalues_are_checked():
    assert as_eigenvalues([1.0, -1e-12]).tolist() == [1.0, 0.0]
    assert as_eigenvalues(np.array([1.0, -1e-6], dtype=np.float32))[1] == 0
    for bad in ([1.0, -1e-3], [-1.0], [-1e-12]):
        with pytest.raises(ValueError, match="not those of a covariance"):
            as_eigenvalues(bad)
    for bad in ([], [[1.0]], [math.nan], [math.inf], ["a"], [1j]):
        with pytest.raises(ValueError, match="eigenvalues"):
            as_eigenvalues(bad)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: error_floor(0.0, 0, 1.0), "dim"),
        (lambda: error_floor(math.nan, 1, 1.0), "entropy"),
        (lambda: error_floor(math.inf, 1, 1.0), "entropy"),
        (lambda: error_floor(1e6, 1, 1.0), "entropy"),
        (lambda: error_floor(0.0, 1, -1.0), "information"),
    ],
)
def test_bad_input_names_the_argument(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_without_information_the_floor_is_the_geometric_mean_of_the_variances():
    entropy = math.log(2 * math.pi * math.e) + 0.5 * math.log(16.0)
    assert error_floor(entropy, 2, 0.0) == pytest.approx(4.0)
