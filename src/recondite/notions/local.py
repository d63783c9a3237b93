"""A channel in the notions of a mechanism: the noisy copy of a record as a local release.

The features of a record lie in a box of known sides (pixels in [0, 1] do). Two records in it are
no further apart than its diagonal, so a noisy copy is a local Gaussian mechanism; and Bayes'
capacity of Gaussian noise on a box has a closed form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from recondite import _validate as check
from recondite.numerics.ball import log_gaussian_ball_capacity

if TYPE_CHECKING:
    from recondite.channels.base import Channel

__all__ = ["local_epsilon", "local_rero", "log_bayes_capacity", "shift"]

FloatArray = NDArray[np.float64]

# Up to here the tight accountant is quick; beyond, the closed bound is within a few per cent.
_TIGHT = 20.0


def shift(channel: Channel, sides: ArrayLike, uses: int = 1) -> float:
    """Returns μ: telling two records apart is no easier than N(0, 1) from N(μ, 1).

    Guarantee: for any two records in a box with these sides, from ``uses`` noisy copies with
    fresh noise (replace-one, features only).
    """
    diagonal = float(np.linalg.norm(_box(sides, channel.dim)))
    return math.sqrt(check.at_least("uses", uses, 1)) / channel.local_gaussian(diagonal)


def local_epsilon(mu: float, delta: float) -> float:
    """Returns ε(δ) of N(0, 1) against N(μ, 1): an upper bound, tight up to μ = 20."""
    target = check.probability("delta", delta)
    if mu <= _TIGHT:
        from recondite.accounting import Poisson, epsilon  # heavy
        from recondite.mechanisms import Gaussian

        return epsilon(Gaussian(noise_multiplier=1 / mu), Poisson(rate=1.0, steps=1), target)
    # δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) is at most its first term.
    return 0.5 * mu * mu + mu * float(-special.ndtri(target))


def local_rero(mu: float, prior: float) -> float:
    """Returns Φ(Φ⁻¹(r) + μ): the best success where a blind guess succeeds with r."""
    rate = check.probability("prior", prior)
    return float(special.ndtr(special.ndtri(rate) + mu))


def log_bayes_capacity(channel: Channel, sides: ArrayLike, uses: int = 1) -> float:
    """Returns an upper bound on the log of Bayes' capacity, in nats.

    For records in a box and noise that is independent between features it is exact:
    Σ_j ln(1 + L_j/(s_j·√(2π))), s_j the noise deviation of feature j. Noise along eigenvectors is
    looked at along them, where the box lies in a larger one; what a truncated spectrum left out,
    in a ball. k fresh draws are one with 1/k of the variance (their mean is sufficient).

    Args:
      channel: The channel.
      sides: The range of each feature, or one number for all.
      uses: How many noisy copies with fresh noise there are.
    """
    box, noise = _box(sides, channel.dim), channel.noise
    draws = check.at_least("uses", uses, 1)
    outside = math.sqrt(noise.variance / draws)
    if noise.along is None:
        scale = np.ones(channel.dim) if noise.scale is None else noise.scale
        return _box_capacity(box, outside * scale)
    vectors = channel.spectrum.eigenvectors
    inside = _box_capacity(np.abs(vectors).T @ box, np.sqrt(noise.along / draws))
    rest = channel.dim - noise.along.size
    if rest == 0:
        return inside
    radius = 0.5 * float(np.linalg.norm(box))
    return inside + log_gaussian_ball_capacity(rest, radius / outside)


def _box_capacity(sides: FloatArray, deviations: FloatArray) -> float:
    return float(np.sum(np.log1p(sides / (deviations * math.sqrt(2 * math.pi)))))


def _box(sides: ArrayLike, dim: int) -> FloatArray:
    given: Any = np.asarray(sides, dtype=np.float64).reshape(-1)
    box: FloatArray = np.full(dim, given[0]) if given.size == 1 else given
    if box.size != dim:
        raise ValueError(f"sides must have one number for each of {dim} features, got {box.size}")
    if not (np.isfinite(box).all() and (box > 0).all()):
        raise ValueError("sides must be finite and above 0")
    return box
