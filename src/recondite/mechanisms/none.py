"""No noise, with or without clipping: what a defence is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from recondite.laws import InfiniteLoss, LossLaw
from recondite.mechanisms.base import (
    Mechanism,
    MetricPrivacy,
    Neighbouring,
    Setting,
    UndefinedNotionError,
)

__all__ = ["NoNoise", "hands_over"]

_ROUNDING = 1e-3  # of a batch's sum in single precision, in units of one record, with room to spare


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """Releases the gradient as it is.

    Attributes:
      dim: Number of coordinates.
      clip: Whether gradients are clipped first, which bounds nothing that an attacker needs.
    """

    dim: int | None = None
    clip: bool = False

    name: ClassVar[str] = "none"
    parameter: ClassVar[str] = ""
    weaker: ClassVar[Literal["larger", "smaller"]] = "larger"
    private: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self._check_dim(1)

    def loss(self, relation: Neighbouring) -> LossLaw:
        """Infinite."""
        del relation
        return InfiniteLoss()

    def configured(self, setting: Setting) -> NoNoise:
        """For any bounds: there is no noise that they could be too large for."""
        return self.with_dim(setting.dim)

    def perturb(self, gradient: Any, generator: Any = None) -> Any:
        """The gradient."""
        del generator
        return gradient

    def log_likelihood(self, release: Any, gradient: Any) -> Any:
        """Not a density."""
        raise UndefinedNotionError("a release without noise has no density: compare for equality")

    def likelihood_blocks(self) -> tuple[int, ...] | None:
        """The whole vector."""
        return (self.required_dim(),)

    def log_likelihood_of_products(self, inner: Any, squared: Any, own: Any) -> Any:
        """-‖r - g‖²/2 over the rounding of single precision, squared: the nearest is the likeliest.

        No density: noise as small as rounding stands in for none, so that candidates have an order.
        """
        del own
        return ((inner - 0.5 * squared) / _ROUNDING**2)[..., 0]

    def log_bayes_capacity(self) -> float:
        """Infinite: exact values of a continuum are revealed."""
        return math.inf

    def mutual_information(self) -> float:
        """Infinite."""
        return math.inf

    def metric_privacy(self) -> MetricPrivacy:
        """Infinite."""
        return MetricPrivacy(math.inf, "any", "averaged gradients of two batches", math.inf)

    def fisher_information(self) -> float:
        """Infinite."""
        return math.inf


def hands_over(mechanism: Mechanism) -> bool:
    """Whether gradients leave as they are; what overrides ``perturb`` does something to them."""
    return type(mechanism).perturb is NoNoise.perturb
