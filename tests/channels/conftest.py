"""Data and covariances that every channel is tried on."""

from __future__ import annotations

import numpy as np
import pytest

from recondite.channels import (
    MinimumPowerChannel,
    NaturalChannel,
    PersonalizedChannel,
    Spectrum,
    WhiteChannel,
)


def make_spectrum(kind: str) -> Spectrum:
    rng = np.random.default_rng(5)
    mixing = rng.standard_normal((6, 6)) * np.array([3, 1, 0.5, 0.3, 0.2, 0.1])
    data = rng.standard_normal((80, 6)) @ mixing.T + 2.0
    if kind == "exact":
        return Spectrum.of(data)
    if kind == "gram":
        return Spectrum.of(data[:4])
    if kind == "sketch":
        return Spectrum.of(data, method="sketch", rank=2)
    assert kind == "singular"
    factor = mixing[:, :2]
    return Spectrum.from_covariance(factor @ factor.T)


def make_channel(name: str, spectrum: Spectrum, capacity: float):
    if name == "natural":
        return NaturalChannel.from_spectrum(spectrum, capacity)
    if name == "white":
        return WhiteChannel.from_spectrum(spectrum, capacity)
    if name == "minimum-power":
        return MinimumPowerChannel.from_spectrum(spectrum, capacity)
    beta = np.linspace(1, 5, spectrum.dim)
    method = "paper" if name == "paper" else "exact"
    return PersonalizedChannel.from_spectrum(spectrum, capacity, beta=beta, method=method)


KINDS = ("exact", "gram", "sketch", "singular")
NAMES = ("natural", "white", "minimum-power", "personalized", "paper")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def spectrum(kind):
    return make_spectrum(kind)


@pytest.fixture
def channel(name, spectrum):
    return make_channel(name, spectrum, 3.0)


@pytest.fixture
def build():
    """Builds a channel by name on a spectrum."""
    return make_channel


@pytest.fixture
def build_spectrum():
    """Builds one of the spectra by kind."""
    return make_spectrum
