"""Log capacities: Gaussian noise on a ball and von Mises-Fisher noise on the sphere."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from recondite.mechanisms import VonMisesFisher
from recondite.numerics.ball import log_gaussian_ball_capacity

pytestmark = pytest.mark.filterwarnings("error")

DIMS = (1, 2, 3, 5, 10, 50, 98, 99, 100, 101, 500)
RATIOS = (1e-9, 1e-6, 1e-3, 0.02, 0.1, 0.7, 1.0, 3.0, 10.0, 128.0, 1e4, 1e8)


@pytest.fixture(autouse=True)
def _no_floating_point_exception():
    with np.errstate(all="raise", under="ignore"):
        yield


def theorem_5(dim, ratio):
    """The finite sum of the paper's Theorem 5, corrected: C(p-1, i), and no 2 before the Γ."""
    p, r = int(dim), mp.mpf(ratio)
    inside = r**p / (mp.mpf(2) ** (mp.mpf(p) / 2) * mp.gamma(mp.mpf(p) / 2 + 1))
    # ∫ u^i e^{-u²/2} du = 2^{(i-1)/2} Γ((i+1)/2); the printed Z is twice the outer integral.
    z = sum(
        mp.binomial(p - 1, i)
        * r ** (p - 1 - i)
        * mp.mpf(2) ** (mp.mpf(i + 1) / 2)
        * mp.gamma(mp.mpf(i + 1) / 2)
        for i in range(p)
    )
    return mp.log(inside + z / (mp.gamma(mp.mpf(p) / 2) * mp.mpf(2) ** (mp.mpf(p) / 2)))


def by_quadrature(dim, ratio):
    """Inside and outside of the ball, the outside by adaptive quadrature."""
    p, r = mp.mpf(int(dim)), mp.mpf(ratio)
    n = p - 1
    inside = p * mp.log(r) - p / 2 * mp.log(2) - mp.loggamma(p / 2 + 1)
    mode = (mp.sqrt(r * r + 4 * n) - r) / 2
    top = n * mp.log(mode + r) - mode**2 / 2 if n else mp.mpf(0)

    def density(u):
        return mp.exp(n * mp.log(u + r) - u * u / 2 - top) if n else mp.exp(-u * u / 2)

    points = sorted({max(mp.mpf(0), mode + k) for k in range(-14, 15, 2)})
    outside = (1 - p / 2) * mp.log(2) - mp.loggamma(p / 2) + top + mp.log(mp.quad(density, points))
    return outside + mp.log1p(mp.exp(inside - outside))


def test_the_papers_check():
    # p = 2, σ = 1, R = 1: 1/2 + 1 + √(π/2) = 2.7533.
    exact = 0.5 + 1.0 + math.sqrt(math.pi / 2)
    assert round(exact, 4) == 2.7533
    assert math.exp(log_gaussian_ball_capacity(2, 1.0)) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(
    ("dim", "std", "radius", "value", "digits"),
    [
        (1_000, 1.23, 1.0, 25.53856922, 8),
        (13_700, 1.23, 1.0, 94.993368, 6),
        (13_700, 0.174, 3.0, 1945.5203, 4),
    ],
)
def test_known_values(dim, std, radius, value, digits):
    assert round(log_gaussian_ball_capacity(dim, radius / std), digits) == value


@pytest.mark.parametrize("dim", DIMS)
def test_against_the_corrected_theorem(dim):
    with mp.workdps(60):
        for ratio in RATIOS:
            exact = theorem_5(dim, ratio)
            assert abs(log_gaussian_ball_capacity(dim, ratio) / exact - 1) < 1e-12, ratio


@pytest.mark.parametrize("dim", [1, 2, 100, 13_700, 10**6, 10**9])
def test_against_quadrature(dim):
    with mp.workdps(50):
        for ratio in (1e-6, 0.1, 1.0, 130.0, 1e4, 1e7):
            exact = by_quadrature(dim, ratio)
            assert abs(log_gaussian_ball_capacity(dim, ratio) / exact - 1) < 1e-11, ratio


def test_against_brute_force_in_the_plane():
    # ∫ sup over the ball of the normal density, on a polar grid, without using its closed form.
    for ratio in (0.3, 1.0, 4.0):

        def ring(distance, radius=ratio):
            centres = np.linspace(0.0, radius, 2001)
            best = np.exp(-0.5 * (distance - centres) ** 2).max()
            return best * distance

        total = integrate.quad(ring, 0, ratio + 12, limit=400, points=[ratio])[0]
        assert log_gaussian_ball_capacity(2, ratio) == pytest.approx(math.log(total), abs=1e-6)


def test_one_dimension():
    # An interval of half-width R: 1 + 2R/√(2π).
    for ratio in RATIOS:
        exact = math.log1p(ratio * math.sqrt(2 / math.pi))
        assert log_gaussian_ball_capacity(1, ratio) == pytest.approx(exact, rel=1e-13)


