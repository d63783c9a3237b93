"""The defences of the frontier: how gradients are bounded, what noise they get, and its account."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recondite.mechanisms import Directional, Gaussian, Mechanism, VonMisesFisher
from recondite.mechanisms import PartitionedVonMisesFisher as Partitioned

__all__ = [
    "CAPACITIES",
    "CHANNELS",
    "DEFENCES",
    "NAMES",
    "FrontierDefence",
    "FrontierRun",
    "strengths",
]

_SIGMAS = (3.0, 1.5, 0.75, 0.35, 0.15, 0.06)
_KAPPAS = (0.25, 0.6, 3.0, 20.0, 100.0, 500.0)  # over the root of the dimension
CAPACITIES = (1.0, 5.0, 20.0, 60.0, 200.0, 1000.0)  # of the channels, in nats
_LOW_KAPPA = 0.3  # of noise on each record, for an ε that reads like a promise


@dataclass(frozen=True)
class FrontierDefence:
    """Noise on gradients, with everything that is fixed before training.

    Attributes:
      name: As rows have it.
      noise: "gaussian", "vmf", "partitioned" or "directional".
      rule: How a record's gradient is bounded: "flat", "per-layer", "automatic", "psac", "scale".
      sampling: "poisson" or "allocation".
      filtered: Whether releases go through DOPPLER's low-pass filter before the optimizer.
      views: Fixed views of a record whose gradients are averaged before clipping.
      momentum: Whether the optimizer has momentum.
    """

    name: str
    noise: str
    rule: str = "flat"
    sampling: str = "poisson"
    filtered: bool = False
    views: int = 1
    momentum: bool = True

    def mechanism(self, value: float, dim: int, sizes: tuple[int, ...]) -> Mechanism:
        """What is accounted for. σ is in units of what one record can move the sum."""
        if self.noise == "vmf":
            return VonMisesFisher(value, dim=dim)
        if self.noise == "partitioned":
            return Partitioned(value, dim=dim, blocks=sizes)
        if self.noise == "directional":
            return Directional(value, dim=dim)
        return Gaussian(value, dim=dim)


DEFENCES = (
    FrontierDefence("gaussian", "gaussian"),
    FrontierDefence("gaussian-per-layer", "gaussian", "per-layer"),
    FrontierDefence("gaussian-automatic", "gaussian", "automatic"),
    FrontierDefence("gaussian-psac", "gaussian", "psac"),
    FrontierDefence("gaussian-low-pass", "gaussian", filtered=True),
    FrontierDefence("directional", "directional", "scale"),
    FrontierDefence("vmf", "vmf"),
    FrontierDefence("partitioned", "partitioned"),
    FrontierDefence("gaussian-allocation", "gaussian", sampling="allocation"),
    FrontierDefence("gaussian-views", "gaussian", views=4),
    FrontierDefence("gaussian-low-pass-alone", "gaussian", filtered=True, momentum=False),
)
CHANNELS = ("natural-once", "natural-per-step")
NAMES = {
    "gaussian": "Gaussian, flat clipping",
    "gaussian-per-layer": "Gaussian, per-layer clipping",
    "gaussian-automatic": "Gaussian, automatic clipping",
    "gaussian-psac": "Gaussian, PSAC",
    "gaussian-low-pass": "Gaussian, low-pass filter (DOPPLER) before momentum",
    "gaussian-low-pass-alone": "Gaussian, low-pass filter (DOPPLER) in place of momentum",
    "directional": "directional, per record",
    "vmf": "VMF on the average",
    "partitioned": "partitioned VMF",
    "gaussian-allocation": "Gaussian, random allocation",
    "gaussian-views": "Gaussian, four views averaged",
    "natural-once": "Natural channel, noise drawn once",
    "natural-per-step": "Natural channel, fresh noise",
    "none": "no defence",
}


@dataclass(frozen=True)
class FrontierRun:
    """One training of a stack.

    Attributes:
      defence: Of the run.
      value: σ or κ.
      rate: Learning rate.
    """

    defence: FrontierDefence
    value: float
    rate: float


def strengths(
    defence: FrontierDefence, dim: int, batch: float, sizes: tuple[int, ...]
) -> list[float]:
    """σ or κ, from strong noise to weak.

    κ of von Mises-Fisher noise goes with the root of the dimension, κ of noise on each record so
    that its sum over a batch is about as loud as σ; blocks share κ so that their ε is that of flat
    noise for κ well below the dimension.
    """
    if defence.noise == "gaussian":
        return list(_SIGMAS)
    if defence.noise == "directional":
        return [_LOW_KAPPA, *(_digits(math.sqrt(batch * dim) / sigma) for sigma in _SIGMAS)]
    flat = [share * math.sqrt(dim) for share in _KAPPAS]
    if defence.noise == "vmf":
        return [_digits(kappa) for kappa in flat]
    shared = math.sqrt(dim * sum(1.0 / size for size in sizes))
    return [_digits(kappa / shared) for kappa in flat]


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
