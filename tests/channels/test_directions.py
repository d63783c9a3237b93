"""White and minimum-power noise along few directions: its law, and that the capacity bounds it.

Capacities are checked against determinants of the covariance that the draws really have, in
float64, and draws against that covariance by their moments and by Kolmogorov and Smirnov's test.
"""

from __future__ import annotations

import hashlib
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.utils.data import DataLoader

from recondite.channels import (
    MinimumPowerChannel,
    NaturalChannel,
    PersonalizedChannel,
    Spectrum,
    WhiteChannel,
)
from recondite.channels.ledger import law_of
from recondite.channels.noise import Noise
from recondite.channels.per_step import DrawnAhead, FreshNoise
from recondite.numerics.normals import fill_normal, keyed_words

torch.set_num_threads(1)

KINDS = {"white": WhiteChannel, "minimum-power": MinimumPowerChannel}
SPECTRA = ("exact", "gram", "sketch", "singular")


@pytest.fixture(params=KINDS)
def floored(request):
    return KINDS[request.param]


@pytest.fixture(params=SPECTRA)
def any_spectrum(request, build_spectrum):
    return build_spectrum(request.param)


def records_of(dim, count=400, decay=1.5, seed=0):
    """Records whose variances decay like those of pixels, in a random basis."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return rng.standard_normal((count, dim)) * (1.0 + np.arange(dim)) ** (-decay / 2) @ basis


def nats(covariance, noise, uses=1):
    """½ ln det(1 + uses·N⁻¹C), in float64: what Gaussian records of covariance C tell exactly."""
    root = np.linalg.cholesky(noise)
    inner = np.linalg.solve(root, np.linalg.solve(root, covariance).T)
    return 0.5 * float(np.sum(np.log1p(uses * np.maximum(np.linalg.eigvalsh(inner), 0.0))))


def actual(factored):
    """The covariance of what a factor draws, with the numbers it really multiplies by."""
    factor = factored.factor.astype(np.float64)
    return factored.spread**2 * np.eye(factor.shape[1]) + factor.T @ factor


def relative(noise, stated):
    """The least and the largest ratio of two noises' variances over all directions."""
    root = np.linalg.cholesky(stated)
    inner = np.linalg.solve(root, np.linalg.solve(root, noise).T)
    values = np.linalg.eigvalsh(0.5 * (inner + inner.T))
    return float(values[0]), float(values[-1])


