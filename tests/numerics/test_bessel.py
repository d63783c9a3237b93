"""Log-Bessel functions against mpmath, a committed oracle and identities.

The oracle (tests/oracles/bessel.csv) has its generator next to it, which computes every value in
two or three independent ways; nothing in it comes from the package.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recondite.numerics import bessel
from recondite.numerics.bessel import bessel_ratio, log_0f1, log_0f1_difference, log_iv

pytestmark = pytest.mark.filterwarnings("error")

ORACLES = Path(__file__).parents[1] / "oracles"
# What theory asks for is 1e-12; what the code reaches is about 2e-14.
LOG_IV_ERROR = 1e-13
RELATIVE = 3e-14
ETA_ROOT = 0.6627434193491816


@pytest.fixture(autouse=True)
def _no_floating_point_exception():
    with np.errstate(all="raise"):
        yield


def _read(name, columns):
    """Columns of a table; values as pairs of doubles (rounded, rest), so 22 digits count."""
    with open(ORACLES / name, newline="") as file:
        rows = list(csv.DictReader(file))
    out = []
    for column in columns:
        exact = [mp.mpf(row[column]) for row in rows]
        high = np.array([float(value) for value in exact])
        low = np.array([float(value - float(value)) for value in exact])
        out.append((high, low))
    return out


@pytest.fixture(scope="module")
def table():
    with mp.workdps(30):
        (dim, _), (argument, _), iv, f, ratio = _read(
            "bessel.csv", ["dim", "argument", "log_iv", "log_0f1", "ratio"]
        )
    return dim, argument, iv, f, ratio


def _error(ours, exact):
    return np.abs((ours - exact[0]) - exact[1])


def test_the_table_covers_the_domain(table):
    dim, argument, *_ = table
    assert len(dim) >= 2_500
    assert (dim.min(), dim.max()) == (2, 1e9)
    assert argument.min() <= 1.1e-6
    assert argument.max() >= 9.9e7
    # Every quadrant of the domain is there, corners included.
    cells = np.histogram2d(np.log(dim), np.log(argument), bins=(6, 6))[0]
    assert cells.min() >= 15


def test_log_iv(table):
    dim, argument, exact, _, _ = table
    error = _error(log_iv(0.5 * dim - 1.0, argument), exact)
    assert np.all(error <= LOG_IV_ERROR * np.maximum(1.0, np.abs(exact[0])))


def test_log_0f1_is_relatively_exact(table):
    dim, argument, _, exact, _ = table
    assert np.all(_error(log_0f1(dim, argument), exact) <= RELATIVE * exact[0])
    assert exact[0].min() < 1e-20  # small values too


def test_ratio_is_relatively_exact(table):
    dim, argument, _, _, exact = table
    assert np.all(_error(bessel_ratio(0.5 * dim - 1.0, argument), exact) <= RELATIVE * exact[0])


def test_the_compensated_corner_is_in_the_table_and_needed(table, monkeypatch):
    # Where log I crosses zero at large order, order·eta is a rounding error of its two terms.
    dim, argument, exact, _, _ = table
    order = 0.5 * dim - 1.0
    corner = (order > 1e5) & (np.abs(exact[0]) < 10)
    assert corner.sum() >= 20
    allowed = 1e-12 * np.maximum(1.0, np.abs(exact[0][corner]))
    ours = log_iv(order[corner], argument[corner])
    assert np.all(_error(ours, (exact[0][corner], exact[1][corner])) <= allowed)
    monkeypatch.setattr(bessel, "_ETA_ROOT", (1e9, 0.0))
    plain = log_iv(order[corner], argument[corner])
    assert np.max(_error(plain, (exact[0][corner], exact[1][corner])) / allowed) > 100


def test_eta_constants():
    with mp.workdps(50):
        root = mp.findroot(
            lambda z: mp.sqrt(1 + z * z) + mp.log(z / (1 + mp.sqrt(1 + z * z))), 0.66
        )
        high, low = bessel._ETA_ROOT
        assert abs(root - mp.mpf(high) - mp.mpf(low)) < mp.mpf(10) ** -32
        assert high == pytest.approx(ETA_ROOT, rel=1e-15)


def _live_points(count, seed):
    generator = np.random.default_rng(seed)
    while count:
        dim = int(np.rint(np.exp(generator.uniform(np.log(2), np.log(1e9)))))
        argument = float(np.exp(generator.uniform(np.log(1e-6), np.log(1e8))))
        order = dim / 2 - 1
        terms = argument**2 / (order + math.hypot(order, argument))
        if terms < 600 or order**2 < 2 * argument:  # where mpmath is quick and converges
            count -= 1
            yield dim, argument


def test_against_mpmath_live():
    with mp.workdps(40):
        for dim, argument in _live_points(300, seed=5):
            order = mp.mpf(dim) / 2 - 1
            x = mp.mpf(argument) ** 2 / 4
            f = mp.hyp0f1(order + 1, x)
            log_f = mp.log(f)
            log_i = log_f + order * mp.log(mp.mpf(argument) / 2) - mp.loggamma(order + 1)
            ratio = mp.mpf(argument) / (2 * (order + 1)) * mp.hyp0f1(order + 2, x) / f
            nu = dim / 2 - 1
            where = f"dim {dim}, argument {argument!r}"
            assert abs(float(log_iv(nu, argument)) - log_i) <= LOG_IV_ERROR * max(1, abs(log_i)), (
                where
            )
            assert abs(float(log_0f1(dim, argument)) / log_f - 1) <= RELATIVE, where
            assert abs(float(bessel_ratio(nu, argument)) / ratio - 1) <= RELATIVE, where


def test_against_besseli_at_real_orders():
    # Orders need not be half-integers.
    generator = np.random.default_rng(8)
    with mp.workdps(40):
        for order in np.concatenate([generator.uniform(0, 60, 40), [0.0, 29.999, 30.0, 30.001]]):
            argument = float(np.exp(generator.uniform(np.log(1e-3), np.log(1e4))))
            exact = mp.besseli(mp.mpf(order), mp.mpf(argument))
            above = mp.besseli(mp.mpf(order) + 1, mp.mpf(argument)) / exact
            log_i = mp.log(exact)
            error = abs(float(log_iv(order, argument)) - log_i)
            assert error <= LOG_IV_ERROR * max(1, abs(log_i))
            assert abs(float(bessel_ratio(order, argument)) / above - 1) <= RELATIVE


def test_difference_keeps_its_relative_precision():
    with mp.workdps(30):
        (dim, _), (upper, _), (lower, _), exact = _read(
            "bessel_difference.csv", ["dim", "upper", "lower", "difference"]
        )
    assert len(dim) >= 200
    ours = log_0f1_difference(dim, upper, lower)
    assert np.all(_error(ours, exact) <= 1e-13 * exact[0])
    np.testing.assert_array_equal(log_0f1_difference(dim, upper, upper), 0.0)
    np.testing.assert_allclose(log_0f1_difference(dim, lower, upper), -ours, rtol=1e-13)
    # Two large logs would not do: the table holds arguments one double apart.
    plain = log_0f1(dim, upper) - log_0f1(dim, lower)
    assert np.max(_error(plain, exact) / exact[0]) > 1e-3


def test_difference_over_a_factor_of_orders():
    # As accounting calls it: (2α - 1)κ against κ for Rényi orders up to 1e6.
    alpha = np.array([1 + 1e-5, 1.01, 1.5, 2.0, 64.0, 1e4, 1e6])
    with mp.workdps(50):
        for dim, kappa in ((2, 0.5), (3, 50.0), (62, 300.0)):
            ours = log_0f1_difference(dim, (2 * alpha - 1) * kappa, kappa)
            for a, value in zip((2 * alpha - 1) * kappa, ours, strict=True):
                big, small = (mp.besseli(mp.mpf(dim) / 2 - 1, mp.mpf(x)) for x in (a, kappa))
                rise = mp.log(big / small) - (mp.mpf(dim) / 2 - 1) * mp.log(mp.mpf(a) / kappa)
                assert abs(value / rise - 1) < 1e-12


@pytest.mark.parametrize("argument", [1e-6, 1e-3, 0.5, 3.99, 4.0, 4.01, 50.0, 7e2, 1e5, 1e8, 1e12])
def test_closed_form_on_the_ordinary_sphere(argument):
    # p = 3: 0F1 = sinh(κ)/κ, I_{1/2} = sqrt(2/πκ)·sinh κ, A = coth κ - 1/κ.
    with mp.workdps(50):
        k = mp.mpf(argument)
        sinh = (1 - mp.exp(-2 * k)) / 2
        log_f = k + mp.log(sinh / k)
        log_i = k + mp.log(mp.sqrt(2 / (mp.pi * k)) * sinh)
        ratio = mp.coth(k) - 1 / k
        assert abs(float(log_0f1(3, argument)) / log_f - 1) < RELATIVE
        assert abs(float(bessel_ratio(0.5, argument)) / ratio - 1) < RELATIVE
        assert abs(float(log_iv(0.5, argument)) - log_i) < LOG_IV_ERROR * max(1, abs(log_i))


@pytest.mark.parametrize("argument", [1e-6, 0.1, 1.0, 3.9999, 4.0001, 30.0, 1e4, 1e8, 1e12])
def test_closed_form_on_the_circle(argument):
    # p = 2: the mean of exp(κ cos θ) over the circle is I_0, and A = I_1/I_0.
    with mp.workdps(50):
        zero, one = mp.besseli(0, mp.mpf(argument)), mp.besseli(1, mp.mpf(argument))
        assert abs(float(log_0f1(2, argument)) / mp.log(zero) - 1) < RELATIVE
        assert abs(float(log_iv(0, argument)) - mp.log(zero)) < LOG_IV_ERROR * max(1, mp.log(zero))
        assert abs(float(bessel_ratio(0, argument)) / (one / zero) - 1) < RELATIVE


@pytest.mark.parametrize("dim", [2, 3, 7, 20, 61])
@pytest.mark.parametrize("argument", [9_999.999, 10_000.001, 1e9, 2**30 + 1, 3e9, 1e12])
def test_large_arguments_of_low_order(dim, argument):
    # Rényi orders reach 1e6, so arguments far above the largest κ are asked for. SciPy's own
    # function gives NaN above 2^30.
    with mp.workdps(50):
        order = mp.mpf(dim) / 2 - 1
        exact, above = (mp.besseli(order + j, mp.mpf(argument)) for j in (0, 1))
        log_f = mp.log(exact) + mp.loggamma(order + 1) - order * mp.log(mp.mpf(argument) / 2)
        assert abs(float(log_0f1(dim, argument)) / log_f - 1) < RELATIVE
        assert abs(float(bessel_ratio(dim / 2 - 1, argument)) / (above / exact) - 1) < RELATIVE


def test_values_at_zero():
    assert log_0f1([2, 3, 62, 10**9], 0.0).tolist() == [0.0] * 4
    assert bessel_ratio([0.0, 0.5, 30.0, 5e8], 0.0).tolist() == [0.0] * 4
    assert log_iv([0.0, 0.5, 30.0, 5e8], 0.0).tolist() == [0.0, -np.inf, -np.inf, -np.inf]


def test_tiny_arguments_keep_their_precision():
    # Leading term κ²/2p, down to values of 1e-300.
    for dim in (2, 3, 62, 1e6):
        for argument in (1e-9, 1e-50, 1e-140):
            exact = argument * argument / (2 * dim)
            assert float(log_0f1(dim, argument)) == pytest.approx(exact, rel=1e-14)
            assert float(bessel_ratio(dim / 2 - 1, argument)) == pytest.approx(
                argument / dim, rel=1e-14
            )


def test_shapes_and_types():
    assert log_0f1(3, 1.0).shape == ()
    assert log_iv(np.ones((3, 1)), np.ones(4)).shape == (3, 4)
    assert bessel_ratio([], []).shape == (0,)
    assert log_0f1_difference(3, [[2.0, 3.0]], 1.0).shape == (1, 2)
    assert log_0f1([2, 13_700, 10**9], [1, 75, 3]).dtype == np.float64
    # A batch gives what its elements give: the number of terms is shared within it.
    dim, argument = np.array([62.0, 64, 1e3, 1e9]), np.array([1e3, 50, 800, 1e8])
    one_by_one = [float(log_0f1(d, a)) for d, a in zip(dim, argument, strict=True)]
    np.testing.assert_allclose(log_0f1(dim, argument), one_by_one, rtol=5e-16)


def test_a_dense_grid_has_no_nan_and_no_warning():
    dim = np.unique(np.rint(np.geomspace(2, 1e9, 300)))[:, None]
    argument = np.geomspace(1e-6, 1e8, 400)[None, :]
    order = 0.5 * dim - 1.0
    f, ratio, iv = log_0f1(dim, argument), bessel_ratio(order, argument), log_iv(order, argument)
    for values in (f, ratio, iv):
        assert np.isfinite(values).all()
    assert ((ratio > 0) & (ratio < 1)).all()
    # Λ grows with κ and falls with the dimension; so does its derivative A. I_ν likewise.
    for values in (f, ratio, iv):
        assert (np.diff(values, axis=1) > 0).all()
        assert (np.diff(values, axis=0) <= 5e-16 * np.abs(values[1:])).all()
    # 0 < Λ < κA < κ (Λ is convex with Λ(0) = 0 and slope A).
    assert ((f > 0) & (f < argument * ratio) & (argument * ratio < argument)).all()


domain = {
    "dim": st.floats(math.log(2), math.log(1e9)).map(lambda x: round(math.exp(x))),
    "argument": st.floats(math.log(1e-6), math.log(1e8)).map(math.exp),
}


@given(**domain)
@settings(deadline=None, max_examples=300)
def test_recurrence(dim, argument):
    # I_{ν-1} - I_{ν+1} = (2ν/x) I_ν, divided by I_ν: both ratios come from bessel_ratio, and from
    # differences of logs where those are small enough to carry digits.
    order = dim / 2 - 1
    ratio, above = (float(bessel_ratio(order + j, argument)) for j in (0, 1))
    coefficient = 2 * (order + 1) / argument
    assert 1 / ratio - above == pytest.approx(coefficient, rel=1e-13, abs=1e-13)
    logs = [float(log_iv(order + j, argument)) for j in (0, 1, 2)]
    size = max(1.0, *map(abs, logs))
    if size < 1e6:
        left = math.exp(logs[0] - logs[1]) - math.exp(logs[2] - logs[1])
        assert left == pytest.approx(coefficient, rel=1e-12 * size, abs=1e-12 * size)


@given(**domain)
@settings(deadline=None, max_examples=300)
def test_ratio_lies_between_amos_bounds(dim, argument):
    # Amos (1974): x/(ν+1/2+√((ν+3/2)²+x²)) < A < x/(ν+√((ν+2)²+x²)).
    order = dim / 2 - 1
    ratio = float(bessel_ratio(order, argument))
    low = argument / (order + 0.5 + math.hypot(order + 1.5, argument))
    high = argument / (order + math.hypot(order + 2, argument))
    assert low * (1 - 1e-14) <= ratio <= high * (1 + 1e-14)


@given(**domain, gap=st.floats(-18, 0).map(lambda x: 10**x))
@settings(deadline=None, max_examples=300)
def test_difference_is_between_its_slopes(dim, argument, gap):
    # Λ is convex with slope A: (b-a)A(a) <= Λ(b) - Λ(a) <= (b-a)A(b).
    upper = argument * (1 + gap)
    width = upper - argument
    ours = float(log_0f1_difference(dim, upper, argument))
    slopes = [float(bessel_ratio(dim / 2 - 1, x)) for x in (argument, upper)]
    assert width * slopes[0] * (1 - 1e-14) <= ours <= width * slopes[1] * (1 + 1e-14)


@given(**domain)
@settings(deadline=None, max_examples=200)
def test_continuous_across_every_seam(dim, argument):
    # A relative step of 1e-9 moves Λ by κA·1e-9 (first order), wherever the code changes method.
    step = argument * 1e-9
    rise = float(log_0f1(dim, argument + step)) - float(log_0f1(dim, argument))
    slope = float(bessel_ratio(dim / 2 - 1, argument))
    size = float(log_0f1(dim, argument))
    assert abs(rise - slope * step) <= 5e-14 * size + 1e-8 * slope * step


def test_seams_in_order():
    # Just below and just above order 30 the two methods agree to first order in the order.
    for argument in (1.0, 23.0, 31.0, 200.0, 1e4, 1e8):
        left, mid, right = (float(log_0f1(62 + h, argument)) for h in (-1e-6, 0.0, 1e-6))
        assert abs(left - 2 * mid + right) <= 1e-13 * max(1.0, mid)
        left, mid, right = (float(bessel_ratio(30 + h, argument)) for h in (-1e-6, 0.0, 1e-6))
        assert abs(left - 2 * mid + right) <= 1e-13
