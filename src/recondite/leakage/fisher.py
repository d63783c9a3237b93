"""Fisher information leakage: how exactly a record can be estimated from a noisy release.

The release is f(x) + noise (or noise on the direction f(x)), x the record. Near x an attacker can
do no better than the Fisher information I(x) = i·JᵀJ allows, where J is the Jacobian of the
noiseless release and i the information that the noise law carries about a unit displacement:

* Gaussian noise of standard deviation s in every coordinate: i = 1/s². (For correlated noise
  whiten J first and take i = 1.)
* von Mises-Fisher noise on unit directions, concentration κ, dimension p: i = κ·A_p(κ), and J is
  the Jacobian of the *direction*, whose columns are tangent to the sphere.

Independent releases add: stack their Jacobians, each scaled by the square root of its i, and take
``information=1``. Hannun, Guo and van der Maaten, "Measuring data leakage in machine-learning
models with Fisher information" (2021); Guo, Karrer, Chaudhuri and van der Maaten, "Bounding
training data reconstruction in private (deep) learning" (2022).

Every floor here binds attackers that are unbiased. An attacker with prior knowledge of the record
may trade bias for variance and do better; the floors say nothing about him.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate

__all__ = [
    "ErrorFloor",
    "fisher_information_leakage",
    "fisher_information_matrix",
    "renyi_error_floor",
    "unbiased_error_floor",
]

FloatArray = NDArray[np.float64]


def _jacobian(value: ArrayLike) -> FloatArray:
    try:
        jacobian = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("jacobian must be a matrix of numbers with equal rows") from None
    if jacobian.ndim != 2 or jacobian.size == 0:
        raise ValueError(
            f"jacobian must be a matrix, release by record dimension, got shape {jacobian.shape}"
        )
    if not np.isfinite(jacobian).all():
        raise ValueError("jacobian must be finite; it has a NaN or infinite entry")
    return jacobian


def fisher_information_matrix(jacobian: ArrayLike, information: float) -> FloatArray:
    """Fisher information of the release about the record, i·JᵀJ.

    Args:
      jacobian: Derivative of the noiseless release with respect to the record, shape (release
        dimension, record dimension).
      information: Fisher information of the noise law for a unit displacement (0 or more).

    Returns:
      A symmetric positive semi-definite matrix, record dimension squared.
    """
    matrix = _jacobian(jacobian)
    return _validate.non_negative("information", information) * (matrix.T @ matrix)


def fisher_information_leakage(jacobian: ArrayLike, information: float) -> float:
    """Fisher information leakage η: the square root of the largest eigenvalue of i·JᵀJ.

    Guarantee: for every unit vector u, an unbiased estimate of u·x has standard deviation at
    least 1/η (Cramér–Rao at this record, with this Jacobian). η = 0 means that the release does
    not depend on the record to first order.
    """
    scale = math.sqrt(_validate.non_negative("information", information))
    return scale * float(np.linalg.norm(_jacobian(jacobian), 2))


@dataclass(frozen=True)
class ErrorFloor:
    """Lower bounds on the mean squared error a coordinate, E‖x̂ − x‖²/d, of an unbiased attacker.

    ``trace`` ≤ ``cramer_rao``, with equality when all eigenvalues of I are equal. When I is
    singular (the record has more dimensions than the release shows) only ``identifiable`` speaks
    of attackers that exist.

    Attributes:
      cramer_rao: Tr(I⁻¹)/d, the Cramér–Rao bound itself and the tightest of the three; infinite
        when I is singular: no estimator of finite variance is unbiased in every direction.
      trace: d/Tr(I), the bound of Guo et al.: looser (the harmonic mean of the eigenvalues is at
        most their mean), but finite unless I = 0, and it needs only a trace, not a spectrum.
      identifiable: Tr(I⁺)/d, for an attacker who is unbiased only on the span that the release
        depends on and may do anything, at no error, elsewhere. Never infinite.
      rank: Dimension of that span.
      dimension: Dimension d of the record.
    """

    cramer_rao: float
    trace: float
    identifiable: float
    rank: int
    dimension: int

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON; infinite is the string ``"inf"``."""
        return {
            "cramer_rao": _plain(self.cramer_rao),
            "trace": _plain(self.trace),
            "identifiable": _plain(self.identifiable),
            "rank": self.rank,
            "dimension": self.dimension,
        }


