"""Fisher information leakage, against exact models and Monte Carlo."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.leakage.fisher import (
    fisher_information_leakage,
    fisher_information_matrix,
    renyi_error_floor,
    unbiased_error_floor,
)

# A busy machine is no failure: nothing here is timed.
untimed = settings(deadline=None)


def test_information_matrix_and_leakage():
    jacobian = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 1.0]])
    matrix = fisher_information_matrix(jacobian, 4.0)
    np.testing.assert_allclose(matrix, 4 * jacobian.T @ jacobian)
    assert fisher_information_leakage(jacobian, 4.0) == pytest.approx(
        math.sqrt(np.linalg.eigvalsh(matrix)[-1])
    )
    assert fisher_information_leakage(jacobian, 0.0) == 0


@untimed
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 4), st.floats(1e-3, 1e3))
def test_floors_equal_their_definitions_and_are_ordered(seed, dimension, extra, information):
    jacobian = np.random.default_rng(seed).normal(size=(dimension + extra, dimension))
    matrix = fisher_information_matrix(jacobian, information)
    floor = unbiased_error_floor(jacobian, information)
    exact = np.trace(np.linalg.inv(matrix)) / dimension
    assert floor.rank == floor.dimension == dimension
    assert floor.cramer_rao == pytest.approx(exact, rel=1e-6 * max(1, np.linalg.cond(matrix) / 1e6))
    assert floor.trace == pytest.approx(dimension / np.trace(matrix))
    assert floor.trace <= floor.cramer_rao * (1 + 1e-12)
    assert floor.identifiable == floor.cramer_rao
    # No direction is known better than the leakage says.
    eta = fisher_information_leakage(jacobian, information)
    assert 1 / eta**2 <= floor.trace * (1 + 1e-12)


def test_floors_agree_when_all_directions_leak_alike():
    floor = unbiased_error_floor(3 * np.eye(5), 0.25)
    assert floor.trace == pytest.approx(floor.cramer_rao) == pytest.approx(4 / 9)


def test_singular_information():
    floor = unbiased_error_floor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], 1.0)
    assert floor.cramer_rao == math.inf
    assert floor.rank == 2
    assert floor.identifiable == pytest.approx((1 / 4 + 1) / 3)
    assert floor.trace == pytest.approx(3 / 5)
    assert floor.to_dict()["cramer_rao"] == "inf"
    assert floor.to_dict()["rank"] == 2


@pytest.mark.parametrize("information", [0.0, 1e-300, 1e300])
def test_extreme_scales_neither_warn_nor_give_nan(information):
    for scale in (1e-200, 1.0, 1e150):
        floor = unbiased_error_floor(scale * np.eye(2), information)
        assert not any(math.isnan(x) for x in (floor.cramer_rao, floor.trace, floor.identifiable))
    none = unbiased_error_floor(np.zeros((3, 2)), 1.0)
    assert (none.cramer_rao, none.trace, none.identifiable, none.rank) == (math.inf, math.inf, 0, 0)


def test_cramer_rao_is_met_and_not_beaten_by_unbiased_estimators():
    generator = np.random.default_rng(5)
    draws, std = 40_000, 0.7
    jacobian = generator.normal(size=(6, 3)) * [3.0, 1.0, 0.2]
    record = np.array([1.0, -2.0, 0.5])
    floor = unbiased_error_floor(jacobian, 1 / std**2)
    releases = record @ jacobian.T + std * generator.normal(size=(draws, 6))

    def error(estimator: np.ndarray) -> tuple[float, float]:
        squares = ((releases @ estimator.T - record) ** 2).mean(axis=1)
        return squares.mean(), 5 * squares.std() / math.sqrt(draws)

    # Least squares attains the bound in a linear Gaussian model.
    best, margin = error(np.linalg.pinv(jacobian))
    assert abs(best - floor.cramer_rao) < margin
    assert best > floor.trace
    # Other unbiased estimators: generalised inverses with the wrong weights.
    for _ in range(5):
        weights = np.diag(generator.exponential(size=6))
        estimator = np.linalg.solve(jacobian.T @ weights @ jacobian, jacobian.T @ weights)
        np.testing.assert_allclose(estimator @ jacobian, np.eye(3), atol=1e-9)
        value, margin = error(estimator)
        assert value + margin > floor.cramer_rao


def test_von_mises_fisher_information_on_the_tangent_space():
    # In three dimensions A(κ) = coth κ − 1/κ, and the cosine can be drawn by inversion. The score
    # for a tangent displacement e of the mean direction is κ e·y; its variance is κ·A(κ).
    generator, kappa = np.random.default_rng(3), 4.0
    cosine = 1 + np.log1p(generator.random(400_000) * math.expm1(-2 * kappa)) / kappa
    angle = generator.uniform(0, 2 * math.pi, cosine.size)
    score = kappa * np.sqrt(1 - cosine**2) * np.cos(angle)
    information = kappa * (1 / math.tanh(kappa) - 1 / kappa)
    assert score.var() == pytest.approx(information, rel=0.01)
    tangent = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert unbiased_error_floor(tangent, information).cramer_rao == pytest.approx(1 / information)


def test_renyi_floor_against_the_gaussian_mechanism():
    # Release x + N(0, s²), x in [0, w]: D₂ between the ends is w²/s². The estimate x̂ = release
    # is unbiased with error s², which the floor may not exceed.
    for std in (0.1, 0.5, 1.0, 3.0):
        width = 2.0
        floor = renyi_error_floor(width**2 / std**2, width)
        assert floor <= std**2
    # Small ε₂ makes the bound tight up to the factor 4 lost in the distance to the far end.
    assert renyi_error_floor(width**2 / 1e8, width) == pytest.approx(1e8 / 4, rel=1e-6)


def test_renyi_floor_holds_for_randomised_response():
    # A bit kept with probability p; the unbiased estimate is (y − (1 − p))/(2p − 1).
    for p in (0.51, 0.6, 0.75, 0.9, 0.99):
        renyi_2 = math.log(p**2 / (1 - p) + (1 - p) ** 2 / p)
        error = p * (1 - p) / (2 * p - 1) ** 2
        floor = renyi_error_floor(renyi_2, 1.0)
        # Hammersley–Chapman–Robbins is exact for two records at the full distance.
        assert 4 * floor == pytest.approx(error)


def test_renyi_floor_values():
    assert renyi_error_floor(math.log(2), 1.0) == pytest.approx(0.25)
    assert renyi_error_floor(1.0, [1.0, 3.0]) == pytest.approx(1.25 / math.expm1(1))
    assert renyi_error_floor(0.0, 1.0) == math.inf
    assert renyi_error_floor(math.inf, 1.0) == 0
    assert renyi_error_floor(1e5, 1.0) == 0
    assert renyi_error_floor(0.0, 0.0) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fisher_information_matrix([1.0, 2.0], 1.0), "jacobian must be a matrix"),
        (lambda: fisher_information_matrix([[1.0], [1.0, 2.0]], 1.0), "jacobian must be"),
        (lambda: fisher_information_leakage([[math.nan]], 1.0), "jacobian must be finite"),
        (lambda: unbiased_error_floor([[1.0]], -1.0), "information must be 0 or more"),
        (lambda: unbiased_error_floor([[1.0]], math.nan), "information must be a number"),
        (lambda: renyi_error_floor(-1.0, 1.0), "renyi_2 must be 0 or more"),
        (lambda: renyi_error_floor(math.nan, 1.0), "renyi_2 must be a number"),
        (lambda: renyi_error_floor(1.0, [-1.0]), "diameters must be finite"),
        (lambda: renyi_error_floor(1.0, []), "diameters must be finite"),
        (lambda: renyi_error_floor(1.0, [math.inf]), "diameters must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
