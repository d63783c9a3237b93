"""The sampler: exact law, uniform tangents, fresh entropy, every scale, library and shape."""

from __future__ import annotations

import math
import secrets
import tracemalloc

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recondite.numerics import random as source_module
from recondite.numerics import sphere_vector
from recondite.numerics.random import NumpySource, TorchSource, is_torch, random_source
from recondite.numerics.secure import SecureGenerator
from recondite.numerics.sphere import cosines, sample_vmf

DIMS = (2, 3, 10, 1_000, 13_700, 10**6)
KAPPAS = (0.0, 0.1, 10.0, 1e3, 1e6)
# Family-wise level over everything that is tested here with a random outcome (seeds are fixed,
# so this only says how surprising a failure would be).
LEVEL = 1e-3 / 150


def log_cosh(x):
    a = np.abs(x)
    far = a + np.log1p(np.exp(-2 * a)) - math.log(2)
    return np.where(a < 1, np.log1p(2 * np.sinh(0.5 * np.minimum(a, 1)) ** 2), far)


class LatitudeLaw:
    """Exact law of x = artanh(t), density ∝ sech(x)^(p-1) e^(κ tanh x), by quadrature.

    Smooth and unimodal for every p and κ. Independent of the package's log-Bessel functions: the
    constant is the integral itself.
    """

    def __init__(self, dim, kappa):
        self.dim, self.kappa = dim, kappa
        mode = 2 * kappa / (dim - 1 + math.hypot(dim - 1, 2 * kappa))
        self.centre = math.atanh(mode)
        curvature = (dim - 1 + 2 * kappa * mode) * (1 - mode**2)
        self.width = 1 / math.sqrt(curvature)
        self.top = float(self.height(np.array(self.centre)))

    def height(self, x):
        return -(self.dim - 1) * log_cosh(x) + self.kappa * np.tanh(x)

    def masses(self, edges):
        """Unnormalised mass between consecutive edges, each cell cut to a fraction of the width."""
        nodes, weights = np.polynomial.legendre.leggauss(16)
        half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
        x = middle[:, None] + half[:, None] * nodes
        return half * (np.exp(self.height(x) - self.top) @ weights)

    def cdf(self, x):
        """Exact CDF at sorted points."""
        reach = self.centre + self.width * np.linspace(-60, 60, 241)
        # Tails may be exponential (p = 2): go on until nothing is left.
        far = self.centre + self.width * np.array([-2000, -500, -120, 120, 500, 2000])
        edges = np.unique(np.concatenate([far, reach, x]))
        total = np.cumsum(self.masses(edges))
        place = np.searchsorted(edges, x)
        return np.concatenate([[0.0], total])[place] / total[-1]

    def p_value(self, t, s):
        """p-value of a Kolmogorov-Smirnov test; artanh(t) = asinh(t/s), exact also at t ≈ ±1."""
        x = np.sort(np.arcsinh(t / s))
        return stats.kstest(self.cdf(x), "uniform").pvalue


def moments(dim, kappa):
    """Mean and variance of the cosine, from mpmath."""
    if kappa == 0:
        return 0.0, 1.0 / dim
    if kappa > 1e5:  # the series is too long
        law = LatitudeLaw(dim, kappa)
        edges = law.centre + law.width * np.linspace(-60, 60, 4001)
        mass = law.masses(edges)
        middle = np.tanh(0.5 * (edges[1:] + edges[:-1]))
        mean = float((mass * middle).sum() / mass.sum())
        return mean, float((mass * (middle - mean) ** 2).sum() / mass.sum())
    with mp.workdps(40):
        half, x = mp.mpf(dim) / 2, mp.mpf(kappa) ** 2 / 4
        a = mp.mpf(kappa) / dim * mp.hyp0f1(half + 1, x) / mp.hyp0f1(half, x)
        return float(a), float(1 - a**2 - (dim - 1) * a / kappa)


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("dim", DIMS)
def test_cosine_follows_its_exact_law(dim, kappa):
    generator = np.random.default_rng([dim, int(10 * kappa)])
    t, s = cosines(20_000, dim, kappa, generator=generator)
    assert t.dtype == s.dtype == np.float64
    np.testing.assert_allclose(t * t + s * s, 1.0, rtol=1e-14)
    assert LatitudeLaw(dim, kappa).p_value(t, s) > LEVEL
    mean, variance = moments(dim, kappa)
    assert abs(t.mean() - mean) < 5 * math.sqrt(variance / len(t))


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.1), (3, 10.0), (1_000, 1e3), (13_700, 75.0)])
def test_cosine_on_torch(dim, kappa):
    generator = torch.Generator().manual_seed(dim)
    t, s = cosines(20_000, dim, kappa, like=torch.empty(0), generator=generator)
    assert t.dtype == torch.float64
    assert LatitudeLaw(dim, kappa).p_value(t.numpy(), s.numpy()) > LEVEL


