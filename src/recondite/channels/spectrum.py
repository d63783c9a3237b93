"""The covariance of a set of records, as a spectrum: all that a channel needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate as check
from recondite.channels import _decompose
from recondite.channels._records import CentredRecords, Transform, load_records
from recondite.numerics.spectra import as_eigenvalues

__all__ = ["Spectrum"]

FloatArray = NDArray[np.float64]

_EXACT_LIMIT = 8192  # the largest side of a matrix that is decomposed whole
_SKETCH_RANK = 256
_METHODS = ("auto", "covariance", "gram", "sketch")


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of a covariance, with bounds on the directions that were left out.

    Build one with :meth:`of`, :meth:`from_covariance` or :meth:`from_eigenvalues`. A spectrum is
    as private as the records it was computed from.

    Guarantee: the covariance has ``eigenvalues`` within the retained directions (up to rounding),
    and outside them ``discarded_dims`` directions of total variance ``discarded_trace``, none
    above ``discarded_bound``. The last is exact up to rounding except for a sketch, where it
    fails with probability 2^-34 over the sketch; no capacity rests on it.

    Attributes:
      eigenvalues: Retained eigenvalues, descending, 0 or more.
      dim: The number d of features.
      method: "covariance", "gram", "sketch" or "eigenvalues": how they were found.
      mean: The mean record, or None where only a covariance was given.
      records: The number n of records, or None where only a covariance was given.
      discarded_dims: How many directions are not retained.
      discarded_trace: A bound on their total variance.
      discarded_bound: A bound on the variance in any one of them.
    """

    eigenvalues: FloatArray
    dim: int
    method: str
    mean: FloatArray | None = None
    records: int | None = None
    discarded_dims: int = 0
    discarded_trace: float = 0.0
    discarded_bound: float = 0.0
    _source: CentredRecords | None = field(default=None, repr=False)
    _matrix: FloatArray | None = field(default=None, repr=False)
    _basis: FloatArray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.eigenvalues.setflags(write=False)

    @classmethod
    def of(
        cls,
        data: Any,
        *,
        transform: Transform | None = None,
        method: str = "auto",
        rank: int | None = None,
        vectors: bool = False,
    ) -> Spectrum:
        """Returns the spectrum of the sample covariance (denominator n−1) of ``data``.

        With fewer records than features the n×n Gram matrix is decomposed, otherwise the d×d
        covariance; when the smaller side is above 8192, a randomised sketch. The Gram and sketch
        paths never hold a d×d matrix, and keep a reference to ``data`` for the eigenvectors.

        Args:
          data: An array or tensor (n, ...), each record flattened; or a sequence or map-style
            dataset of records or of (record, label) tuples.
          transform: An encoder applied to batches of records; the spectrum is then that of the
            embeddings, and channels built on it perturb embeddings.
          method: "auto", or one of "covariance", "gram" and "sketch".
          rank: How many directions a sketch retains (default 256).
          vectors: Whether the eigenvectors will be needed: then one decomposition gives both.
        """
        check.choice("method", method, _METHODS)
        rows = load_records(data, transform)
        return cls._of_centred(CentredRecords.of(rows), method, rank, vectors)

    @classmethod
    def _of_centred(
        cls, source: CentredRecords, method: str, rank: int | None, vectors: bool = False
    ) -> Spectrum:
        count, dim = source.rows.shape
        if method == "auto":
            method = "sketch" if min(count, dim) > _EXACT_LIMIT else "covariance"
            method = "gram" if count < dim and method == "covariance" else method
        if method == "covariance":
            matrix = _decompose.covariance(source)
            return cls._of_matrix(matrix, mean=source.mean, records=count, vectors=vectors)
        if method == "gram":
            parts = _decompose.gram(source)
        else:
            wanted = _SKETCH_RANK if rank is None else check.at_least("rank", rank, 1)
            parts = _decompose.sketch(source, min(wanted, dim, count - 1))
        return cls(
            eigenvalues=parts.eigenvalues,
            dim=dim,
            method=method,
            mean=source.mean,
            records=count,
            discarded_dims=parts.discarded_dims,
            discarded_trace=parts.discarded_trace,
            discarded_bound=parts.discarded_bound,
            _source=source,
            _basis=parts.basis,
        )

    @classmethod
    def from_covariance(cls, matrix: ArrayLike) -> Spectrum:
        """Returns the spectrum of a covariance matrix.

        Raises:
          ValueError: Where the matrix is not square, finite, symmetric and positive semidefinite,
            each up to rounding.
        """
        given = np.asarray(matrix)
        if given.dtype.kind not in "iuf":
            raise ValueError(f"matrix must hold real numbers, got {given.dtype}")
        if given.ndim != 2 or given.shape[0] != given.shape[1] or given.size == 0:
            raise ValueError(f"matrix must be square to be a covariance, got shape {given.shape}")
        if not np.isfinite(given).all():
            raise ValueError("matrix must be finite to be a covariance, got NaN or infinity")
        # A float32 matrix carries the rounding of float32 into its eigenvalues.
        coarse = given.dtype.kind == "f" and given.dtype.itemsize < 8
        tolerance = 1e-4 if coarse else 1e-9
        square = np.array(given, dtype=np.float64)
        size = float(np.abs(square).max())
        if float(np.abs(square - square.T).max()) > tolerance * size:
            raise ValueError("matrix is not a covariance: it is not symmetric")
        return cls._of_matrix(0.5 * (square + square.T), tolerance=tolerance)

    @classmethod
    def _of_matrix(
        cls,
        matrix: FloatArray,
        *,
        mean: FloatArray | None = None,
        records: int | None = None,
        tolerance: float | None = None,
        vectors: bool = False,
    ) -> Spectrum:
        from scipy import linalg  # heavy

        basis = None
        if vectors:
            ascending, basis = linalg.eigh(matrix, driver="evd", check_finite=False)
        else:
            ascending = linalg.eigvalsh(matrix, driver="evd", check_finite=False)
        values = ascending[::-1]
        smallest = float(values[-1])
        # Without a tolerance the matrix is a covariance by construction, and rounding is clipped.
        if tolerance is not None and smallest < -tolerance * max(float(values[0]), 0.0):
            raise ValueError(f"matrix is not a covariance: eigenvalue {smallest:.6g} is negative")
        matrix.setflags(write=False)
        found = cls(
            eigenvalues=np.maximum(values, 0.0),
            dim=matrix.shape[0],
            method="covariance",
            mean=mean,
            records=records,
            _matrix=matrix,
        )
        if basis is not None:
            found.__dict__["eigenvectors"] = basis[:, ::-1]  # what the cached property would find
        return found

    @classmethod
    def from_eigenvalues(cls, eigenvalues: ArrayLike) -> Spectrum:
        """Returns a spectrum of which only the eigenvalues are known.

        It serves the channels whose noise does not depend on the directions (Natural).
        """
        values = np.sort(as_eigenvalues(eigenvalues))[::-1].copy()
        return cls(eigenvalues=values, dim=values.size, method="eigenvalues")

    @property
    def rank(self) -> int:
        """The number of retained directions."""
        return int(self.eigenvalues.size)

    @property
    def trace(self) -> float:
        """The total variance, discarded directions included."""
        return float(self.eigenvalues.sum()) + self.discarded_trace

    @property
    def values(self) -> FloatArray:
        """The retained eigenvalues, and the mean of the discarded ones where there are any."""
        if self.discarded_dims == 0:
            return self.eigenvalues
        return np.append(self.eigenvalues, self.discarded_trace / self.discarded_dims)

    @property
    def counts(self) -> FloatArray:
        """How many directions each of :attr:`values` stands for; they add up to ``dim``."""
        ones = np.ones(self.rank)
        return ones if self.discarded_dims == 0 else np.append(ones, self.discarded_dims)

    @cached_property
    def eigenvectors(self) -> FloatArray:
        """The (dim, rank) orthonormal eigenvectors, computed when first asked for."""
        if self._matrix is not None:
            from scipy import linalg  # heavy

            vectors = linalg.eigh(self._matrix, driver="evd", check_finite=False)[1]
            return np.ascontiguousarray(vectors[:, ::-1])
        if self._basis is None:
            raise ValueError(
                "spectrum has no eigenvectors: build it from data or from a covariance matrix"
            )
        if self.method == "sketch":
            return self._basis
        return _decompose.gram_vectors(self._records(), self.eigenvalues, self._basis)

    def covariance(self) -> FloatArray:
        """Returns the d×d covariance matrix, for at most 8192 features."""
        if self.dim > _EXACT_LIMIT:
            raise ValueError(
                f"the covariance of {self.dim} features is too large to hold: "
                f"{_EXACT_LIMIT} is the limit"
            )
        if self._matrix is not None:
            return self._matrix
        return _decompose.covariance(self._records())

    def rescaled(self, scale: FloatArray) -> Spectrum:
        """Returns the spectrum of the same records with feature j multiplied by ``scale[j]``."""
        if self._matrix is not None:
            matrix = scale[:, None] * self._matrix * scale
            mean = None if self.mean is None else self.mean * scale
            return Spectrum._of_matrix(matrix, mean=mean, records=self.records)
        rank = self.rank if self.method == "sketch" else None
        return Spectrum._of_centred(self._records().rescaled(scale), self.method, rank)

    def divided(self, factor: float) -> Spectrum:
        """Returns the spectrum of a mean of ``factor`` independent records: all variances divided.

        Only what does not depend on eigenvectors is carried over.
        """
        return Spectrum(
            eigenvalues=self.eigenvalues / factor,
            dim=self.dim,
            method=self.method,
            mean=self.mean,
            records=self.records,
            discarded_dims=self.discarded_dims,
            discarded_trace=self.discarded_trace / factor,
            discarded_bound=self.discarded_bound / factor,
        )

    def _records(self) -> CentredRecords:
        if self._source is None:
            raise ValueError(
                "spectrum knows its eigenvalues only: build it from data or a covariance matrix"
            )
        if not self._source.unchanged:
            raise ValueError(
                "data changed since the spectrum was computed: fit the channel again, "
                "or fit it on a copy"
            )
        return self._source
