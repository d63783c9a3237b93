"""Noise that clients add in shares: on a grid of integers, so that their exact sum is protected.

Secure aggregation sums integers. An update is put on the grid first (cut towards zero, so that no
entry and no norm grows), each client adds an integer of a discrete Gaussian law, and the sum of
all has noise of the size that is accounted. With a step of the grid that is a power of two the
integers pass Flower's SecAgg+ unchanged: its stochastic rounding has nothing left to round.

Why the bound of :func:`slack` holds. Write N(v) for the discrete Gaussian on the integers with
P(x) ∝ exp(-x²/2v).

1. D_α(N(v) + k ‖ N(v)) <= α k²/(2v) for every integer k and α > 1: completing the square leaves
   the sum over x of exp(-(x - αk)²/2v), which is largest where αk is an integer (its Fourier
   coefficients are positive). Coordinates add up: α‖k‖²/(2v), the Gaussian mechanism's own curve.
2. N(a) * N(b) has the weight exp(-x²/2(a + b)) θ(t) at x, where θ(t), the sum over y of
   exp(-(y - t)²/2w) with w = ab/(a + b), is √(2πw) (1 + 2 Σ_j exp(-2π²wj²) cos 2πjt) by Poisson's
   summation. So it is N(a + b) up to a factor within (1 + r)/(1 - r), r = 2q/(1 - q),
   q = exp(-2π²w), either way. Adding h shares of variance v one by one, w is at least v/2.
3. Laws within a factor exp(±τ) of (ε, δ)-indistinguishable ones are (ε + 2τ, δ exp τ)-so.
4. A value beyond SecAgg+'s clipping range would be clipped, which no noise covers. The range leaves
   32 standard deviations of the noise: N(v) is sub-Gaussian of variance v, so this happens with
   probability at most β = 2·dim·h·exp(-512), which δ pays with β (1 + exp ε).

(1 is Canonne, Kamath and Steinke, 2020; 2 with other constants is Kairouz, Liu and Steinke, 2021.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate
from recondite.federated.update import bounded
from recondite.mechanisms import Gaussian, Mechanism
from recondite.numerics.random import NumpySource, random_source
from recondite.numerics.secure import SecureSource

__all__ = ["LEVELS", "SharedNoise", "discrete_gaussian", "in_shares", "slack", "with_slack"]

# Of the integers that SecAgg+ sums; sums of up to 1,023 clients stay below its modulus, 2³².
LEVELS = 1 << 22
_SIGMAS = 32.0
# The finest law of the noise that is used, in steps of the grid: q of rule 2 is below 1e-68.
_SMALLEST = 4.0

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SharedNoise:
    """One client's share of the noise on a sum.

    Guarantee: in the sum of at least ``honest`` such releases, each client's update, bounded to
    ``max_norm``, has the Rényi curve of the Gaussian mechanism at ``noise_multiplier`` (replace one
    client's update: shifts of 2C), up to :func:`slack`. Assumes that those clients added their
    shares and keep them to themselves, and that nobody sees less than the sum: the server follows
    the protocol of secure aggregation. On its own a release has only a part of the noise.

    Attributes:
      noise_multiplier: σ of the sum's noise over ``max_norm``; 0 for none.
      max_norm: The bound on an update.
      honest: Clients whose shares make up σ together; further ones only add noise.
    """

    noise_multiplier: float
    max_norm: float
    honest: int

    def __post_init__(self) -> None:
        _validate.non_negative("noise_multiplier", self.noise_multiplier)
        _validate.positive("max_norm", self.max_norm)
        _validate.at_least("honest", self.honest, 2)
        if self.noise_multiplier and self.scale < _SMALLEST:
            raise ValueError(
                f"noise_multiplier {self.noise_multiplier:g} in shares of {self.honest} clients is "
                f"below {_SMALLEST:g} steps of the grid: the sum's law is not proved there"
            )

    @property
    def deviation(self) -> float:
        """The standard deviation of one share, in the update's own scale."""
        return self.noise_multiplier * self.max_norm / math.sqrt(self.honest)

    @property
    def clipping_range(self) -> float:
        """SecAgg+'s: a power of two that no value exceeds (rule 4)."""
        return float(2.0 ** math.ceil(math.log2(self.max_norm + _SIGMAS * self.deviation)))

    @property
    def step(self) -> float:
        """Of the grid: a power of two."""
        return 2.0 * self.clipping_range / LEVELS

    @property
    def scale(self) -> float:
        """The standard deviation of one share in steps of the grid."""
        return self.deviation / self.step

    def release(self, update: Vector, generator: Any) -> Vector:
        """An update, bounded, on the grid, with this client's share of the noise.

        Args:
          update: The joined difference of the weights.
          generator: Where noise comes from; None for the operating system.
        """
        # A little below one, so that rounding cannot lift the norm over the bound.
        places = np.trunc(bounded(update, self.max_norm) * ((1.0 - 1e-9) / self.step))
        if self.noise_multiplier:
            places += discrete_gaussian(self.scale, len(places), generator)
        released: Vector = places * self.step
        return released

    def to_dict(self, dim: int) -> dict[str, Any]:
        """What a ledger's line says of it."""
        return {**asdict(self), "scale": self.scale, "dim": dim}


def in_shares(mechanism: Mechanism, max_norm: float, honest: int) -> tuple[SharedNoise, Mechanism]:
    """One client's share of a mechanism's noise, and what the sum of the shares is accounted as.

    Raises:
      ValueError: Its noise cannot be shared.
    """
    if not mechanism.private:  # nothing to share: the server adds the noise, or nobody
        return SharedNoise(0.0, max_norm, honest), mechanism
    if not mechanism.in_shares:
        raise ValueError(
            f"{mechanism.name} noise cannot be added in shares: choose gaussian, or noise of each "
            "client's own"
        )
    share = SharedNoise(mechanism.strength, max_norm, honest)
    # Whatever class it was: what the sum has is Gaussian noise.
    return share, Gaussian(mechanism.strength)


def discrete_gaussian(scale: float, count: int, generator: Any) -> Vector:
    """Integers with P(x) ∝ exp(-x²/2·scale²), as floats.

    Drawn by rejection from a two-sided geometric law (Canonne, Kamath and Steinke, 2020), in
    double precision: exact where real arithmetic is.
    """
    source: Any = random_source(np.empty(0), generator)
    chosen: NumpySource | SecureSource = source
    width = math.floor(scale) + 1.0
    parts: list[Vector] = []
    missing = count
    while missing > 0:
        tries = 2 * missing + 16
        size = np.floor(width * chosen.exponential(tries))
        negative = chosen.exponential(tries) < math.log(2.0)
        kept = chosen.exponential(tries) >= (size - scale**2 / width) ** 2 / (2 * scale**2)
        kept &= ~(negative & (size == 0))  # zero has one sign only
        drawn = np.where(negative, -size, size)[kept][:missing]
        parts.append(drawn)
        missing -= len(drawn)
    return np.concatenate(parts) if parts else np.zeros(0)


def slack(shares: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """τ and β of the module's proof over all rounds, from lines' :meth:`SharedNoise.to_dict`."""
    tau = beta = 0.0
    for share in shares:
        for earlier in range(1, int(share["honest"])):
            power = 2 * math.pi**2 * float(share["scale"]) ** 2 * earlier / (earlier + 1)
            q = math.exp(-min(power, 600.0))  # up, where it would vanish
            r = 2 * q / (1 - q)
            tau += int(share["dim"]) * (math.log1p(r) - math.log1p(-r))
        beta += 2.0 * int(share["dim"]) * int(share["honest"]) * math.exp(-(_SIGMAS**2) / 2)
    return tau, beta


def with_slack(epsilon: Any, delta: float, shares: Sequence[Mapping[str, Any]]) -> float:
    """ε at δ of releases whose law is that of ``epsilon`` up to :func:`slack`.

    Args:
      epsilon: From a δ to the ε of the ideal law at it.
      delta: δ.
      shares: As :func:`slack` takes them.
    """
    tau, beta = slack(shares)
    found = float(epsilon(0.999 * delta * math.exp(-tau))) + 2.0 * tau
    # What is left of δ has to pay for values beyond the clipping range.
    return found if beta * (1.0 + math.exp(min(found, 700.0))) <= 0.001 * delta else math.inf
