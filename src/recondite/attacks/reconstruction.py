"""What an attack rebuilt, and how far it is: what every attack on records hands over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

__all__ = ["AttackProgress", "Reconstruction"]


@dataclass(frozen=True)
class AttackProgress:
    """How far an attack is.

    Attributes:
      step: Iterations finished.
      steps: Iterations planned.
      loss: Mean over victims of the best matching loss so far.
    """

    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class Reconstruction:
    """What an attack rebuilt.

    Attributes:
      images: (batch, c, h, w) in the scale the model takes; (victims, batch, c, h, w) of many.
      labels: The labels used or found, (batch,) or (victims, batch); None where there are none.
      loss: Matching loss of the best attempt; (victims,) of many.
      agreement: Mean distance per pixel (root mean square) between the best attempt and the
        others; None with one attempt. An estimate of how sure the attacker can be without the
        originals: small where attempts from other starts found the same image.
      interrupted: Whether the attack stopped early: the best so far is kept.
      steps: Iterations done.
      seconds: Time taken.
      notes: What a reader should know.
      by_user: Whether a keyboard interrupt stopped it early, and not the time limit.
      figures: Further figures of the attack's own, by name.
    """

    images: Tensor
    labels: Tensor | None
    loss: Tensor
    agreement: Tensor | None = None
    interrupted: bool = False
    steps: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    by_user: bool = False
    figures: Mapping[str, float | None] = field(default_factory=dict)

    def victim(self, index: int) -> Reconstruction:
        """The part of one victim."""
        return replace(
            self,
            images=self.images[index],
            labels=None if self.labels is None else self.labels[index],
            loss=self.loss[index],
            agreement=None if self.agreement is None else self.agreement[index],
        )
