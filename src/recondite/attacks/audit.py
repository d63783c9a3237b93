"""A canary audit as an attack: an engine's claim against what its releases show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from recondite import _validate
from recondite.attacks.base import Attack, DefenceFacts, Threat
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.outcome import Claim, Outcome

if TYPE_CHECKING:
    from recondite.attacks.victim import Victim

__all__ = ["CanaryAudit"]

_LARGEST = 1 << 14  # parameters of the audited model: its releases fit in memory


@dataclass(frozen=True)
class CanaryAudit(Attack):
    """Audits the mechanism of a victim as the engine that trained it releases it.

    The claim is for the audit's own small run, at the audit's δ: see
    :func:`recondite.training.canary.audit_training`, which a study hands in as ``victim.audit``.

    Attributes:
      runs: Trainings with the canary, and as many without.
      steps: Of each; None for the audit's own default, one.
      delta: δ of the audit; None for its own default.
      confidence: Probability with which the lower bound holds; None for its own default.
    """

    name: ClassVar[str] = "canary-audit"
    title: ClassVar[str] = "canary audit of the training engine"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.GRADIENTS, Knowledge.DEFENCE})
    threats: ClassVar[frozenset[Threat]] = frozenset({"training"})
    reads: ClassVar[tuple[str, ...]] = ()
    amounts: ClassVar[bool] = True

    runs: int = 500
    steps: int | None = None
    delta: float | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        _validate.at_least("runs", self.runs, 1)
        if self.steps is not None:
            _validate.at_least("steps", self.steps, 1)
        for name in ("delta", "confidence"):
            if getattr(self, name) is not None:
                _validate.probability(name, getattr(self, name))

    @classmethod
    def applies(cls, defence: DefenceFacts) -> bool:
        """A claim about noise on gradients is audited once, at one seed."""
        return defence.first and defence.private and defence.on_gradients

    def _evaluate(self, victim: Victim) -> Outcome:
        if victim.audit is None:
            raise ValueError(f"attack {self.name} needs the engine that trained the victim")
        given: dict[str, Any] = {
            key: value for key, value in vars(self).items() if value is not None
        }
        mechanism = victim.defence.mechanism
        blocks = mechanism.parameters().get("blocks")
        own = sum(p.numel() for p in victim.model.parameters() if p.requires_grad)
        dim = sum(blocks) if isinstance(blocks, list) else min(own, _LARGEST)
        victim.progress("auditing", 0.0)
        found = victim.audit(mechanism, seed=victim.seed, dim=dim, **given)
        claim = Claim(
            "epsilon",
            found.claim,
            found.lower,
            "canary audit",
            f"{given.get('steps', 1)} release(s) in {dim} dimensions",
            found.result.confidence,
            found.result.delta,
        )
        note = "the canary audit's claim is for its own small run, not for the training run"
        return Outcome(claims=(claim,), notes=(note,))
