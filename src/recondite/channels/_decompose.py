"""Three ways to the leading eigenpairs of a sample covariance: d×d, n×n, and a random sketch.

Each returns its eigenvalues in descending order with a bound on what it left out, and never
builds a matrix larger than the side it is named for. All arithmetic that a bound rests on is
float64 whatever the records came in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recondite.channels._records import CentredRecords

__all__ = ["Decomposition", "covariance", "gram", "gram_vectors", "sketch"]

FloatArray = NDArray[np.float64]

# Below this share of the largest eigenvalue the eigenvectors of a Gram matrix are rounding noise.
_GRAM_RESOLUTION = 1e-11
_POWER_ITERATIONS = 2
# 34 probes and a factor 2 put the chance that the norm bound of a sketch fails at 2^-34.
_PROBES = 34
_PROBE_POWER = 6


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Eigenvalues kept, and bounds on the rest.

    Attributes:
      eigenvalues: Those kept, descending, 0 or more.
      basis: What the eigenvectors come from: the eigenvectors themselves (d, k) for a sketch,
        those of the Gram matrix (n, k) for a Gram matrix.
      discarded_dims: How many directions were left out.
      discarded_trace: Their total variance.
      discarded_bound: A bound on the variance in any one of them.
    """

    eigenvalues: FloatArray
    basis: FloatArray
    discarded_dims: int
    discarded_trace: float
    discarded_bound: float


def covariance(records: CentredRecords) -> FloatArray:
    """Returns the d×d sample covariance, by symmetric rank-k updates."""
    from scipy.linalg.blas import dsyrk  # heavy

    count, dim = records.rows.shape
    matrix = np.zeros((dim, dim), order="F")
    for _, block in records.by_rows():
        # The transpose of a C-ordered block is what BLAS calls a matrix; nothing is copied.
        matrix = dsyrk(1.0, block.T, 1.0, matrix, lower=1, overwrite_c=1)
    return _mirrored(matrix, count - 1)


def gram(records: CentredRecords) -> Decomposition:
    """Returns the spectrum by the n×n Gram matrix of the centred records."""
    from scipy import linalg  # heavy
    from scipy.linalg.blas import dsyrk  # heavy

    count, dim = records.rows.shape
    matrix = np.zeros((count, count), order="F")
    for _, block in records.by_columns():
        matrix = dsyrk(1.0, block.T, 1.0, matrix, trans=1, lower=1, overwrite_c=1)
    matrix /= count - 1
    values, vectors = linalg.eigh(
        matrix, lower=True, driver="evd", overwrite_a=True, check_finite=False
    )
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = max(float(values[0]), 0.0)
    # Centred records span at most n − 1 directions (and at most d): the rest is rounding.
    kept = int(np.count_nonzero(values[: min(count - 1, dim)] > _GRAM_RESOLUTION * largest))
    rest = np.maximum(values[kept:], 0.0)
    dims = dim - kept
    rounding = count * float(np.finfo(np.float64).eps) * largest
    return Decomposition(
        eigenvalues=np.ascontiguousarray(values[:kept]),
        basis=np.ascontiguousarray(vectors[:, :kept]),
        discarded_dims=dims,
        discarded_trace=float(rest.sum()) if dims else 0.0,
        discarded_bound=float(rest.max(initial=0.0)) + rounding if dims else 0.0,
    )


def gram_vectors(records: CentredRecords, eigenvalues: FloatArray, left: FloatArray) -> FloatArray:
    """Returns the (d, k) orthonormal eigenvectors that belong to those of a Gram matrix."""
    from scipy import linalg  # heavy
    from scipy.linalg.blas import dsyrk, dtrsm  # heavy

    count, dim = records.rows.shape
    vectors = np.empty((dim, eigenvalues.size))
    weights = left / np.sqrt((count - 1) * eigenvalues)
    for part, block in records.by_columns():
        np.matmul(block.T, weights, out=vectors[part])
    if eigenvalues.size == 0:
        return vectors
    # Vectors of small eigenvalues come out slightly askew (rounding over λ); one pass of Cholesky
    # QR, in place, makes them orthonormal to rounding, and nearly leaves the large ones alone.
    overlap = dsyrk(1.0, vectors.T, lower=0)
    factor = linalg.cholesky(overlap, lower=False, check_finite=False)
    return np.asarray(dtrsm(1.0, factor, vectors.T, trans_a=1, overwrite_b=1)).T