@pytest.mark.parametrize(("dim", "kappa"), [(2, 10.0), (3, 1e3), (1_000, 1e3), (13_700, 75.0)])
def test_the_test_can_fail(dim, kappa):
    # Another κ or another dimension is recognised with the same number of draws.
    generator = np.random.default_rng(1)
    t, s = cosines(20_000, dim, 1.2 * kappa, generator=generator)
    assert LatitudeLaw(dim, kappa).p_value(t, s) < LEVEL
    if kappa >= dim:
        t, s = cosines(20_000, dim + max(1, dim // 5), kappa, generator=generator)
        assert LatitudeLaw(dim, kappa).p_value(t, s) < LEVEL


def test_circle_against_scipys_vonmises():
    t, s = cosines(20_000, 2, 3.0, generator=np.random.default_rng(2))
    angle = np.arctan2(s, t) * np.where(np.random.default_rng(3).random(20_000) < 0.5, 1, -1)
    assert stats.kstest(angle, stats.vonmises(3.0).cdf).pvalue > LEVEL


def test_sphere_against_its_closed_form():
    # p = 3: the cosine has CDF (e^{κt} - e^{-κ})/(e^κ - e^{-κ}).
    t, _ = cosines(20_000, 3, 2.5, generator=np.random.default_rng(2))
    cdf = (np.exp(2.5 * t) - np.exp(-2.5)) / (2 * np.sinh(2.5))
    assert stats.kstest(cdf, "uniform").pvalue > LEVEL


@pytest.mark.parametrize(("dim", "kappa"), [(2, 1e8), (10, 1e8), (10**6, 1e8), (10**9, 1e4)])
def test_cosine_at_the_ends_of_the_domain(dim, kappa):
    t, s = cosines(20_000, dim, kappa, generator=np.random.default_rng(4))
    assert np.isfinite(t).all()
    assert (s > 0).all()
    assert LatitudeLaw(dim, kappa).p_value(t, s) > LEVEL


def tangents(dim, kappa, count, library, dtype=np.float64, seed=0):
    """(rows, releases, cosines, tangent units), one random direction for all rows."""
    generator = np.random.default_rng([seed, dim])
    x = generator.standard_normal(dim)
    x /= np.linalg.norm(x)
    rows = np.tile(3.7 * x, (count, 1)).astype(dtype)
    if library == "torch":
        seeded = torch.Generator().manual_seed(seed)
        y = sample_vmf(torch.from_numpy(rows), kappa, seeded).numpy()
    else:
        y = sample_vmf(rows, kappa, generator)
    assert y.dtype == dtype
    t = y @ x
    rest = y - t[:, None] * x
    return x, y, t, rest / np.linalg.norm(rest, axis=1)[:, None]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("dim", "kappa", "count"),
    [
        (2, 1.0, 20_000),
        (3, 10.0, 20_000),
        (10, 5.0, 20_000),
        (255, 30.0, 8_000),
        (256, 30.0, 8_000),
        (1_000, 1e3, 2_000),
        (13_700, 75.0, 200),
    ],
)
def test_release_has_the_right_cosine_and_a_uniform_tangent(dim, kappa, count, library):
    x, y, t, w = tangents(dim, kappa, count, library)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1.0, rtol=1e-12)
    s = np.sqrt(1 - t * t) if dim > 2 else np.abs(y @ np.array([-x[1], x[0]]))
    assert LatitudeLaw(dim, kappa).p_value(t, s) > LEVEL
    np.testing.assert_allclose(w @ x, 0.0, atol=1e-10)
    # A coordinate along any fixed direction v orthogonal to x is that of a uniform point of the
    # sphere in p - 1 dimensions: (1 + w·v)/2 has law Beta(p/2 - 1, p/2 - 1).
    generator = np.random.default_rng(9)
    for _ in range(2):
        v = generator.standard_normal(dim)
        v -= (v @ x) * x
        v /= np.linalg.norm(v)
        c = w @ v
        assert abs(c.mean()) < 5 / math.sqrt(count * (dim - 1))
        assert np.mean(c * c) == pytest.approx(1 / (dim - 1), rel=8 * math.sqrt(2 / count))
        if dim == 2:
            np.testing.assert_allclose(np.abs(c), 1.0, rtol=1e-6)
            assert stats.binomtest(int((c > 0).sum()), count).pvalue > LEVEL
        else:
            law = stats.beta(dim / 2 - 1, dim / 2 - 1)
            assert stats.kstest(0.5 * (1 + c), law.cdf).pvalue > LEVEL
        # The tangent does not know the cosine.
        assert abs(np.corrcoef(c, t)[0, 1]) < 5 / math.sqrt(count)


