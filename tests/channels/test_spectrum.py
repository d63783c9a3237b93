"""Every path to the spectrum gives the same one, and what it leaves out is bounded."""

from __future__ import annotations

import numpy as np
import pytest

from recondite.channels import Spectrum, WhiteChannel
from recondite.channels import spectrum as module
from recondite.channels._decompose import covariance
from recondite.channels._records import CentredRecords


def correlated(count, dim, seed=0, offset=3.0):
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((dim, dim)) * np.linspace(2, 0.05, dim)
    return rng.standard_normal((count, dim)) @ mixing.T + offset


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_covariance_path_is_numpys(dtype):
    data = (10 * correlated(200, 7)).astype(dtype)
    spectrum = Spectrum.of(data)
    reference = np.cov(data.astype(np.float64), rowvar=False)
    assert spectrum.method == "covariance"
    assert (spectrum.dim, spectrum.records, spectrum.rank) == (7, 200, 7)
    np.testing.assert_allclose(spectrum.covariance(), reference, rtol=1e-12)
    np.testing.assert_allclose(spectrum.eigenvalues, np.linalg.eigvalsh(reference)[::-1])
    np.testing.assert_allclose(spectrum.mean, data.astype(np.float64).mean(axis=0))
    rebuilt = (spectrum.eigenvectors * spectrum.eigenvalues) @ spectrum.eigenvectors.T
    np.testing.assert_allclose(rebuilt, reference, atol=1e-10 * reference.max())


def test_blocks_do_not_change_the_result(monkeypatch):
    data = correlated(50, 9)
    whole = covariance(CentredRecords.of(data))
    monkeypatch.setattr("recondite.channels._records._BLOCK", 20)
    np.testing.assert_allclose(covariance(CentredRecords.of(data)), whole, rtol=1e-12)
    gram = Spectrum.of(data[:6])
    exact = np.linalg.eigvalsh(np.cov(data[:6], rowvar=False))[::-1]
    np.testing.assert_allclose(gram.eigenvalues, exact[: gram.rank])
    rebuilt = (gram.eigenvectors * gram.eigenvalues) @ gram.eigenvectors.T
    np.testing.assert_allclose(rebuilt, np.cov(data[:6], rowvar=False), atol=1e-11 * exact[0])


def test_gram_path_is_the_covariance_path():
    data = correlated(12, 40)
    gram, exact = Spectrum.of(data), Spectrum.of(data, method="covariance")
    assert (gram.method, gram.rank, gram.discarded_dims) == ("gram", 11, 29)
    np.testing.assert_allclose(gram.eigenvalues, exact.eigenvalues[:11], rtol=1e-10)
    assert gram.trace == pytest.approx(exact.trace, rel=1e-12)
    assert gram.discarded_trace < 1e-12 * gram.trace
    vectors = gram.eigenvectors
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(11), atol=1e-13)
    rebuilt = (vectors * gram.eigenvalues) @ vectors.T
    np.testing.assert_allclose(rebuilt, exact.covariance(), atol=1e-11 * gram.trace)
    np.testing.assert_allclose(gram.covariance(), exact.covariance(), rtol=1e-10, atol=1e-12)


def test_gram_vectors_of_tiny_eigenvalues_are_orthonormal():
    rng = np.random.default_rng(3)
    left = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    right = np.linalg.qr(rng.standard_normal((60, 8)))[0]
    data = (left * 10.0 ** -np.arange(0, 8)) @ right.T  # eigenvalues over 14 decades
    spectrum = Spectrum.of(data)
    assert spectrum.rank < 7
    vectors = spectrum.eigenvectors
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(spectrum.rank), atol=1e-12)
    full = np.linalg.eigvalsh(np.cov(data, rowvar=False))[::-1]
    # What is below the resolution of the Gram matrix is not lost but bounded.
    left_out = full[spectrum.rank :]
    assert left_out.clip(0).sum() <= spectrum.discarded_trace + 1e-13 * full[0]
    assert left_out.max() <= spectrum.discarded_bound


def test_gram_on_more_records_than_features():
    data = correlated(30, 4)
    gram = Spectrum.of(data, method="gram")
    np.testing.assert_allclose(gram.eigenvalues, Spectrum.of(data).eigenvalues)
    assert (gram.rank, gram.discarded_dims, gram.discarded_trace) == (4, 0, 0)


def test_repeated_records_lower_the_rank():
    data = np.repeat(correlated(4, 20), 3, axis=0)
    spectrum = Spectrum.of(data)
    assert (spectrum.rank, spectrum.discarded_dims) == (3, 17)