def _plain(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def unbiased_error_floor(jacobian: ArrayLike, information: float) -> ErrorFloor:
    """Cramér–Rao floors on the error of an unbiased reconstruction of this record.

    Assumptions: the law of the release is regular (Gaussian and von Mises-Fisher are), the
    estimator is unbiased in a neighbourhood of the record, and everything but this record is
    known to the attacker. The floor is local: it is the one of the record at which the Jacobian
    was taken. Singular values below the rounding error of the largest count as zero.

    >>> floor = unbiased_error_floor([[1.0, 0.0], [0.0, 2.0]], information=4.0)
    >>> floor.cramer_rao, floor.trace
    (0.15625, 0.1)
    """
    matrix = _jacobian(jacobian)
    scale = math.sqrt(_validate.non_negative("information", information))
    dimension = matrix.shape[1]
    # Singular values of J, not eigenvalues of JᵀJ: squaring would double the condition's digits.
    singular = np.linalg.svd(matrix, compute_uv=False)
    top = scale * float(singular[0])
    if top == 0:
        return ErrorFloor(math.inf, math.inf, 0.0, rank=0, dimension=dimension)
    # Relative to the largest, and divided by it twice, no square over- or underflows.
    relative = singular / singular[0]
    kept = relative[relative > max(matrix.shape) * np.finfo(np.float64).eps]
    rank = int(kept.size)
    identifiable = math.fsum(kept**-2.0) / dimension / top / top
    return ErrorFloor(
        cramer_rao=identifiable if rank == dimension else math.inf,
        trace=dimension / math.fsum(relative**2) / top / top,
        identifiable=identifiable,
        rank=rank,
        dimension=dimension,
    )


def renyi_error_floor(renyi_2: float, diameters: ArrayLike) -> float:
    """Floor on an unbiased attacker's mean squared error a coordinate, from Rényi privacy.

    E‖x̂ − x‖²/d ≥ (1/d)·Σ_i diam_i²/4 / (e^{ε₂} − 1)   (Guo et al. 2022, Theorem 1).

    Unlike the Fisher floors it holds at *every* record, from one privacy parameter.

    Proof. Fix the record x and a coordinate i. Some record x′ of the domain has
    |x′_i − x_i| ≥ diam_i/2: one of the two ends of the diameter does, by the triangle inequality.
    Write P, P′ for the law of the release under x, x′. For an unbiased estimate T of coordinate i,
    x′_i − x_i = E_{P′}T − E_P T = E_P[(T − x_i)(dP′/dP − 1)], so by Cauchy–Schwarz
    (Hammersley–Chapman–Robbins) Var_P(T) ≥ (x′_i − x_i)²/χ²(P′‖P), and χ² = e^{D₂(P′‖P)} − 1 ≤
    e^{ε₂} − 1. Sum over the coordinates. The domain need not be a box. ∎

    Neighbouring relation: **replace one** record by another, everything else known. An ε₂ under
    add/remove does not bound D₂ between two records and must not be used here.

    What it does not promise: a constant guess in the middle of the domain is biased and errs by at
    most mean(diam²)/4, so for ε₂ < ln 2 the floor is above what an attacker with no release gets.

    Args:
      renyi_2: ε₂, the Rényi divergence of order 2 of the whole run, in nats; ``math.inf`` allowed.
      diameters: Width of the records' domain in each coordinate, or one number for all.

    Returns:
      The floor, in squared units of the record; ``math.inf`` when ε₂ = 0.

    >>> round(renyi_error_floor(1.0, 1.0), 6)
    0.145494
    """
    epsilon = renyi_2 if renyi_2 == math.inf else _validate.non_negative("renyi_2", renyi_2)
    widths = np.atleast_1d(np.asarray(diameters, dtype=np.float64))
    if widths.ndim != 1 or widths.size == 0 or not np.isfinite(widths).all() or widths.min() < 0:
        raise ValueError("diameters must be finite numbers, 0 or more, one for each coordinate")
    spread = float(np.mean((widths / 2) ** 2))
    if spread == 0:
        return 0.0
    if epsilon == 0:
        return math.inf
    # e^{−ε}/(1 − e^{−ε}) is 1/(e^ε − 1) without overflow.
    return spread * math.exp(-epsilon) / -math.expm1(-epsilon)