def test_tangent_covariance_is_isotropic():
    x, _, _, w = tangents(6, 4.0, 100_000, "numpy")
    covariance = w.T @ w / len(w)
    exact = (np.eye(6) - np.outer(x, x)) / 5
    assert np.abs(covariance - exact).max() < 5 * math.sqrt(2 / len(w)) / 5


def test_a_million_coordinates():
    x, y, t, w = tangents(10**6, 1e3, 2, "numpy")
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1.0, rtol=1e-12)
    assert np.all(np.abs(t - 1e-3) < 6e-3)  # mean κ/p, deviation 1/√p
    # At this dimension the coordinates of the tangent are normal to four digits.
    assert stats.kstest(w[0][:50_000] * 1e3, "norm").pvalue > LEVEL
    assert abs(np.corrcoef(w[0], w[1])[0, 1]) < 5e-3
    assert np.all(np.abs(w @ x) < 1e-10)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [2, 10, 255, 256, 5_000, 10**6])
def test_unit_norm(dim, dtype, library):
    rows = np.random.default_rng(0).standard_normal((3, dim)).astype(dtype)
    given_rows = torch.from_numpy(rows) if library == "torch" else rows
    before = rows.copy()
    for kappa in (0.0, 50.0, 1e6, 1e8):
        y = np.asarray(sample_vmf(given_rows, kappa))
        assert y.dtype == dtype
        norms = np.linalg.norm(y.astype(np.float64), axis=1)
        np.testing.assert_allclose(norms, 1.0, rtol=3e-7 if dtype == np.float32 else 1e-13)
    np.testing.assert_array_equal(rows, before)  # the input is left alone


@pytest.mark.parametrize("dim", [2, 255, 256, 13_700, 65_536, 65_537, 10**6, 10**7])
def test_unit_norm_of_a_single_row(dim):
    # As a training step draws it. A running sum in single precision would be off by 1e-4 here.
    rows = torch.empty(dim).normal_(generator=torch.Generator().manual_seed(3))
    y = sample_vmf(rows, 50.0)
    assert float(y.double().norm()) == pytest.approx(1.0, abs=1e-6)
    assert y.shape == (dim,)


