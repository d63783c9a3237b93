"""The secure source: exact laws, both libraries, nothing repeated, and training through it.

Nothing here can be seeded, so every test of a law has a level of 1e-6.
"""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.numerics.random import random_source
from recondite.numerics.secure import SecureGenerator, SecureSource
from recondite.numerics.sphere import cosines, sample_vmf
from recondite.training import PrivacyEngine, PrivateLoader

LEVEL = 1e-6
DRAWS = 100_000
LIKE = {
    "numpy32": np.zeros((10, 10_000), np.float32),
    "numpy64": np.zeros((10, 10_000)),
    "torch32": torch.zeros(10, 10_000),
    "torch64": torch.zeros(10, 10_000, dtype=torch.float64),
}


def fits(values, law):
    return stats.kstest(np.asarray(values, float).ravel(), law).pvalue > LEVEL


@pytest.mark.parametrize("like", LIKE.values(), ids=LIKE)
def test_normals_have_their_law_shape_and_precision(like):
    drawn = random_source(like, SecureGenerator()).normal_like(like)
    assert type(drawn) is type(like)
    assert drawn.shape == like.shape
    assert drawn.dtype == like.dtype
    assert fits(drawn, "norm")


def test_normals_are_symmetric_and_independent():
    drawn = SecureGenerator().normal(400_000)
    assert stats.binomtest(int((drawn > 0).sum()), len(drawn)).pvalue > LEVEL
    # Sign and size come from one word: they must not know of each other, nor of the next.
    positive, size = drawn > 0, abs(drawn)
    assert stats.ks_2samp(size[positive], size[~positive]).pvalue > LEVEL
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 5 / np.sqrt(len(drawn))


class FixedWords(SecureGenerator):
    def __init__(self, words):
        self.values = np.array(words, np.uint64)

    def words(self, count):
        assert count == len(self.values)
        return self.values.copy()


def test_the_extremes_of_a_word_give_finite_numbers():
    top = 2**64 - 1
    # The first half of the words are radii, the second angles.
    normals = FixedWords([0, top, 0, top]).normal(4)
    assert 8.6 < normals[0] < 8.7
    assert np.abs(normals[1:]).max() < 1e-7
    uniform = FixedWords([0, top]).uniform(2)
    assert 0 < uniform[0] < uniform[1] <= 1
    exponential = FixedWords([0, top]).exponential(2)
    assert np.isfinite(exponential).all()
    assert (exponential >= 0).all()
    assert (FixedWords([0, top]).random(2) == [0.0, 1 - 2.0**-53]).all()


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 1.5, 30.0, 6849.5])
def test_gammas_have_their_law(shape):
    assert fits(SecureGenerator().gamma(shape, DRAWS), stats.gamma(shape).cdf)


def test_exponentials_have_their_law():
    assert fits(SecureGenerator().exponential(DRAWS), "expon")


@pytest.mark.parametrize("like", [None, torch.zeros(1)], ids=["numpy", "torch"])
@pytest.mark.parametrize("kappa", [0.5, 20.0])
def test_cosines_have_their_law_on_the_sphere(kappa, like):
    t, s = cosines(DRAWS, 3, kappa, like, SecureGenerator())
    assert fits(t, lambda x: np.expm1(kappa * (x + 1)) / np.expm1(2 * kappa))
    assert np.allclose(t**2 + s**2, 1.0)


def test_cosines_have_their_law_in_many_dimensions():
    dim, kappa = 1000, 400.0
    grid = np.linspace(-1, 1, 200_001)[1:-1]
    heights = 0.5 * (dim - 3) * np.log1p(-(grid**2)) + kappa * grid
    mass = np.cumsum(np.exp(heights - heights.max()))
    t, _ = cosines(DRAWS, dim, kappa, None, SecureGenerator())
    assert fits(t, lambda x: np.interp(x, grid, mass / mass[-1]))


