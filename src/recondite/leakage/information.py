"""Mutual information of Gaussian noise, in nats, as pure functions of a covariance spectrum.

The results are those of the channel model of federated learning (Theorems 1, 2 and 4 of the paper
that ``docs/theory`` calls CHANNEL), corrected where it is misprinted. Throughout,
``eigenvalues`` are those of the covariance of what is protected (a record, a gradient, a batch),
``noise_variance`` is a variance (its square root is a standard deviation) and every result is in
nats. The covariance is all these bounds know: they hold for *any* law that has it, and are equal
to the mutual information when that law is Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recondite import _validate as check
from recondite.numerics.spectra import as_eigenvalues, error_floor

__all__ = [
    "as_eigenvalues",
    "batch_information",
    "compressed_information",
    "discarded_information",
    "dp_information",
    "dp_information_from_epsilon",
    "error_floor",
    "gaussian_entropy",
    "gaussian_information",
    "reuse_information",
]

FloatArray = NDArray[np.float64]


def _noise(noise_variance: ArrayLike, size: int) -> FloatArray:
    """Returns the noise variances, one or ``size`` of them, each finite and above zero."""
    variances = np.asarray(noise_variance)
    if variances.dtype.kind not in "iuf":
        raise ValueError(f"noise_variance must be a number, got {noise_variance!r}")
    variances = variances.astype(np.float64)
    if variances.ndim and variances.shape != (size,):
        raise ValueError(
            f"noise_variance must be one number or one for each of the {size} eigenvalues, "
            f"got shape {variances.shape}"
        )
    if not (np.isfinite(variances).all() and (variances > 0).all()):
        raise ValueError("noise_variance must be finite and above 0 everywhere")
    return variances


def _information(eigenvalues: FloatArray, noise: FloatArray, uses: float) -> float:
    with np.errstate(over="ignore"):
        terms = np.log1p(uses * (eigenvalues / noise))
    # A quotient beyond the range of a float still has a logarithm well within it.
    lost = ~np.isfinite(terms)
    if lost.any():
        variances = np.broadcast_to(noise, eigenvalues.shape)[lost]
        terms[lost] = math.log(uses) + np.log(eigenvalues[lost]) - np.log(variances)
    return 0.5 * float(np.sum(terms))


def gaussian_information(eigenvalues: ArrayLike, noise_variance: ArrayLike) -> float:
    """Returns ½ Σ ln(1 + λ_i/σ_i), the capacity of additive Gaussian noise (Theorem 2).

    Guarantee: an upper bound on I(D; D + ξ) in nats for one release, for every D with this
    covariance and ξ ~ N(0, Ψ) independent of it, Ψ sharing the covariance's eigenvectors. It is
    an equality when D is Gaussian.

    Args:
      eigenvalues: The eigenvalues λ_i of the covariance of D.
      noise_variance: The variance of the noise, one number or one for each eigenvalue.

    >>> round(gaussian_information([3.0, 0.0], 1.0), 12) == round(math.log(2), 12)
    True
    """
    spectrum = as_eigenvalues(eigenvalues)
    return _information(spectrum, _noise(noise_variance, spectrum.size), 1.0)


def reuse_information(eigenvalues: ArrayLike, noise_variance: ArrayLike, uses: int) -> float:
    """Returns ½ Σ ln(1 + kλ_i/σ_i): k releases of one record, each with fresh noise.

    The mean of the k noisy copies is a sufficient statistic and has 1/k of the noise variance.

    Guarantee: an upper bound on I(D; all k releases) in nats, never below the information of one
    release and never above k times it. The same number bounds k near-copies of one record, each
    noised once.

    Args:
      eigenvalues: The eigenvalues of the covariance of D.
      noise_variance: The variance of the noise of one release, one number or one each.
      uses: How many releases k with independent noise; 0 reveals nothing.
    """
    spectrum = as_eigenvalues(eigenvalues)
    noise = _noise(noise_variance, spectrum.size)
    count = check.at_least("uses", uses, 0)
    return _information(spectrum, noise, float(count)) if count else 0.0


def batch_information(eigenvalues: ArrayLike, noise_variance: ArrayLike, batch_size: int) -> float:
    """Returns ½ Σ ln(1 + λ_i/(Bσ_i)), for the mean of B independent records.

    Guarantee: an upper bound in nats on what one noisy batch *mean* tells of the mean, per batch
    and per round. Assumes independent records and noise of this variance on the mean itself.
    """
    spectrum = as_eigenvalues(eigenvalues)
    noise = _noise(noise_variance, spectrum.size)
    return _information(spectrum / check.at_least("batch_size", batch_size, 1), noise, 1.0)


def compressed_information(
    eigenvalues: ArrayLike, noise_variance: ArrayLike, removed: Iterable[int]
) -> float:
    """Returns the information left when directions of the eigenspace are dropped (λ_i = 0).

    Args:
      eigenvalues: The eigenvalues of the covariance.
      noise_variance: The variance of the noise, one number or one for each eigenvalue.
      removed: The indices of the dropped directions, from 0, in the order of ``eigenvalues``.
    """
    spectrum = as_eigenvalues(eigenvalues)
    noise = _noise(noise_variance, spectrum.size)
    for index in removed:
        position = check.at_least("removed", index, 0)
        if position >= spectrum.size:
            raise ValueError(f"removed must hold indices below {spectrum.size}, got {position}")
        spectrum[position] = 0.0
    return _information(spectrum, noise, 1.0)


def discarded_information(dims: int, trace: float, noise_variance: float) -> float:
    """Returns (r/2) ln(1 + T/(rσ)), the most that r directions of total variance T can carry.

    Guarantee: an upper bound in nats whatever the eigenvalues in those directions are (the
    logarithm is concave), so a truncated decomposition may use it for what it left out.

    Args:
      dims: How many directions r were left out.
      trace: Their total variance T.
      noise_variance: The variance of the noise in each of them.
    """
    count = check.at_least("dims", dims, 0)
    total = check.non_negative("trace", trace)
    variance = check.positive("noise_variance", noise_variance)
    if count == 0:
        if total > 0:
            raise ValueError(f"trace must be 0 when dims is 0, got {trace!r}")
        return 0.0
    return count * _information(np.array([total / count]), np.array(variance), 1.0)


def gaussian_entropy(eigenvalues: ArrayLike) -> float:
    """Returns ½ Σ ln(2πe λ_i), the entropy of the Gaussian law with this covariance.

    It is the largest entropy of any law with this covariance, so it *over*states that of real
    data; a singular covariance gives minus infinity.
    """
    spectrum = as_eigenvalues(eigenvalues)
    if (spectrum == 0).any():
        return -math.inf
    return 0.5 * float(np.sum(np.log(spectrum) + math.log(2 * math.pi * math.e)))


def dp_information(batch_size: int, sensitivity: float, noise_variance: float) -> float:
    """Returns B·S²/(2σ): the capacity of one step of the Gaussian mechanism (Theorem 4, part 1).

    Guarantee: an upper bound in nats on I(batch; noisy gradient), per batch and per round, for
    independent records whose gradients are clipped to norm S and *summed*, with noise N(0, σI) on
    the sum. It does not depend on the dimension.

    Args:
      batch_size: The number B of records in the batch.
      sensitivity: The clipping norm S.
      noise_variance: The variance σ of the noise on the sum of gradients.
    """
    batch = check.at_least("batch_size", batch_size, 1)
    norm = check.positive("sensitivity", sensitivity)
    variance = check.positive("noise_variance", noise_variance)
    return batch * (norm / variance * norm) / 2


def dp_information_from_epsilon(
    batch_size: int,
    epsilon: float,
    delta: float,
    *,
    sensitivity: float = 1.0,
    noise_variance: float | None = None,
) -> float:
    """Returns B·ε²/(4 ln(1.25/δ)): the same capacity read from (ε, δ) (Theorem 4, part 2).

    Guarantee: that of :func:`dp_information`, under a condition that (ε, δ) alone cannot show:
    the noise variance is at least 2S² ln(1.25/δ)/ε² with ε ≤ 1, that is, it was set by the
    classical formula for *one* step. Noise that an accountant calibrated is smaller, and the
    bound is then false. Pass ``noise_variance`` to have the condition checked; without it the
    caller asserts it.

    Args:
      batch_size: The number B of records in the batch.
      epsilon: The ε of one step.
      delta: The δ of one step.
      sensitivity: The clipping norm S; matters only together with ``noise_variance``.
      noise_variance: The variance of the noise on the sum of gradients.

    Raises:
      ValueError: Where the bound does not hold.
    """
    batch = check.at_least("batch_size", batch_size, 1)
    budget = check.positive("epsilon", epsilon)
    log_term = math.log(1.25 / check.probability("delta", delta))
    if budget > 1:
        raise ValueError(
            f"epsilon must be at most 1 for this bound, got {epsilon!r}: the classical Gaussian "
            "calibration ends there; use dp_information with the noise variance"
        )
    if noise_variance is not None:
        norm = check.positive("sensitivity", sensitivity)
        needed = 2 * norm**2 * log_term / budget**2
        # One part in 1e12 forgives a caller who computed the same formula in another order.
        if check.positive("noise_variance", noise_variance) < needed * (1 - 1e-12):
            raise ValueError(
                f"noise_variance must be at least {needed:.6g} for this bound, got "
                f"{noise_variance!r}: an accountant calibrated it; use dp_information instead"
            )
    return batch * budget**2 / (4 * log_term)