@pytest.mark.parametrize("piece", [None, 120])
@pytest.mark.parametrize(("dim", "kappa"), [(256, 0.0), (300, 60.0), (13_700, 2_000.0)])
def test_single_rows_follow_the_same_law(monkeypatch, dim, kappa, piece):
    # One row on torch has a path of its own, and so have long ones, which are drawn in pieces.
    if piece is not None:
        monkeypatch.setattr(sphere_vector, "_PIECE", piece)
    generator = torch.Generator().manual_seed(dim)
    x = torch.linspace(1.0, 2.0, dim, dtype=torch.float64)
    draws = torch.stack([sample_vmf(x, kappa, generator) for _ in range(2_000)]).numpy()
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1.0, rtol=1e-12)
    unit = x.numpy() / np.linalg.norm(x.numpy())
    t = draws @ unit
    assert LatitudeLaw(dim, kappa).p_value(t, np.sqrt(1 - t * t)) > LEVEL
    v = np.cos(np.arange(dim))
    v -= (v @ unit) * unit
    v /= np.linalg.norm(v)
    c = (draws @ v) / np.sqrt(1 - t * t)
    assert stats.kstest(0.5 * (1 + c), stats.beta(dim / 2 - 1, dim / 2 - 1).cdf).pvalue > LEVEL
    assert abs(np.corrcoef(c, t)[0, 1]) < 5 / math.sqrt(len(t))
    same = [sample_vmf(x, kappa, torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*same)


def test_pieces_change_nothing_but_rounding(monkeypatch):
    row = torch.linspace(1.0, 2.0, 8_000)
    whole = sample_vmf(row, 90.0, torch.Generator().manual_seed(1))
    monkeypatch.setattr(sphere_vector, "_PIECE", 1_600)
    pieces = sample_vmf(row, 90.0, torch.Generator().manual_seed(1))
    assert torch.allclose(whole, pieces, rtol=1e-4, atol=1e-8)
    assert not torch.equal(pieces, sample_vmf(row, 90.0))


def test_a_long_row_made_with_the_same_seed(monkeypatch):
    monkeypatch.setattr(sphere_vector, "_PIECE", 400)
    row = torch.empty(4_000).normal_(generator=torch.Generator().manual_seed(1))
    drawn = sample_vmf(row, 4_000.0, torch.Generator().manual_seed(1))
    cosine = float(drawn.double() @ row.double() / row.double().norm())
    assert 0.5 < cosine < 0.7  # A_p(κ) is 0.62: noise along the row alone would give 1


@pytest.mark.parametrize("secure", [False, True])
def test_long_rows_in_secure_mode_too(monkeypatch, secure):
    monkeypatch.setattr(sphere_vector, "_PIECE", 500)
    row = torch.linspace(1.0, 2.0, 2_100)
    drawn = sample_vmf(row, 50.0, SecureGenerator() if secure else None)
    assert float(drawn.double().norm()) == pytest.approx(1.0, abs=1e-6)
    assert not torch.equal(drawn, row / row.norm())


@pytest.mark.parametrize("piece", [10**9, 100])
@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-21, 1e-11, 1e11, 1e30])
def test_single_rows_of_any_scale(monkeypatch, scale, piece):
    monkeypatch.setattr(sphere_vector, "_PIECE", piece)
    row = torch.linspace(0.5, 1.0, 300) * scale
    exact = row.double() / row.double().norm()
    y = torch.stack([sample_vmf(row, 3e5) for _ in range(100)]).double()
    assert float((y.norm(dim=1) - 1).abs().max()) < 1e-6
    assert float((1 - y @ exact).mean()) == pytest.approx(5e-4, rel=0.1)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dim", [2, 10, 300])
def test_zero_rows_get_a_uniform_direction_on_request(dim, library):
    # What a training step needs: nothing raised, nothing skipped, and no trace of the others.
    count = 4_000
    rows = np.zeros((count, dim))
    rows[::2] = np.linspace(1.0, 2.0, dim)
    given_rows = torch.from_numpy(rows) if library == "torch" else rows
    generator = torch.Generator() if library == "torch" else np.random.default_rng(0)
    y = np.asarray(sample_vmf(given_rows, 50.0, generator, zero="uniform"))
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1.0, rtol=1e-12)
    unit = rows[0] / np.linalg.norm(rows[0])
    t, flat = y[::2] @ unit, y[1::2] @ unit
    aside = np.linalg.norm(y[::2] - t[:, None] * unit, axis=1)
    assert LatitudeLaw(dim, 50.0).p_value(t, aside) > LEVEL
    assert LatitudeLaw(dim, 0.0).p_value(flat, np.sqrt(1 - flat * flat)) > LEVEL
    single = given_rows[1]
    drawn = np.asarray(sample_vmf(single, 50.0, zero="uniform"))
    assert np.linalg.norm(drawn) == pytest.approx(1.0)
    bad = rows.copy()
    bad[1, 0] = math.nan
    with pytest.raises(ValueError, match="finite"):
        sample_vmf(torch.from_numpy(bad) if library == "torch" else bad, 50.0, zero="uniform")