@pytest.mark.parametrize("shape", [(2,), (5, 3), (300,), (4, 300)])
def test_directions_are_drawn_in_both_libraries(shape):
    rows = np.ones(shape, np.float32)
    for drawn in (
        sample_vmf(rows, 5.0, SecureGenerator()),
        sample_vmf(torch.from_numpy(rows), 5.0, SecureGenerator()),
        sample_vmf(0 * rows, 5.0, SecureGenerator(), zero="uniform"),
    ):
        assert drawn.shape == shape
        assert np.allclose((np.asarray(drawn) ** 2).sum(-1), 1.0, atol=1e-5)


def test_half_precision_tensors_keep_their_type():
    like = torch.zeros(7, 3, dtype=torch.bfloat16)
    drawn = SecureSource(SecureGenerator(), like).normal_like(like)
    assert drawn.dtype == torch.bfloat16
    assert drawn.shape == like.shape


def test_nothing_is_repeated_by_seeds_copies_or_forks():
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    generator = SecureGenerator()
    draws = [generator.normal(100_000), pickle.loads(pickle.dumps(generator)).normal(100_000)]
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    draws.append(SecureGenerator().normal(100_000))
    together = np.concatenate(draws)
    assert len(np.unique(together)) == len(together)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, generator.normal(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 32))
    os.close(reader)
    os.close(writer)
    assert not set(theirs) & set(generator.normal(4))


def test_permutations_and_choices_are_uniform():
    generator = SecureGenerator()
    orders = {}
    for _ in range(6000):
        order = tuple(generator.permutation(3).tolist())
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == 6
    assert stats.chisquare(list(orders.values())).pvalue > LEVEL
    chosen = np.concatenate([generator.choice(np.arange(5, 15), 4) for _ in range(5000)])
    assert stats.chisquare(np.bincount(chosen)[5:]).pvalue > LEVEL
    assert sorted(generator.choice(6, 6)) == list(range(6))
    assert len(generator.permutation(0)) == 0
    assert 0 <= generator.integers(3) < 3
    with pytest.raises(ValueError, match="replace must be False"):
        generator.choice(3, 2, replace=True)


def data():
    return TensorDataset(torch.randn(60, 6), torch.randint(0, 2, (60,)))


@pytest.mark.parametrize("sampling", ["poisson", "shuffled", "fixed-size"])
def test_batches_are_drawn_securely(sampling):
    loader = PrivateLoader(DataLoader(data(), batch_size=6), sampling=sampling, secure=True)
    sizes = [loader.draw.rows for _ in range(20) for _ in loader]
    if sampling == "poisson":
        # 200 batches of a binomial size, an empty one counted as one row.
        assert stats.binomtest(sum(sizes), 200 * 60, 0.1).pvalue > LEVEL / 10
    else:
        assert set(sizes) == {6}


def test_empty_poisson_batches_are_drawn_securely():
    loader = PrivateLoader(DataLoader(data(), batch_size=1), secure=True)
    draws = [loader.draw for _ in range(5) for _ in loader]
    assert {draw.keep for draw in draws} == {True, False}


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        (rc.Gaussian(1.0), {}),
        (rc.VonMisesFisher(5.0), {}),
        (rc.PartitionedVonMisesFisher(5.0, blocks="layers"), {"sampling": "shuffled"}),
        (rc.Directional(5.0), {}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_engine_trains_in_secure_mode(mechanism, options, monkeypatch):
    engine = PrivacyEngine(secure=True)
    net = nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Linear(50, 2))
    before = net[0].weight.detach().clone()
    net, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data(), batch_size=6),
        mechanism=mechanism,
        **options,
    )

    def refuse(*_, **__):
        raise AssertionError("another generator was used")

    for name in ("normal_", "exponential_", "uniform_"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    monkeypatch.setattr(torch, "_standard_gamma", refuse)
    monkeypatch.setattr(np.random, "default_rng", refuse)
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    assert engine.steps == 10
    assert not torch.equal(before, net[0].weight)
    assert all(bool(torch.isfinite(p).all()) for p in net.parameters())
    assert "simulation" not in " ".join(engine.report(delta=1e-5).assumptions)


def test_secure_mode_refuses_a_seed():
    with pytest.raises(ValueError, match="leave it out in secure mode"):
        PrivacyEngine(secure=True, seed=1)
