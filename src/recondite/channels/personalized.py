"""The personalized channel: noise in proportion to how much each feature matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate as check
from recondite.channels import _solve
from recondite.channels._records import Transform
from recondite.channels.base import Channel, _outside
from recondite.channels.noise import Noise
from recondite.channels.spectrum import Spectrum

__all__ = ["PersonalizedChannel"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PersonalizedChannel(Channel):
    """Noise N(0, σ·diag(β)): a feature with twice the β gets twice the noise variance.

    Dividing feature j by √β_j turns the noise into σI and changes no information, so the exact
    channel is the natural channel of the rescaled records: f(σ) = ½ Σ ln(1 + μ_i/σ) with μ the
    eigenvalues of B^{−1/2} Σ B^{−1/2}. The paper bounds that determinant instead (Theorem 3) and
    adds more noise than the capacity asks for; ``solver="paper"`` keeps its bound, with the
    misprint in U(σ) corrected, for comparison.

    Guarantee: that of :class:`Channel`. With ``solver="paper"`` ``capacity_nats`` is the paper's
    bound and ``exact_nats`` what the same noise really allows.

    Attributes:
      beta: The weight of each feature, all above 0.
      solver: "exact" or "paper".
      scaled: The spectrum of the records with feature j divided by √β_j.
    """

    name: ClassVar[str] = "personalized"
    weighted: ClassVar[bool] = True

    beta: FloatArray
    solver: str
    scaled: Spectrum

    @property
    def noise_variance(self) -> float:
        """The factor σ: feature j gets noise of variance σβ_j."""
        return self.noise.variance

    @property
    def exact_nats(self) -> float:
        """The exact capacity of the noise; with the exact solver that is ``capacity_nats``."""
        return _solve.information(self.ratios, self.counts)

    @classmethod
    def fit(
        cls,
        data: Any,
        capacity: float,
        *,
        beta: ArrayLike,
        method: str = "exact",
        transform: Transform | None = None,
        spectrum_method: str = "auto",
        rank: int | None = None,
    ) -> PersonalizedChannel:
        """Returns the channel for these records.

        Args:
          data: The records, as in :meth:`Spectrum.of`.
          capacity: The capacity in nats.
          beta: The weight of each feature, in any shape with as many entries as a record (or one
            number for all); above 0 everywhere, for a feature without noise has no finite
            capacity.
          method: "exact", or "paper" for Theorem 3's bound.
          transform: An encoder, as in :meth:`Spectrum.of`.
          spectrum_method: The ``method`` of :meth:`Spectrum.of`.
          rank: As in :meth:`Spectrum.of`.
        """
        spectrum = Spectrum.of(data, transform=transform, method=spectrum_method, rank=rank)
        return cls.from_spectrum(spectrum, capacity, beta=beta, method=method)

    @classmethod
    def from_spectrum(
        cls, spectrum: Spectrum, capacity: float, *, beta: ArrayLike, method: str = "exact"
    ) -> PersonalizedChannel:
        """Returns the channel for records of this covariance; arguments as in :meth:`fit`."""
        check.choice("method", method, ("exact", "paper"))
        weights = _weights(beta, spectrum.dim)
        scaled = spectrum.rescaled(1 / np.sqrt(weights))
        values, counts = scaled.values, scaled.counts
        if method == "exact":
            variance = _solve.isotropic_variance(values, counts, capacity)
            nats = _solve.information(values / variance, counts)
        else:
            variance, nats = _paper_variance(spectrum.covariance(), weights, capacity)
        return cls(
            spectrum=spectrum,
            requested=float(capacity),
            capacity_nats=nats,
            noise=Noise(dim=spectrum.dim, variance=variance, scale=np.sqrt(weights)),
            ratios=values / variance,
            counts=counts,
            beta=weights,
            solver=method,
            scaled=scaled,
        )

    def _linear_mmse(self) -> float:
        variance, values = self.noise_variance, self.scaled.eigenvalues
        vectors = self.scaled.eigenvectors
        errors = values * (variance / (values + variance))
        per_feature = np.einsum("ji,ji,i->j", vectors, vectors, errors)
        if self.scaled.discarded_dims:
            outside = _outside(self.scaled, variance) / self.scaled.discarded_dims
            per_feature += outside * (1 - np.einsum("ji,ji->j", vectors, vectors))
        return float(np.mean(self.beta * per_feature))


def _weights(beta: ArrayLike, dim: int) -> FloatArray:
    given = np.asarray(beta)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"beta must hold real numbers, got {given.dtype}")
    weights = given.astype(np.float64).reshape(-1)
    if given.ndim == 0:
        weights = np.full(dim, float(weights[0]))
    if weights.size != dim:
        raise ValueError(
            f"beta must have one weight for each of {dim} features, got {weights.size}"
        )
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError("beta must be finite and above 0 everywhere: noise-free features leak all")
    return weights


def _paper_variance(
    covariance: FloatArray, beta: FloatArray, capacity: float
) -> tuple[float, float]:
    """Returns the σ with U(σ) = capacity, and U(σ), for Theorem 3's bound."""
    bound, scale = _paper_bound(covariance, beta)
    nats = check.positive("capacity", capacity)
    _solve.require_variance(scale)
    # U is at most the bound by the diagonal alone, which ln(1+x) ≤ x bounds in turn.
    enough = 1 / (2 * nats)
    short = enough
    while bound(short * scale) <= nats:
        short /= 16.0
        _solve.in_range(np.array([short]), nats)
    variance = _solve.calibrated(lambda x: bound(x * scale), nats, enough, short, scale)
    return variance, bound(variance)


def _paper_bound(
    covariance: FloatArray, beta: FloatArray
) -> tuple[Callable[[float], float], float]:
    """Returns U(σ) = ½ [min(Σ ln(c_ii + σβ_i), Σ ln(u_i + σk_i)) − Σ ln(σβ_i)] and Σ c_ii/β_i.

    Both arguments of the minimum are Hadamard's inequality: for Σ + σB itself, and for
    M(Σ + σB)Mᵀ with M the inverse of the unit Cholesky factor of Σ (det M = 1), whose diagonal
    is u_i + σk_i. Any unit triangular M serves, so a singular Σ may be lifted a little to get one.
    """
    from scipy import linalg  # heavy

    diagonal = np.diag(covariance) / beta
    mean = float(np.trace(covariance)) / len(beta)
    factor = None
    for lift in (0.0, 1e-12, 1e-9, 1e-6):
        try:
            lifted = covariance + lift * mean * np.eye(len(beta))
            factor = linalg.cholesky(lifted, lower=True, check_finite=False)
            break
        except linalg.LinAlgError:
            continue
    if factor is None:
        unexplained, excess = diagonal, np.zeros_like(diagonal)
    else:
        unit = factor / np.diag(factor)
        rows = linalg.solve_triangular(unit, np.eye(len(beta)), lower=True, unit_diagonal=True)
        unexplained = np.maximum(np.sum((rows @ covariance) * rows, axis=1), 0.0) / beta
        excess = np.maximum((rows**2) @ beta / beta - 1, 0.0)

    def bound(variance: float) -> float:
        with np.errstate(over="ignore"):
            first = float(np.sum(np.log1p(diagonal / variance)))
            second = float(np.sum(np.log1p(excess + unexplained / variance)))
        return 0.5 * min(first, second)

    return bound, float(np.sum(diagonal))