@pytest.mark.parametrize("shape", [(7,), (1, 7), (4, 7), (2, 3, 7), (0, 7), (2, 0, 7), (300,)])
def test_batched_shapes(shape):
    rows = np.random.default_rng(0).standard_normal(shape)
    y = sample_vmf(rows, 5.0)
    z = sample_vmf(torch.from_numpy(rows), 5.0)
    assert y.shape == shape == tuple(z.shape)
    np.testing.assert_allclose(np.linalg.norm(y, axis=-1), 1.0)
    if y.size > 7 and len(shape) > 1:
        flat = y.reshape(-1, shape[-1])
        assert len({row.tobytes() for row in flat}) == len(flat)  # rows get noise of their own


def test_views_and_strides():
    base = np.random.default_rng(0).standard_normal((300, 5, 8))
    for rows in (
        base[::2, 1:4, ::-1],
        base.transpose(1, 2, 0),
        np.broadcast_to(base[0, 0], (6, 8)),
    ):
        y = sample_vmf(rows, 1e9)
        unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
        np.testing.assert_allclose(y, unit, atol=1e-2)
        z = sample_vmf(torch.from_numpy(np.array(rows)).flip(-1), 1e9).numpy()
        np.testing.assert_allclose(z, unit[..., ::-1], atol=1e-2)
    row = torch.ones(5_000)
    assert sample_vmf(row.expand(3, 5_000), 1.0).shape == (3, 5_000)
    assert len(torch.unique(sample_vmf(row.expand(3, 5_000), 1.0)[:, 0])) == 3


def test_directions_follow_their_own_rows():
    # Not the mean of the batch, not the first row.
    rows = np.eye(300)[:20]
    y = sample_vmf(rows, 1e5)
    assert (np.argmax(y, axis=1) == np.arange(20)).all()