def test_finite_and_monotone_everywhere():
    ratios = np.geomspace(1e-9, 1e9, 150)
    dims = [1, 2, 3, 10, 99, 100, 1_000, 10**4, 10**6, 10**8, 10**9]
    values = np.array([[log_gaussian_ball_capacity(p, float(r)) for r in ratios] for p in dims])
    assert np.isfinite(values).all()
    assert (values > 0).all()
    assert (np.diff(values, axis=1) > 0).all()  # a larger ball leaks more
    assert (np.diff(values, axis=0)[:, ratios < 1] > 0).all()


@pytest.mark.parametrize("ratio", [0.005, 0.5, 1.0, 9.9, 10.1, 100.0])
def test_no_jump_between_dimensions(ratio):
    # Methods change at dim 100, and where ratio = √(dim - 1) or 0.1/√dim. A jump of size h anywhere
    # would stand out of the (smooth) third difference by h or more.
    values = np.array([log_gaussian_ball_capacity(p, ratio) for p in range(60, 500)])
    third = np.diff(values, 3)
    kink = np.abs(third[1:-1] - 0.5 * (third[:-2] + third[2:]))
    assert np.all(kink <= 0.01 * np.abs(third[1:-1]) + 1e-12 * max(1.0, values.max()))


def test_no_jump_in_the_radius():
    # As a function of log radius, across both seams (0.1/√p and √(p-1)).
    for dim in (2, 100, 13_700, 10**9):
        for seam in (0.1 / math.sqrt(dim), math.sqrt(dim - 1)):
            left, right = (log_gaussian_ball_capacity(dim, seam * (1 + h)) for h in (-1e-9, 1e-9))
            slope = log_gaussian_ball_capacity(dim, seam * 1.001) - left
            expected = slope * 2e-9 / 1.001e-3
            assert abs((right - left) - expected) < 1e-11 * abs(right) + 0.01 * abs(expected)


@given(
    dim=st.floats(0, math.log(1e9)).map(lambda x: round(math.exp(x))),
    ratio=st.floats(math.log(1e-6), math.log(1e6)).map(math.exp),
)
@settings(deadline=None, max_examples=200)
def test_between_elementary_bounds(dim, ratio):
    # Below: volume of the ball, and 1. Above: a normal law shifted by the radius, per coordinate:
    # the ball lies in a cube, whose capacity is the p-th power of an interval's.
    value = log_gaussian_ball_capacity(dim, ratio)
    volume = dim * math.log(ratio) - 0.5 * dim * math.log(2) - math.lgamma(dim / 2 + 1)
    cube = dim * math.log1p(ratio * math.sqrt(2 / math.pi))
    assert max(0.0, volume) <= value * (1 + 1e-12)
    assert value <= cube * (1 + 1e-12)


@pytest.mark.parametrize(("kappa", "value"), [(75.0, 74.794711), (500.0, 490.881977)])
def test_vmf_capacity_at_the_papers_size(kappa, value):
    assert round(VonMisesFisher(kappa=kappa, dim=13_700).log_bayes_capacity(), 6) == value


def test_vmf_capacity_formula():
    # log 2 - log Γ(p/2) + ν log κ - (p/2) log 2 - log I_ν(κ) + κ, with mpmath's functions.
    generator = np.random.default_rng(3)
    with mp.workdps(60):
        for _ in range(150):
            dim = int(np.rint(np.exp(generator.uniform(np.log(2), np.log(1e9)))))
            kappa = float(np.exp(generator.uniform(np.log(1e-6), np.log(1e4))))
            if kappa**2 > 2_000 * dim:
                continue
            nu, k = mp.mpf(dim) / 2 - 1, mp.mpf(kappa)
            log_i = nu * mp.log(k / 2) - mp.loggamma(nu + 1) + mp.log(mp.hyp0f1(nu + 1, k * k / 4))
            exact = mp.log(2) - mp.loggamma(nu + 1) + nu * mp.log(k) - (nu + 1) * mp.log(2)
            exact += k - log_i
            ours = VonMisesFisher(kappa=kappa, dim=dim).log_bayes_capacity()
            assert abs(ours / exact - 1) < 1e-9


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("kappa", [0.1, 1.0, 8.0])
def test_vmf_capacity_is_the_integral_of_the_supremum(dim, kappa):
    # sup over x of the density at y is e^κ/C at every y: area × e^κ / C, with C by quadrature.
    if dim == 2:
        constant = integrate.quad(lambda a: math.exp(kappa * math.cos(a)), 0, 2 * math.pi)[0]
        area = 2 * math.pi
    else:
        constant = 2 * math.pi * integrate.quad(lambda t: math.exp(kappa * t), -1, 1)[0]
        area = 4 * math.pi
    exact = math.log(area / constant) + kappa
    ours = VonMisesFisher(kappa=kappa, dim=dim).log_bayes_capacity()
    assert ours == pytest.approx(exact, rel=1e-12)


def test_vmf_capacity_is_finite_and_monotone():
    kappas = np.geomspace(1e-6, 1e8, 100)
    for dim in (2, 3, 61, 62, 13_700, 10**6, 10**9):
        values = np.array(
            [VonMisesFisher(kappa=float(k), dim=dim).log_bayes_capacity() for k in kappas]
        )
        assert np.isfinite(values).all()
        assert (np.diff(values) > 0).all()
        assert (values <= kappas).all()
