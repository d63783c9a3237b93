"""How one sample's gradient is bounded: a factor from its norm.

Guarantee: for every rule the bounded gradient has norm at most ``norm`` (the layers' norms, for
per-layer clipping). Which rule is used does not matter to the accountant, only its bound does; and
whatever a rule says, :func:`safe_factors` holds it to that bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch

from recondite import _validate

__all__ = [
    "Automatic",
    "Bound",
    "Clip",
    "ClipLayers",
    "Psac",
    "Scale",
    "Unbounded",
    "bound_rule",
    "safe_factors",
]

# Factors beyond these lose digits in single precision, or overflow.
_LEAST, _MOST = 2.0**-126, 2.0**126


class Bound(ABC):
    """A rule that maps squared norms, one column a layer, to factors of the same shape.

    Norms come in double precision and are upper bounds: rounding can only clip more.
    """

    @abstractmethod
    def factors(self, squared: torch.Tensor) -> torch.Tensor:
        """Factor of every sample (rows) and layer (columns)."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """The largest norm of a bounded gradient."""

    def layer_norms(self) -> tuple[float, ...] | None:
        """The largest norm of each layer, where layers are bounded apart."""
        return None


@dataclass(frozen=True)
class _Flat(Bound):
    """One factor for a sample's whole gradient."""

    max_norm: float = 1.0

    def __post_init__(self) -> None:
        _validate.positive("max_grad_norm", self.max_norm)

    @property
    def norm(self) -> float:
        """``max_norm``."""
        return float(self.max_norm)

    def factors(self, squared: torch.Tensor) -> torch.Tensor:
        """The same factor in every layer."""
        norms = squared.sum(1, keepdim=True).sqrt()
        return self._factor(norms).expand_as(squared)

    @abstractmethod
    def _factor(self, norms: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Clip(_Flat):
    """min(1, C/‖g‖): Abadi et al. (2016)."""

    def _factor(self, norms: torch.Tensor) -> torch.Tensor:
        return self.max_norm / norms.clamp(min=self.max_norm)


@dataclass(frozen=True)
class Scale(_Flat):
    """C/‖g‖: every gradient gets the same length (DirDP-SGD); a zero gradient stays zero."""

    def _factor(self, norms: torch.Tensor) -> torch.Tensor:
        return torch.where(norms > 0, self.max_norm / norms, torch.zeros_like(norms))


@dataclass(frozen=True)
class Automatic(_Flat):
    """C/(‖g‖ + γ): automatic clipping, Bu et al. (2023)."""

    stability: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive("stability", self.stability)

    def _factor(self, norms: torch.Tensor) -> torch.Tensor:
        return self.max_norm / (norms + self.stability)


@dataclass(frozen=True)
class Psac(_Flat):
    """C/(‖g‖ + r/(‖g‖ + r)): per-sample adaptive clipping, Xia et al. (2023)."""

    stability: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive("stability", self.stability)

    def _factor(self, norms: torch.Tensor) -> torch.Tensor:
        return self.max_norm / (norms + self.stability / (norms + self.stability))


@dataclass(frozen=True)
class ClipLayers(Bound):
    """Every layer clipped to a norm of its own; together the root of the sum of squares."""

    norms: tuple[float, ...]

    def __post_init__(self) -> None:
        for norm in self.norms:
            _validate.positive("max_grad_norm", norm)

    @property
    def norm(self) -> float:
        """Root of the sum of squares."""
        return math.hypot(*self.norms)

    def layer_norms(self) -> tuple[float, ...] | None:
        """One norm a layer."""
        return self.norms

    def factors(self, squared: torch.Tensor) -> torch.Tensor:
        """min(1, C_l/‖g_l‖) in every layer."""
        limits = _limits(self.norms, squared.device, squared.dtype)
        return limits / torch.maximum(squared.sqrt(), limits)


@dataclass(frozen=True)
class Unbounded(Bound):
    """Gradients as they are: no guarantee can be given."""

    @property
    def norm(self) -> float:
        """Infinite."""
        return math.inf

    def factors(self, squared: torch.Tensor) -> torch.Tensor:
        """One."""
        return torch.ones_like(squared)


@lru_cache(maxsize=16)
def _limits(norms: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Made once: a copy to a device at every step would have to wait for it."""
    return torch.tensor(norms, device=device, dtype=dtype)


def safe_factors(bound: Bound, squared: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """A rule's factors, of gradients that are ``scale`` times those measured.

    Guarantee: factor times norm is within the rule's bound (each layer's, where it has them), for
    norms at any scale; factors are finite, and zero where a number is not or where a factor would
    be too small to keep its digits.

    Args:
      bound: The rule.
      squared: Squared norms in double precision, rows are samples and columns layers.
      scale: Undoes the mean of a loss; it becomes part of the factors.
    """
    norms = squared.sqrt() * scale
    factors = bound.factors(norms.square()).abs()
    if math.isfinite(bound.norm):
        limits: torch.Tensor | float = bound.norm
        sizes = factors * norms
        apart = bound.layer_norms()
        if apart is not None:
            limits = _limits(apart, squared.device, squared.dtype)
        else:
            sizes = torch.linalg.vector_norm(sizes, dim=1, keepdim=True)
        share = (limits / sizes).clamp(max=1.0)
        held = factors * share * scale
        if not held.is_cuda and _ordinary(held):  # else nothing may wait for an answer
            return held
        factors = factors * share.nan_to_num(nan=1.0)
    factors = (factors * scale).clamp(max=_MOST)
    usable = torch.isfinite(factors) & torch.isfinite(norms) & (factors >= _LEAST)
    return factors.masked_fill(~usable, 0.0)


def _ordinary(factors: torch.Tensor) -> bool:
    """Whether all are finite and keep their digits; NaN is neither more nor less than a limit."""
    if factors.numel() == 0:
        return False
    low, high = torch.aminmax(factors)
    return float(low) >= _LEAST and float(high) <= _MOST


_RULES = {"flat": Clip, "scale": Scale, "automatic": Automatic, "psac": Psac}


def bound_rule(
    clipping: str | Bound, max_grad_norm: float | tuple[float, ...], layers: int
) -> Bound:
    """The rule for a name: flat, scale, automatic, psac, per-layer or none."""
    if isinstance(clipping, Bound):
        return clipping
    if clipping == "per-layer":
        norms = max_grad_norm if isinstance(max_grad_norm, tuple) else (max_grad_norm,) * layers
        if len(norms) != layers:
            raise ValueError(f"max_grad_norm must have {layers} values, one a layer")
        return ClipLayers(tuple(float(norm) for norm in norms))
    if clipping == "none":
        return Unbounded()
    _validate.choice("clipping", clipping, (*_RULES, "per-layer", "none"))
    if isinstance(max_grad_norm, tuple):
        raise ValueError('max_grad_norm must be one number unless clipping="per-layer"')
    return _RULES[clipping](float(max_grad_norm))