@pytest.mark.parametrize("dim", [5, 400])
def test_deterministic_under_a_generator(dim):
    rows = np.ones((4, dim))
    one, two = (sample_vmf(rows, 3.0, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, sample_vmf(rows, 3.0, np.random.default_rng(6)))
    tensor = torch.ones(4, dim)
    a, b = (sample_vmf(tensor, 3.0, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(a, b)
    shared = np.random.default_rng(5)
    first = sample_vmf(rows, 3.0, shared)
    assert not np.array_equal(first, sample_vmf(rows, 3.0, shared))  # a generator moves on


@pytest.mark.parametrize("dim", [2, 3, 255, 256, 5_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gradient_made_with_the_same_seed(dim, dtype):
    # The first Gaussian vector is then parallel to the row, and its tangent nothing but rounding.
    rows = np.random.default_rng(5).standard_normal((20, dim), dtype=dtype)
    tensor = torch.empty(20, dim).normal_(generator=torch.Generator().manual_seed(5))
    for given_rows, generator in (
        (rows, np.random.default_rng(5)),
        (tensor, torch.Generator().manual_seed(5)),
    ):
        y = np.asarray(sample_vmf(given_rows, 1.0, generator), dtype=np.float64)
        np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1.0, rtol=3e-7)
        units = np.asarray(given_rows, dtype=np.float64)
        units /= np.linalg.norm(units, axis=1)[:, None]
        cosine = (y * units).sum(-1)
        if dim > 3:  # mean κ/p, deviation 1/√p: nowhere near parallel
            assert np.abs(cosine).max() < 1 / dim + 6 / math.sqrt(dim)


def test_fresh_entropy_whatever_was_seeded():
    rows, tensor = np.ones((2, 300)), torch.ones(2, 300)
    seen = set()
    for _ in range(4):
        np.random.seed(0)  # noqa: NPY002  (what a user's script does)
        torch.manual_seed(0)
        seen.add(sample_vmf(rows, 1.0).tobytes())
        seen.add(sample_vmf(tensor, 1.0).numpy().tobytes())
    assert len(seen) == 8
    # And it leaves the global generators alone.
    torch.manual_seed(0)
    before = torch.get_rng_state()
    sample_vmf(tensor, 1.0)
    assert torch.equal(before, torch.get_rng_state())


def test_torch_state_is_all_entropy(monkeypatch):
    # Were only the seed fresh, 32 bits would decide the noise. Same seed, other bytes: other noise.
    monkeypatch.setattr(secrets, "randbits", lambda _: 12345)
    draws = {TorchSource(None, torch.empty(0)).exponential(4).numpy().tobytes() for _ in range(8)}
    assert len(draws) == 8
    # The bytes really are the twister's state: NumPy's twister with the same words agrees.
    words = np.random.default_rng(0).integers(0, 2**32, 624, dtype=np.uint32)
    monkeypatch.setattr(secrets, "token_bytes", lambda size: words.tobytes()[:size])
    generator = TorchSource(None, torch.empty(0)).generator
    ours = torch.empty(2_000).uniform_(generator=generator).numpy() * 2**24
    twister = np.random.MT19937(0)
    state = twister.state
    state["state"] = {"key": words, "pos": 624}
    twister.state = state
    np.testing.assert_array_equal(ours, twister.random_raw(2_000) % 2**24)


def test_flipping_any_word_of_entropy_changes_the_noise(monkeypatch):
    monkeypatch.setattr(secrets, "randbits", lambda _: 1)
    seen = set()
    for flipped in (None, 1, 100, 396, 397, 623):
        words = np.arange(624, dtype=np.uint32)
        if flipped is not None:
            words[flipped] ^= 1 << 17
        monkeypatch.setattr(secrets, "token_bytes", lambda _, w=words: w.tobytes())
        normal = TorchSource(None, torch.empty(0)).normal_like(torch.empty(1_300))
        seen.add(normal.numpy().tobytes())
    assert len(seen) == 6


def test_sources():
    assert is_torch(torch.ones(1))
    assert not is_torch(np.ones(1))
    assert not is_torch([1.0])
    assert isinstance(random_source(np.ones(1), None), NumpySource)
    assert isinstance(random_source(torch.ones(1), None), TorchSource)
    given_generator = np.random.default_rng(0)
    assert random_source(np.ones(1), given_generator).generator is given_generator
    assert (
        source_module.random_source(np.ones(1, np.int64), None)
        .normal_like(np.ones(3, np.int64))
        .dtype
        == np.float64
    )
    for source in (NumpySource(np.random.default_rng(1)), TorchSource(None, torch.empty(0))):
        gamma, rate = np.asarray(source.gamma(7.5, 20_000)), np.asarray(source.exponential(20_000))
        assert stats.kstest(gamma, stats.gamma(7.5).cdf).pvalue > LEVEL
        assert stats.kstest(rate, "expon").pvalue > LEVEL
        assert np.asarray(source.indices(3)).tolist() == [0, 1, 2]


@given(
    exponent=st.floats(-37.5, 37.5),
    dim=st.sampled_from([2, 10, 300]),
    library=st.sampled_from(["numpy", "torch"]),
)
@settings(deadline=None, max_examples=150)
def test_only_the_direction_matters(exponent, dim, library):
    # Same seed, any scale: the same release, up to the rounding of the scaled input.
    base = np.random.default_rng(dim).uniform(0.5, 1.0, dim).astype(np.float32)
    scaled = (base * np.float32(10.0**exponent)).astype(np.float32)

    def release(rows):
        if library == "torch":
            rows = torch.from_numpy(rows)
            return sample_vmf(rows, 100.0, torch.Generator().manual_seed(1)).numpy()
        return sample_vmf(rows, 100.0, np.random.default_rng(1))

    y = release(scaled)
    assert np.linalg.norm(y.astype(np.float64)) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(y, release(base), atol=2e-6)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dim", [10, 300])
@pytest.mark.parametrize(
    ("dtype", "scales"),
    [
        (np.float32, [1e-42, 1e-40, 1e-38, 1e-30, 3e-22, 1e-21, 1e-20, 1e19, 1e30, 3e38]),
        (np.float64, [1e-310, 1e-300, 3e-162, 1e-161, 1e-160, 1e-30, 1e30, 1e154, 1e300]),
    ],
)
def test_extreme_scales_have_the_right_noise(dtype, scales, dim, library):
    # Squares under- and overflow, some of them only in part: a norm that is a little wrong would
    # release a vector that is not a unit vector, with less noise than accounted for.
    for scale in scales:
        with np.errstate(under="ignore"):
            row = np.linspace(0.5, 1.0, dim) * scale
            rows = np.tile(row, (400, 1)).astype(dtype)
        given_rows = torch.from_numpy(rows) if library == "torch" else rows
        generator = torch.Generator() if library == "torch" else np.random.default_rng(0)
        y = np.asarray(sample_vmf(given_rows, 1e3 * dim, generator), dtype=np.float64)
        np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1.0, atol=1e-6)
        exact = rows[0].astype(np.longdouble) / np.longdouble(rows[0].max())
        unit = (exact / np.sqrt((exact * exact).sum())).astype(np.float64)
        # 1 - t is about (p-1)/2κ·χ²/(p-1): mean 5e-4, deviation about 5e-4·√(2/p).
        assert np.mean(1 - y @ unit) == pytest.approx(5e-4, rel=0.15)


def test_rows_of_very_different_scale_in_one_batch():
    rows = np.eye(8, dtype=np.float32) * np.geomspace(1e-42, 1e38, 8).astype(np.float32)[:, None]
    for given_rows in (rows, torch.from_numpy(rows)):
        y = np.asarray(sample_vmf(given_rows, 1e6))
        np.testing.assert_allclose(np.diag(y), 1.0, atol=1e-3)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dim", [2, 300])
def test_refuses_what_has_no_direction(bad, dim, library):
    rows = np.ones((3, dim))
    rows[1] = 0.0
    rows[1, -1] = bad
    with pytest.raises(ValueError, match=r"^directions must be finite and nonzero[^\n]*$"):
        sample_vmf(torch.from_numpy(rows) if library == "torch" else rows, 1.0)


@pytest.mark.parametrize("dim", [0, 1])
def test_refuses_one_dimension(dim):
    for rows in (np.ones((3, dim)), torch.ones(3, dim)):
        with pytest.raises(ValueError, match=r"^directions must have 2 or more coordinates"):
            sample_vmf(rows, 1.0)


def test_narrow_types_are_widened():
    # Noise in half precision would be coarse enough to see through.
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        y = sample_vmf(torch.ones(4, 9).to(dtype), 2.0)
        assert y.dtype == torch.float32
        np.testing.assert_allclose(y.norm(dim=-1).numpy(), 1.0, rtol=1e-6)
    for kind in (np.float16, np.int64):
        y = sample_vmf(np.ones((4, 9), kind), 2.0)
        assert y.dtype == np.float64
        np.testing.assert_allclose(np.linalg.norm(y, axis=-1), 1.0)


@pytest.mark.parametrize("scale", [1.0, 1e-25])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_numpy(dtype, scale):
    rows = (scale * np.random.default_rng(0).standard_normal((64, 20_006))).astype(dtype)
    sample_vmf(rows[:1], 10.0)
    tracemalloc.start()
    try:
        sample_vmf(rows, 10.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 2.05 * rows.nbytes


def test_memory_torch():
    rows = torch.randn(64, 20_006)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(profile_memory=True, activities=activities) as profile:
        sample_vmf(rows, 10.0)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    running = np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
    size = rows.numel() * rows.element_size()
    assert size <= running.max() <= 2 * size  # the release itself, and at most as much again


def test_memory_is_linear_in_the_dimension():
    # SciPy's sampler needs a p × p matrix: at this dimension 1.5 GB.
    row = np.ones((1, 13_700))
    tracemalloc.start()
    try:
        sample_vmf(row, 75.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * row.nbytes
