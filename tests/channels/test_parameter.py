"""The controlled parameter channel, with the toy of CHANNEL's Figure 4."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recondite.channels import ControlledParameterChannel, NaturalChannel, Spectrum
from recondite.leakage.information import batch_information, gaussian_information


def test_figure_4():
    """F(W; D) = W²D, D ~ N(−1, 1), capacity 1: the gradient 2WD has variance 4W²."""
    channel = ControlledParameterChannel(capacity=1.0)
    at_2 = channel.from_eigenvalues([4 * 2.0**2])
    assert at_2.noise_variance == pytest.approx(16 / (math.e**2 - 1), rel=1e-10)
    # W moves to 6 (learning rate 1): the old noise no longer keeps the capacity, a new one does.
    assert 2.0 - 2 * 2.0 * -1.0 == 6.0
    stale = gaussian_information([4 * 6.0**2], at_2.noise_variance)
    assert stale == pytest.approx(0.5 * math.log(1 + 9 * (math.e**2 - 1)))
    assert stale > 1
    at_6 = channel.from_eigenvalues([4 * 6.0**2])
    assert at_6.noise_variance == pytest.approx(144 / (math.e**2 - 1), rel=1e-10)
    # In data space one noise serves every W: seen in the gradient it grows with W².
    data = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues([1.0]), 1.0)
    assert data.noise_variance == pytest.approx(1 / (math.e**2 - 1), rel=1e-10)
    for weight in (2.0, 6.0, -0.1):
        seen = 4 * weight**2 * data.noise_variance
        assert gaussian_information([4 * weight**2], seen) == pytest.approx(1.0, rel=1e-9)


def test_all_inputs_agree():
    gradients = np.random.default_rng(0).standard_normal((40, 6)) * np.arange(1, 7)
    channel = ControlledParameterChannel(capacity=2.0, batch_size=8)
    covariance = np.cov(gradients, rowvar=False)
    wanted = channel.from_eigenvalues(np.linalg.eigvalsh(covariance)).noise_variance
    assert channel.from_covariance(covariance).noise_variance == pytest.approx(wanted)
    assert channel.from_gradients(gradients).noise_variance == pytest.approx(wanted)
    tensor = torch.from_numpy(gradients).reshape(40, 2, 3)
    assert channel.from_gradients(tensor).noise_variance == pytest.approx(wanted)
    nats = batch_information(np.linalg.eigvalsh(covariance), wanted, 8)
    assert nats == pytest.approx(2.0, rel=1e-9)


def test_fewer_gradients_than_weights():
    gradients = np.random.default_rng(0).standard_normal((5, 2_000)).astype(np.float32)
    step = ControlledParameterChannel(capacity=2.0).from_gradients(gradients)
    assert step.spectrum.method == "gram"
    assert 2.0 * (1 - 1e-9) <= step.capacity_nats <= 2.0
    assert step.perturb(gradients.mean(axis=0)).shape == (2_000,)


def test_a_larger_batch_needs_less_noise():
    by_batch = [
        ControlledParameterChannel(capacity=1.0, batch_size=size).from_eigenvalues([3.0, 1.0])
        for size in (1, 4, 16)
    ]
    variances = [step.noise_variance for step in by_batch]
    assert variances[1] == pytest.approx(variances[0] / 4)
    assert variances[2] == pytest.approx(variances[0] / 16)


def test_it_says_that_it_is_an_estimate():
    channel = ControlledParameterChannel(capacity=1.0)
    step = channel.from_eigenvalues([1.0])
    assert "estimate" in step.limits[0]
    assert step.summary()["channel"] == "parameter"
    assert channel.total_information(30) == 30.0
    assert channel.total_information(0) == 0.0


def test_bad_input():
    with pytest.raises(ValueError, match="capacity"):
        ControlledParameterChannel(capacity=0.0)
    with pytest.raises(ValueError, match="batch_size"):
        ControlledParameterChannel(capacity=1.0, batch_size=0)
    with pytest.raises(ValueError, match="steps"):
        ControlledParameterChannel(capacity=1.0).total_information(-1)
    with pytest.raises(ValueError, match="not symmetric"):
        ControlledParameterChannel(capacity=1.0).from_covariance([[1.0, 2.0], [0.0, 1.0]])