def sketch(records: CentredRecords, rank: int) -> Decomposition:
    """Returns ``rank`` leading eigenpairs by a randomised range finder.

    The basis may miss a little of the leading directions. That costs sharpness, never soundness:
    whatever orthonormal basis came out, the eigenvalues are those of the covariance within it
    and the discarded trace is exactly the rest, and by Fischer's inequality the two parts bound
    the whole. Only ``discarded_bound`` is probabilistic (it fails with probability 2^-34).
    The sketch is no privacy noise: its seed is fixed, so that a fit can be repeated.
    """
    from scipy import linalg  # heavy

    count, dim = records.rows.shape
    rng = np.random.default_rng(0)
    basis = _orthonormal(rng.standard_normal((dim, rank)))
    for _ in range(_POWER_ITERATIONS + 1):
        basis = _orthonormal(_apply(records, basis))
    inner = np.zeros((rank, rank))
    for _, block in records.by_rows():
        projected = block @ basis
        inner += projected.T @ projected
    values, rotation = linalg.eigh(inner / (count - 1), check_finite=False)
    values, vectors = np.maximum(values[::-1], 0.0), basis @ rotation[:, ::-1]
    trace, dims = records.trace(), dim - rank
    # The difference of two nearly equal sums: its rounding is added, so that it stays a bound.
    rounding = 4 * rank * float(np.finfo(np.float64).eps) * trace
    rest = max(trace - float(values.sum()), 0.0) + rounding if dims else 0.0
    bound = min(rest, max(rest / dims, _norm_outside(records, vectors, rng))) if dims else 0.0
    return Decomposition(np.ascontiguousarray(values), vectors, dims, rest, bound)


def _mirrored(lower: FloatArray, divisor: int) -> FloatArray:
    """Returns the symmetric matrix of which ``lower`` holds the lower triangle, divided."""
    lower /= divisor
    for column in range(lower.shape[0] - 1):
        lower[column, column + 1 :] = lower[column + 1 :, column]
    return lower


def _orthonormal(matrix: FloatArray) -> FloatArray:
    from scipy import linalg  # heavy

    return np.ascontiguousarray(linalg.qr(matrix, mode="economic", check_finite=False)[0])


def _apply(records: CentredRecords, vectors: FloatArray) -> FloatArray:
    """Returns covariance @ vectors without the covariance."""
    out = np.zeros_like(vectors)
    for _, block in records.by_rows():
        out += block.T @ (block @ vectors)
    return np.asarray(out / (records.rows.shape[0] - 1))


def _norm_outside(records: CentredRecords, vectors: FloatArray, rng: np.random.Generator) -> float:
    """Returns a bound on the largest eigenvalue of the covariance outside ``vectors``.

    For any matrix M and s Gaussian probes ω, ‖M‖ ≤ 2·√(2/π)·max ‖Mω‖ except with probability
    2^-s (Halko, Martinsson and Tropp 2011, Lemma 4.1). Applied to a power of the covariance it
    loses only the root of that factor.
    """
    probes = rng.standard_normal((vectors.shape[0], _PROBES))
    log_scale = 0.0
    for _ in range(_PROBE_POWER):
        probes -= vectors @ (vectors.T @ probes)
        probes = _apply(records, probes)
        probes -= vectors @ (vectors.T @ probes)
        size = float(np.linalg.norm(probes, axis=0).max())
        if size == 0:
            return 0.0
        probes /= size
        log_scale += math.log(size)
    return math.exp((log_scale + math.log(2 * math.sqrt(2 / math.pi))) / _PROBE_POWER)
