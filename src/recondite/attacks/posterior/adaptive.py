"""The old name of the attacker who knows the defence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from recondite.attacks.posterior.gauss_newton import GaussNewton

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim

__all__ = ["Adaptive"]

_MOVED = "adaptive is now gauss-newton: name that, and leave prior out"


@dataclass(frozen=True)
class Adaptive(GaussNewton):
    """Deprecated: :class:`GaussNewton`, for one version.

    The search that had this name ended in optima that were worse than a blind guess.

    Attributes:
      prior: Not used any more: the prior is always the one of public records.
      steps: At most 6 are taken; the old attack needed hundreds.
    """

    name: ClassVar[str] = "adaptive"
    title: ClassVar[str] = "deprecated: gauss-newton"

    prior: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior not in (None, "public"):
            raise ValueError("prior must be public: fitted on other held-out records")
        object.__setattr__(self, "prior", None)  # of this name it meant the public records
        object.__setattr__(self, "steps", min(self.steps, 6))
        warnings.warn(_MOVED, DeprecationWarning, stacklevel=3)

    def _evaluate(self, victim: Victim) -> Outcome:
        found = super()._evaluate(victim)
        return replace(found, notes=(*found.notes, _MOVED))
