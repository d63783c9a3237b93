"""What a check found: one line each, and the answer of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from recondite.notions.accounts import json_ready

__all__ = ["CheckResult", "Finding", "Verdict"]

Verdict = Literal["consistent", "violates", "cannot tell", "skipped"]

WORDS: dict[Verdict, str] = {
    "consistent": "consistent with the claim",
    "violates": "violates the claim",
    "cannot tell": "cannot tell",
    "skipped": "left out",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
      check: Its name, which ``skip`` takes.
      verdict: "consistent" means that nothing contradicts the claim, never that it is proved.
      evidence: One line.
      measured: The number behind it, where there is one.
      allowed: What the claim allows of that number.
    """

    check: str
    verdict: Verdict
    evidence: str
    measured: float | None = None
    allowed: float | None = None


@dataclass(frozen=True)
class CheckResult:
    """The answer of a check.

    Guarantee: a training that does what is claimed is said to violate it with probability at most
    1 - ``confidence``, over all tests that were made. A training that is consistent was not
    contradicted, by these records, at this many steps: that is no proof.

    Attributes:
      claim: In words.
      findings: One for each thing that was looked at.
      confidence: With which "violates" holds.
      steps: Steps that were made.
    """

    claim: str
    findings: tuple[Finding, ...]
    confidence: float
    steps: int

    @property
    def verdict(self) -> Verdict:
        """A violation outweighs what cannot be told, which outweighs consistency.

        Where nothing was looked at nothing can be told.
        """
        found = {finding.verdict for finding in self.findings}
        order: tuple[Verdict, ...] = ("violates", "cannot tell", "consistent")
        return next((verdict for verdict in order if verdict in found), "cannot tell")

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines behind the verdict."""
        return tuple(f.evidence for f in self.findings if f.verdict == self.verdict)

    def __str__(self) -> str:
        lines = [f"{WORDS[self.verdict]}: {self.claim}"]
        lines += [f"  {f.check}: {WORDS[f.verdict]}: {f.evidence}" for f in self.findings]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """One JSON object."""
        out: dict[str, Any] = json_ready(
            {
                "schema_version": 1,
                "verdict": self.verdict,
                "claim": self.claim,
                "confidence": self.confidence,
                "steps": self.steps,
                "findings": self.findings,
            }
        )
        return out
