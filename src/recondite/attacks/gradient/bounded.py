"""What the attacker knows of how the victim bounded each record's gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recondite import _validate

__all__ = ["Bounding"]


@dataclass(frozen=True)
class Bounding:
    """The rule by which the victim scaled each record's gradient before averaging.

    Attributes:
      rule: "none", "clip" (to at most ``norm``) or "scale" (to exactly ``norm``).
      norm: The bound.
    """

    rule: str = "none"
    norm: float = 1.0

    def __post_init__(self) -> None:
        _validate.choice("rule", self.rule, ("none", "clip", "scale"))
        _validate.positive("norm", self.norm)

    def factors(self, norms: Tensor) -> Tensor:
        """What each record's gradient is multiplied by, given its norm."""
        ratio = self.norm / norms.clamp_min(1e-12)
        return ratio.clamp(max=1.0) if self.rule == "clip" else ratio