@pytest.mark.parametrize("rank", [3, 10, 30])
def test_sketch_is_bounded_not_dropped(rank):
    data = correlated(300, 30)
    exact = Spectrum.of(data)
    sketch = Spectrum.of(data, method="sketch", rank=rank)
    assert (sketch.method, sketch.rank, sketch.discarded_dims) == ("sketch", rank, 30 - rank)
    assert sketch.trace == pytest.approx(exact.trace, rel=1e-9)
    # Ritz values never exceed the eigenvalues, and the leading ones are near.
    assert (sketch.eigenvalues <= exact.eigenvalues[:rank] * (1 + 1e-9)).all()
    assert sketch.eigenvalues[0] == pytest.approx(exact.eigenvalues[0], rel=1e-2)
    vectors = sketch.eigenvectors
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(rank), atol=1e-12)
    outside = np.eye(30) - vectors @ vectors.T
    left_out = np.linalg.eigvalsh(outside @ exact.covariance() @ outside)
    rounding = 1e-12 * exact.trace
    assert left_out.sum() <= sketch.discarded_trace + rounding
    assert left_out.max() <= sketch.discarded_bound + rounding
    if rank < 30:
        assert sketch.discarded_bound <= 4 * left_out.max()


def test_auto_takes_the_sketch_only_when_both_sides_are_large(monkeypatch):
    monkeypatch.setattr(module, "_EXACT_LIMIT", 10)
    assert Spectrum.of(correlated(40, 12)).method == "sketch"
    assert Spectrum.of(correlated(8, 12)).method == "gram"
    assert Spectrum.of(correlated(40, 9)).method == "covariance"
    with pytest.raises(ValueError, match="too large to hold"):
        Spectrum.of(correlated(8, 12)).covariance()


def test_no_large_matrix_in_high_dimension():
    """A covariance of 60,000 features would need 29 GB."""
    data = np.random.default_rng(0).standard_normal((6, 60_000)).astype(np.float32)
    channel = WhiteChannel.fit(data, 10.0)
    assert channel.spectrum.rank == 5
    assert channel.perturb(data).shape == data.shape


def test_values_and_counts_cover_all_directions():
    spectrum = Spectrum.of(correlated(5, 12))
    assert spectrum.counts.sum() == 12
    assert (spectrum.values * spectrum.counts).sum() == pytest.approx(spectrum.trace)


@pytest.mark.parametrize("method", ["covariance", "gram", "sketch"])
def test_rescaling(method):
    data = correlated(9, 6)
    scale = np.linspace(0.5, 3, 6)
    rescaled = Spectrum.of(data, method=method, rank=6).rescaled(scale)
    reference = np.linalg.eigvalsh(np.cov(data * scale, rowvar=False))[::-1]
    np.testing.assert_allclose(rescaled.eigenvalues, reference, rtol=1e-8)
    twice = rescaled.rescaled(1 / scale)
    np.testing.assert_allclose(twice.eigenvalues, Spectrum.of(data).eigenvalues, rtol=1e-8)


def test_eigenvectors_refuse_data_that_changed():
    data = correlated(5, 12)
    spectrum = Spectrum.of(data)
    data[2, 3] += 1.0
    with pytest.raises(ValueError, match="data changed"):
        _ = spectrum.eigenvectors


def test_covariance_path_keeps_its_own_copy():
    data = correlated(30, 4)
    spectrum = Spectrum.of(data)
    before = spectrum.covariance().copy()
    data += 1e3
    rebuilt = (spectrum.eigenvectors * spectrum.eigenvalues) @ spectrum.eigenvectors.T
    np.testing.assert_allclose(rebuilt, before, atol=1e-10 * before.max())


def test_from_covariance():
    matrix = np.cov(correlated(50, 5), rowvar=False)
    spectrum = Spectrum.from_covariance(matrix)
    np.testing.assert_allclose(spectrum.eigenvalues, np.linalg.eigvalsh(matrix)[::-1])
    assert spectrum.mean is None
    assert spectrum.records is None
    singular = Spectrum.from_covariance(np.ones((4, 4)))
    assert singular.eigenvalues[0] == pytest.approx(4)
    assert (singular.eigenvalues >= 0).all()
    assert Spectrum.from_covariance(np.ones((4, 4), dtype=np.float32)).rank == 4


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        (np.diag([1.0, -0.1]), "is negative"),
        (-np.eye(2), "is negative"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), "not symmetric"),
        (np.ones((2, 3)), "square"),
        (np.ones(3), "square"),
        (np.empty((0, 0)), "square"),
        (np.array([[np.nan]]), "finite"),
        (np.array([["a"]]), "real numbers"),
    ],
)
def test_what_is_no_covariance_is_refused(matrix, reason):
    with pytest.raises(ValueError, match=reason):
        Spectrum.from_covariance(matrix)


def test_from_eigenvalues_knows_no_directions():
    spectrum = Spectrum.from_eigenvalues([1.0, 3.0, -1e-15])
    assert spectrum.eigenvalues.tolist() == [3.0, 1.0, 0.0]
    with pytest.raises(ValueError, match="no eigenvectors"):
        _ = spectrum.eigenvectors
    with pytest.raises(ValueError, match="eigenvalues only"):
        spectrum.rescaled(np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        spectrum.eigenvalues[0] = 1.0


def test_bad_method_and_rank():
    with pytest.raises(ValueError, match="method"):
        Spectrum.of(correlated(5, 3), method="magic")
    with pytest.raises(ValueError, match="rank"):
        Spectrum.of(correlated(5, 3), method="sketch", rank=0)
