"""The draws have the covariance they claim, on arrays and on tensors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recondite.channels import NaturalChannel, Spectrum, WhiteChannel
from recondite.channels.noise import Noise

DRAWS = 60_000


def check_covariance(sample, expected):
    """Compares in the whitened frame, where every entry has the same standard error."""
    root = np.linalg.cholesky(np.linalg.inv(expected))
    white = sample @ root
    assert np.abs(white.mean(axis=0)).max() < 6 / math.sqrt(len(sample))
    empirical = white.T @ white / len(sample)
    error = np.abs(empirical - np.eye(expected.shape[0])).max()
    assert error < 6 * math.sqrt(2 / len(sample))


def test_sampled_covariance(channel):
    sample = channel.perturb(np.zeros((DRAWS, 6)), np.random.default_rng(0))
    check_covariance(sample, channel.noise.covariance())


def test_sampled_covariance_with_torch(name, build, build_spectrum):
    channel = build(name, build_spectrum("gram"), 3.0)
    sample = channel.perturb(torch.zeros(DRAWS, 6).double(), torch.Generator().manual_seed(0))
    check_covariance(sample.numpy(), channel.noise.covariance())


def test_arrays_and_tensors_agree(channel):
    records = np.random.default_rng(1).standard_normal((4, 2, 3))
    array = channel.perturb(records, np.random.default_rng(2))
    tensor = channel.perturb(torch.from_numpy(records), np.random.default_rng(2))
    assert isinstance(array, np.ndarray)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-12)
    by_torch = channel.perturb(records, torch.Generator().manual_seed(3))
    both = channel.perturb(torch.from_numpy(records), torch.Generator().manual_seed(3))
    np.testing.assert_allclose(both.numpy(), by_torch, rtol=1e-12)


def test_chunks_do_not_change_the_draw(channel, monkeypatch):
    records = np.zeros((10, 6))
    whole = channel.perturb(records, np.random.default_rng(0))
    monkeypatch.setattr("recondite.channels.noise._CHUNK", 18)
    np.testing.assert_allclose(
        channel.perturb(records, np.random.default_rng(0)), whole, rtol=1e-12, atol=1e-14
    )


def test_shape_type_and_input_are_kept():
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(6)), 2.0)
    for dtype in (np.float16, np.float32, np.float64):
        records = np.zeros((5, 2, 3), dtype=dtype)
        out = channel.perturb(records)
        assert (out.shape, out.dtype) == (records.shape, dtype)
        assert not records.any()
    assert channel.perturb(np.zeros((5, 6), dtype=np.uint8)).dtype == np.float64
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = torch.zeros(5, 2, 3, dtype=kind)
        out = channel.perturb(tensor)
        assert (out.shape, out.dtype) == (tensor.shape, kind)
        assert not tensor.any()
    assert channel.perturb(torch.zeros(5, 6, dtype=torch.uint8)).dtype == torch.float32
    assert channel.perturb(np.zeros((0, 6))).shape == (0, 6)
    assert channel.perturb([[0.0] * 6]).shape == (1, 6)


def test_not_contiguous_records():
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(6)), 2.0)
    records = np.arange(24.0).reshape(6, 4).T
    out = channel.perturb(records, np.random.default_rng(0))
    straight = channel.perturb(np.ascontiguousarray(records), np.random.default_rng(0))
    np.testing.assert_array_equal(out, straight)
    tensor = channel.perturb(torch.from_numpy(records), np.random.default_rng(0))
    np.testing.assert_allclose(tensor.numpy(), straight)


def test_single_record():
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(6)), 2.0)
    for shape in ((6,), (2, 3), (1, 6)):
        single = channel.perturb(np.zeros(shape), np.random.default_rng(0))
        batch = channel.perturb(np.zeros((1, 6)), np.random.default_rng(0))
        np.testing.assert_array_equal(single.reshape(-1), batch[0])


def test_gradients_flow_through_tensors():
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(3)), 2.0)
    records = torch.ones(2, 3, requires_grad=True)
    channel.perturb(records).sum().backward()
    assert records.grad is not None
    assert (records.grad == 1).all()


def test_default_noise_is_fresh_whatever_the_global_seeds():
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(3)), 2.0)
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        drawn.append((channel.perturb(np.zeros((1, 3))), channel.perturb(torch.zeros(1, 3))))
    assert (drawn[0][0] != drawn[1][0]).all()
    assert bool((drawn[0][1] != drawn[1][1]).all())


def test_every_direction_gets_noise_on_the_low_rank_path():
    """The fitted records span 3 of 40 directions; the noise spans all."""
    data = np.random.default_rng(0).standard_normal((4, 40))
    channel = WhiteChannel.fit(data, 5.0)
    assert channel.spectrum.rank == 3
    assert np.linalg.matrix_rank(channel.noise.covariance()) == 40
    sample = channel.perturb(np.zeros((2_000, 40)), np.random.default_rng(0))
    assert np.linalg.matrix_rank(sample, tol=1e-9) == 40


@pytest.mark.parametrize(
    ("records", "rng", "reason"),
    [
        (np.zeros((2, 5)), None, "3 features"),
        (np.zeros(()), None, "3 features"),
        (np.array([[np.nan, 0, 0]]), None, "finite"),
        (np.array([["a", "b", "c"]]), None, "real numbers"),
        (torch.zeros(2, 5), None, "3 features"),
        (torch.full((1, 3), math.inf), None, "finite"),
        (torch.zeros(1, 3, dtype=torch.complex64), None, "real numbers"),
        (np.zeros((1, 3)), 7, "rng"),
        (torch.zeros(1, 3), 7, "rng"),
        (torch.zeros(1, 3), torch.zeros(1), "rng"),
    ],
)
def test_bad_records(records, rng, reason):
    channel = NaturalChannel.from_spectrum(Spectrum.from_eigenvalues(np.ones(3)), 2.0)
    with pytest.raises(ValueError, match=reason):
        channel.perturb(records, rng)


def test_large_covariance_is_refused():
    with pytest.raises(ValueError, match="too large"):
        Noise(dim=10_000, variance=1.0).covariance()


def test_whitened_noise_is_standard(channel):
    root = np.linalg.inv(np.linalg.cholesky(channel.noise.covariance()))
    rows = np.random.default_rng(4).standard_normal((5, 6))
    lengths = (channel.noise.whitened(rows) ** 2).sum(1)
    np.testing.assert_allclose(lengths, ((rows @ root.T) ** 2).sum(1))