def drawn(channel, dtype, count=20_000, **options):
    """Noise as a protected loader serves it at every use, in three batches, two drawn ahead."""
    zeros = torch.zeros(count, channel.dim, dtype=dtype)
    loader = DataLoader(zeros, batch_size=-(-count // 3))
    return torch.cat(list(channel.protect(loader, "per_step", **options))).double().numpy()


@pytest.mark.parametrize("capacity", [0.1, 3.0, 12.0])
def test_the_capacity_bounds_what_the_stated_noise_tells(floored, any_spectrum, capacity):
    for directions in range(1, any_spectrum.rank):
        channel = floored.from_spectrum(any_spectrum, capacity, directions=directions)
        assert channel.directions == channel.noise.directions == directions
        noise = channel.noise.covariance()
        covariance = any_spectrum.covariance()
        assert capacity * (1 - 1e-9) <= channel.capacity_nats <= capacity
        for uses in (1, 3, 1000):
            bound = channel.information(uses, "per_step")
            assert nats(covariance, noise, uses) <= bound * (1 + 1e-9)


def test_without_a_floor_or_a_tail_left_out_the_capacity_is_exact(floored, build_spectrum):
    spectrum = build_spectrum("exact")
    for directions in range(1, 6):
        channel = floored.from_spectrum(spectrum, 3.0, directions=directions)
        truth = nats(spectrum.covariance(), channel.noise.covariance())
        assert truth == pytest.approx(channel.capacity_nats, rel=1e-9)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("directions", [None, 1, 2])
def test_what_is_drawn_has_at_least_the_stated_noise_in_every_direction(
    floored, any_spectrum, directions, single
):
    """The rounding of the factor included: it is of what is drawn that no more is told."""
    if directions is not None and directions > any_spectrum.rank:
        pytest.skip("the spectrum has fewer directions")
    channel = floored.from_spectrum(any_spectrum, 3.0, directions=directions)
    factored = channel.noise.factored(single)
    if factored is None:
        return  # less noise along a direction than outside: drawn by two products
    low, high = relative(actual(factored), channel.noise.covariance())
    # In double precision up to the rounding of these products, at variances 1e-6 of the largest.
    assert low >= (1 if factored.factor.dtype == np.float32 else 1 - 1e-8)
    assert high <= 1 + 3e-4
    told = nats(any_spectrum.covariance(), actual(factored))
    assert told <= channel.capacity_nats * (1 + 1e-9)


@given(st.integers(0, 2**32), st.floats(0.5, 4), st.floats(0.05, 300), st.booleans())
@settings(deadline=None, max_examples=40)
def test_rounded_factors_never_tell_more(seed, decay, capacity, white):
    kind = WhiteChannel if white else MinimumPowerChannel
    spectrum = Spectrum.of(records_of(24, 60, decay, seed))
    for directions in (None, 1, 7):
        channel = kind.from_spectrum(spectrum, capacity, directions=directions)
        factored = channel.noise.factored(True)
        assert factored is not None
        if factored.factor.dtype == np.float32:
            assert relative(actual(factored), channel.noise.covariance())[0] >= 1
        assert nats(spectrum.covariance(), actual(factored)) <= capacity * (1 + 1e-9)


def test_a_factor_too_coarse_for_single_precision_stays_double():
    spectrum = Spectrum.from_covariance(np.diag(np.geomspace(1, 1e-12, 12)))
    full = WhiteChannel.from_spectrum(spectrum, 12.0, floor=1e-13).noise
    assert full.std_range[0] < 1e-5 * full.std_range[1]
    assert full.factored(True).factor.dtype == np.float64
    few = WhiteChannel.from_spectrum(spectrum, 12.0, floor=1e-13, directions=2).noise
    assert few.factored(True).factor.dtype == np.float32
    assert few.factored(False).factor.dtype == np.float64


def test_products_in_single_precision_stay_near_those_in_double(floored):
    """In the whitened frame, where the least noise counts most."""
    channel = floored.fit(records_of(200), 40.0, directions=40)
    factored = channel.noise.factored(True)
    assert factored.factor.dtype == np.float32
    kept = []

    def fill(out, scale):
        fill_normal(keyed_words(bytes([len(kept)])), out, scale)
        kept.append(out.astype(np.float64))

    rows = factored.rows(fill, 500)
    weights, alike = kept[0].reshape(500, -1), kept[1].reshape(500, -1)
    exact = weights @ factored.factor.astype(np.float64) + alike
    assert np.abs(channel.noise.whitened(rows - exact)).max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("directions", [None, 2])
def test_the_law_of_the_draws(floored, any_spectrum, directions, dtype):
    channel = floored.from_spectrum(any_spectrum, 3.0, directions=directions)
    for options in ({}, {"seed": 5}):
        noise = drawn(channel, dtype, **options)
        white = noise @ np.linalg.cholesky(np.linalg.inv(channel.noise.covariance()))
        count, dim = white.shape
        bound = 6 / math.sqrt(count)
        assert np.abs(white.mean(axis=0)).max() < bound
        assert np.abs(white.T @ white / count - np.eye(dim)).max() < bound * math.sqrt(2)
        assert np.abs(white[:-1].T @ white[1:] / (count - 1)).max() < bound
        for column in white.T:
            assert stats.kstest(column, "norm").pvalue > 1e-5
        assert stats.kstest((white**2).sum(1), "chi2", (dim,)).pvalue > 1e-5
        # In directions that no axis of the whitened frame is: all are normal with variance one.
        tilted = white @ (np.ones(dim) / math.sqrt(dim))
        assert stats.kstest(tilted, "norm").pvalue > 1e-5


@given(
    st.lists(st.floats(1e-4, 1e3), min_size=3, max_size=12),
    st.floats(0.05, 100),
    st.booleans(),
    st.data(),
)
@settings(deadline=None, max_examples=80)
def test_laws_that_hold_for_every_spectrum(values, capacity, white, data):
    kind = WhiteChannel if white else MinimumPowerChannel
    spectrum = Spectrum.from_covariance(np.diag(values))
    directions = data.draw(st.integers(1, len(values) - 1))
    channel = kind.from_spectrum(spectrum, capacity, directions=directions)
    assert capacity * (1 - 1e-9) <= channel.capacity_nats <= capacity
    assert channel.noise_std_range[0] > 0
    assert nats(spectrum.covariance(), channel.noise.covariance()) <= capacity * (1 + 1e-9)
    told = [channel.information(uses, "per_step") for uses in (1, 2, 5, 50)]
    assert told == sorted(told)
    assert told[1] <= 2 * told[0]
    # More may be told: less noise in every direction.
    more = kind.from_spectrum(spectrum, 2 * capacity, directions=directions)
    assert (more.noise.along <= channel.noise.along).all()
    assert more.noise.variance <= channel.noise.variance
    # Along the leading directions there is no less noise than along the others.
    assert channel.noise.along.min() >= channel.noise.variance * (1 - 1e-12)


def test_the_least_power_of_the_shape_is_no_more_than_whites(build_spectrum):
    """Following more directions only helps minimum-power noise; white noise it only shapes."""
    spectrum = build_spectrum("exact")
    powers = [
        MinimumPowerChannel.from_spectrum(spectrum, 3.0, directions=r).noise.power
        for r in range(1, 7)
    ]
    assert powers[-1] == min(powers)
    natural = NaturalChannel.from_spectrum(spectrum, 3.0).noise.power
    assert max(powers) <= natural * (1 + 1e-9)


def test_auto_follows_few_directions_and_keeps_the_power(floored):
    full = floored.fit(records_of(200, 600), 30.0)
    few = full.following()
    assert few.directions is not None
    assert few.directions < 100
    assert few.noise.power == pytest.approx(full.noise.power, rel=0.11)
    held = full.spectrum.eigenvalues
    assert held[: few.directions].sum() >= 0.95 * held.sum()
    assert few.summary()["noise_directions"] == few.directions
    assert full.summary()["noise_directions"] == 200
    back = few.following(None)
    np.testing.assert_array_equal(back.noise.along, full.noise.along)
    assert law_of(back) == law_of(full) != law_of(few)


def test_auto_follows_all_where_few_would_not_do(floored):
    spectrum = Spectrum.from_covariance(np.diag([2.0, 1.9, 1.8, 1.7]))
    full = floored.from_spectrum(spectrum, 3.0)
    assert full.following().directions is None
    assert law_of(full.following()) == law_of(full)
    assert law_of(full.following(4)) == law_of(full)


def test_channels_without_directions_are_returned_as_they_are():
    spectrum = Spectrum.from_covariance(np.diag([4.0, 1.0]))
    natural = NaturalChannel.from_spectrum(spectrum, 1.0)
    own = PersonalizedChannel.from_spectrum(spectrum, 1.0, beta=np.ones(2))
    assert natural.following(1) is natural
    assert own.following() is own


@pytest.mark.parametrize("directions", [0, -1, 7, 1.5])
def test_impossible_directions(floored, directions, build_spectrum):
    with pytest.raises(ValueError, match="directions"):
        floored.from_spectrum(build_spectrum("exact"), 3.0, directions=directions)


def test_the_best_linear_attacker_against_the_matrices(floored, build_spectrum):
    spectrum = build_spectrum("exact")
    channel = floored.from_spectrum(spectrum, 3.0, directions=2)
    covariance, noise = spectrum.covariance(), channel.noise.covariance()
    error = covariance - covariance @ np.linalg.solve(covariance + noise, covariance)
    mine = channel.error_floor["linear_mmse"]
    assert mine == pytest.approx(np.trace(error) / 6, rel=1e-9)


def test_whitening_and_fingerprints_know_the_directions(floored, build_spectrum):
    spectrum = build_spectrum("exact")
    noises = [floored.from_spectrum(spectrum, 3.0, directions=r).noise for r in (1, 2, 3, 6, None)]
    prints = [noise.fingerprint() for noise in noises]
    assert len(set(prints)) == 4
    assert prints[-1] == prints[-2]
    for noise in noises:
        white = noise.whitened(np.linalg.cholesky(noise.covariance()).T)
        np.testing.assert_allclose(white.T @ white, np.eye(6), atol=1e-9)


@pytest.mark.parametrize("kind", ["exact", "gram", "sketch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_seeded_noise_along_all_directions_is_that_of_the_first_version(
    floored, kind, dtype, build_spectrum
):
    noise = floored.from_spectrum(build_spectrum(kind), 3.0).noise
    batch = np.zeros((5, 6), dtype=dtype)
    FreshNoise(noise, single=dtype == np.float32, seed=11).add(batch, 40)
    # As 0.1.0 had it: numbers of double precision, from the seed and the records served before.
    numbers = np.empty(30)
    fill_normal(keyed_words(hashlib.blake2b(b"11 40").digest()), numbers)
    expected = noise.shape(numbers.reshape(5, 6)).astype(dtype)
    np.testing.assert_allclose(batch, expected, rtol=1e-6 if dtype == np.float32 else 1e-12)


def test_a_seed_repeats_noise_along_few_directions(floored, build_spectrum):
    channel = floored.from_spectrum(build_spectrum("exact"), 3.0, directions=2)
    first, again, other = (drawn(channel, torch.float32, 300, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).all(axis=1).any()
    assert len(np.unique(first)) == first.size


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_and_epochs_draw_fresh_noise(floored, workers, build_spectrum):
    channel = floored.from_spectrum(build_spectrum("exact"), 3.0, directions=2)
    loader = DataLoader(torch.zeros(60, 6), batch_size=5, num_workers=workers)
    protected = channel.protect(loader, "per_step")
    noise = torch.cat([batch for _ in range(2) for batch in protected])
    # Not a single number twice; nor the weights of the two directions, which a sum could hide.
    assert len(torch.unique(noise)) == noise.numel()
    along = noise.double().numpy() @ channel.noise.vectors
    assert len(np.unique(along.round(6))) > 0.99 * along.size
    assert protected.information()["per_record"] == channel.information(2, "per_step")


def test_a_copy_of_the_source_draws_other_noise(floored, build_spectrum):
    noise = floored.from_spectrum(build_spectrum("exact"), 3.0, directions=2).noise
    source = FreshNoise(noise, single=True)
    source.add(np.zeros((4, 6), dtype=np.float32), 0)  # from now on a thread draws ahead
    rows = []
    for each in (source, pickle.loads(pickle.dumps(source)), source):
        batch = np.zeros((4, 6), dtype=np.float32)
        each.add(batch, 4)
        rows.append(batch)
    assert len(np.unique(rows)) == 3 * 24


def test_noise_drawn_ahead_is_whole_rows_of_it(floored, build_spectrum):
    channel = floored.from_spectrum(build_spectrum("exact"), 3.0, directions=2)
    factored = channel.noise.factored(False)
    ahead = DrawnAhead(np.float64, 1.0, factored)
    # Shorter batches, as the last of an epoch, take whole rows of those that are ready.
    rows = np.concatenate([ahead.take(6 * n) for n in (4_000, 3_000, 1, 4_000)]).reshape(-1, 6)
    assert len(np.unique(rows)) == rows.size
    white = rows @ np.linalg.cholesky(np.linalg.inv(channel.noise.covariance()))
    bound = 6 * math.sqrt(2 / len(white))
    assert np.abs(white.T @ white / len(white) - np.eye(6)).max() < bound


def test_batches_too_large_to_hold_ready_are_drawn_in_parts(floored, monkeypatch, build_spectrum):
    monkeypatch.setattr("recondite.channels.per_step._MOST", 600)
    monkeypatch.setattr("recondite.channels.per_step._LARGE", 240)
    channel = floored.from_spectrum(build_spectrum("exact"), 3.0, directions=2)
    taken = []
    monkeypatch.setattr(DrawnAhead, "take", lambda self, count: taken.append(count))
    noise = drawn(channel, torch.float64, 6_000)
    assert not taken
    assert len(np.unique(noise)) == noise.size
    low, high = relative(noise.T @ noise / len(noise), channel.noise.covariance())
    assert 0.85 < low < high < 1.15


def test_noise_with_less_along_than_outside_is_drawn_by_two_products():
    """A sketch may leave out more than the least it retained: no square root of less than none."""
    spectrum = Spectrum.from_covariance(np.diag([3.0, 2.0, 1.0]))
    noise = Noise(dim=3, variance=2.0, along=np.array([3.0, 1.0]), spectrum=spectrum)
    assert noise.factored(True) is noise.factored(False) is None
    rows = np.zeros((40_000, 3))
    FreshNoise(noise, single=False).add(rows, 0)
    low, high = relative(rows.T @ rows / len(rows), noise.covariance())
    assert 0.95 < low < high < 1.05
