"""The natural channel against an independent root finder, and its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from recondite.channels import NaturalChannel, Spectrum
from recondite.leakage.information import gaussian_information

SPECTRA = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=15)


@given(SPECTRA, st.floats(1e-3, 30))
@settings(deadline=None, max_examples=60)
def test_against_brent(values, capacity):
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(values), capacity)

    def excess(log_variance):
        return gaussian_information(values, math.exp(log_variance)) - capacity

    wanted = math.exp(brentq(excess, -90, 40, xtol=1e-13))
    assert channel.noise_variance == pytest.approx(wanted, rel=1e-9)
    assert channel.noise_variance >= wanted * (1 - 1e-10)


def test_closed_form_for_a_white_spectrum():
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.full(3072, 2.0)), 300.0)
    assert channel.noise_variance == pytest.approx(2 / math.expm1(600 / 3072), rel=1e-10)


@given(SPECTRA, st.floats(0.01, 10), st.floats(1.01, 10))
@settings(deadline=None, max_examples=40)
def test_noise_grows_with_the_data_and_shrinks_with_the_capacity(values, capacity, factor):
    base = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(values), capacity)
    wider = Spectrum.from_eigenvalues(np.array(values) * factor)
    assert NaturalChannel.from_spectrum(wider, capacity).noise_variance == pytest.approx(
        base.noise_variance * factor, rel=1e-9
    )
    looser = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(values), capacity * factor)
    assert looser.noise_variance < base.noise_variance


@pytest.mark.parametrize("capacity", [0.3, 5.0, 60.0])
def test_low_rank_path_equals_the_exact_path(capacity):
    data = np.random.default_rng(0).standard_normal((9, 25))
    exact = NaturalChannel.fit(data, capacity, method="covariance")
    gram = NaturalChannel.fit(data, capacity)
    assert gram.spectrum.method == "gram"
    assert gram.noise_variance == pytest.approx(exact.noise_variance, rel=1e-9)
    # A sketch that holds all directions is exact; a small one adds noise, never takes it away.
    full = NaturalChannel.fit(data, capacity, method="sketch", rank=8)
    assert full.noise_variance == pytest.approx(exact.noise_variance, rel=1e-6)
    small = NaturalChannel.fit(data, capacity, method="sketch", rank=3)
    assert small.noise_variance >= exact.noise_variance * (1 - 1e-9)


def test_fit_on_embeddings():
    data = np.random.default_rng(0).standard_normal((60, 4, 4))
    channel = NaturalChannel.fit(data, 2.0, transform=lambda batch: batch.mean(axis=2))
    assert channel.dim == 4
    wanted = NaturalChannel.fit(data.mean(axis=2), 2.0)
    assert channel.noise_variance == pytest.approx(wanted.noise_variance)


def test_mutual_information_of_gaussian_data_by_simulation():
    """The records of a Gaussian population leak the capacity: density ratio, Monte Carlo."""
    rng = np.random.default_rng(2)
    covariance = np.array([[2.0, 0.8], [0.8, 1.0]])
    channel = NaturalChannel.from_spectrum(Spectrum.from_covariance(covariance), 1.5)
    records = rng.multivariate_normal(np.zeros(2), covariance, size=100_000)
    noisy = channel.perturb(records, rng)
    total = covariance + channel.noise_variance * np.eye(2)
    conditional = -0.5 * ((noisy - records) ** 2).sum(axis=1) / channel.noise_variance
    conditional -= math.log(channel.noise_variance)
    marginal = -0.5 * np.einsum("ij,ij->i", noisy @ np.linalg.inv(total), noisy)
    marginal -= 0.5 * math.log(np.linalg.det(total))
    density = conditional - marginal
    assert density.mean() == pytest.approx(1.5, abs=5 * density.std() / math.sqrt(len(density)))
