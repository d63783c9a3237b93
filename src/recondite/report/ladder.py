"""The ladder: for each defence and threat, what is proven, what is broken, what only resisted.

- **proven**: the bound for this threat is within the budget: no intruder, of whatever skill,
  rebuilds a record or picks it out of ten more often. A bound of 99% and more is none.
- **broken**: not proven, and some attack's interval excludes the blind guess; or a claim was
  contradicted, whatever is claimed.
- **resisted**: no attack that was tried beat the blind guess, and the bound is too loose to mean
  anything. Nothing is known of other attacks.
- **untested**: no bound within the budget, and no attack whose result stands beside a guess.

A bound speaks of this threat where the intruder of the bound sees at least as much: everything a
run releases includes its updates and its model, and whoever knows in which steps a record took
part knows more than whoever does not. What an attack showed counts where the intruder of the
threat sees at least as much as the attack did.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from recondite.attacks.base import THREATENED
from recondite.report.evidence import (
    AttackFinding,
    Chance,
    Evidence,
    evidence,
)
from recondite.report.points import Point, Values, measured
from recondite.report.released import participation_of, threat_of
from recondite.report.rows import number, section

__all__ = [
    "BUDGET",
    "PARTICIPATIONS",
    "RUNGS",
    "VACUOUS",
    "VIEWS",
    "Rung",
    "Standing",
    "View",
    "measured_by",
    "rung",
    "spent",
    "standings",
]

Rung = Literal["proven", "broken", "resisted", "untested"]
RUNGS: tuple[Rung, ...] = ("proven", "resisted", "untested", "broken")
PARTICIPATIONS = ("secret", "known")
BUDGET = 0.5  # of ReRo, where a guess is right one time in ten
PRIOR = 0.1
VACUOUS = 0.99  # a bound from which on nothing is promised, whatever budget is named
NAMED = 0.9  # picked out this often, a record is as good as named
_TEN = 10
_ASIDE = " (labels aside)"

View = tuple[str, str]  # threat, participation
VIEWS: tuple[View, ...] = tuple(
    (threat, side)
    for threat in sorted(THREATENED, key=lambda threat: threat != "training")
    for side in PARTICIPATIONS
)


@dataclass(frozen=True)
class Standing:
    """Where one defence stands against one intruder.

    Attributes:
      point: The number of the point.
      view: The threat, and whether participation is known.
      rero: No intruder of this threat rebuilds a record, or picks it out of ten, more often;
        None where nothing is proven for this threat.
      epsilon: ε of the same; None where nothing is proven for this threat.
      unproven: Why there is no ε for this threat, where there is none.
      chances: The strongest identification for each number of candidates.
      bounds: What nobody can exceed, by the number of candidates.
      findings: What attacks showed, strongest first.
      contradicted: Whether an attack showed more than some bound of this defence allows.
      legible: Whether any attack, of any threat, rebuilt somebody so that anybody recognises them,
        or this intruder all but always picks the right one of ten.
      aside: What the bounds leave out, after "picks it out of 10": labels, where only features have
        noise. Labels are handed on as they are, and tell most candidates apart.
    """

    point: int
    view: View
    rero: float | None
    epsilon: float | None
    unproven: str
    chances: tuple[Chance, ...]
    bounds: dict[int, float]
    findings: tuple[AttackFinding, ...]
    contradicted: bool
    legible: bool
    aside: str = ""

    @property
    def strongest(self) -> AttackFinding | None:
        """The attack that got furthest; None where none was tried."""
        return self.findings[0] if self.findings else None

    @property
    def identification(self) -> Chance | None:
        """The strongest pick out of ten."""
        return next((one for one in self.chances if one.candidates == _TEN), None)

    @property
    def promised(self) -> float | None:
        """The bound that some budget may be met with; None where it is none, or contradicted."""
        sound = self.rero is not None and self.rero < VACUOUS and not self.contradicted
        return self.rero if sound else None

    def rung(self, budget: float = BUDGET) -> Rung:
        """The rung, for this budget of ReRo."""
        beats = [finding.beats for finding in self.findings]
        return rung(self.rero, beats, budget, contradicted=self.contradicted)


def rung(
    rero: float | None, beats: Sequence[bool | None], budget: float, *, contradicted: bool
) -> Rung:
    """The rung of a defence from its bound and from whether each attack beat the blind guess."""
    if contradicted:
        return "broken"
    if rero is not None and rero <= budget and rero < VACUOUS:
        return "proven"
    if any(beats):
        return "broken"
    return "resisted" if any(beat is False for beat in beats) else "untested"


def standings(points: Sequence[Point], contradicted: Collection[int]) -> dict[View, list[Standing]]:
    """Every point against every intruder, the curious server first."""
    shown = [evidence(point) for point in points]
    return {
        view: [
            _standing(point, seen, view, contradicted=point.index in contradicted)
            for point, seen in zip(points, shown, strict=True)
        ]
        for view in VIEWS
    }


def measured_by(point: Point, view: View) -> Values:
    """What attacks measured that see no more than this intruder does."""
    return measured(row for row in point.rows if _sees(view, threat_of(row), participation_of(row)))


def spent(point: Point, view: View) -> float | None:
    """Seconds that those attacks took, one after another, a mean over seeds; None without any."""
    seconds: dict[object, float] = {}
    for row in point.rows:
        took = number(section(row, "seconds").get("attack"))
        if took is not None and _sees(view, threat_of(row), participation_of(row)):
            seconds[row.get("seed")] = seconds.get(row.get("seed"), 0.0) + took
    return sum(seconds.values()) / len(seconds) if seconds else None


def _plays(view: View, one: Chance) -> bool:
    """Whether a game is this intruder's own; one update is always one that the record is in."""
    return one.threat == view[0] and (one.threat == "update" or one.participation == view[1])


def _sees(view: View, threat: str, participation: str) -> bool:
    """Whether the intruder sees at least as much as an attack that was given this."""
    mine, side = view
    return threat in (mine, *(THREATENED if mine == "training" else ())) and (
        participation == "secret" or side == "known" or threat == mine == "update"
    )


def _standing(point: Point, seen: Evidence, view: View, *, contradicted: bool) -> Standing:
    findings = [
        finding for finding in seen.findings if _sees(view, finding.threat, finding.participation)
    ]
    findings.sort(key=lambda one: (one.beats is not True, one.beats is None, -one.advantage))
    chances: dict[int, Chance] = {}
    for one in seen.chances:
        best = chances.get(one.candidates)
        if _plays(view, one) and (best is None or one.rate > best.rate):
            chances[one.candidates] = one
    bounds: dict[int, float] = {}
    for count, bound in _bounds(point, seen, view):
        bounds[count] = min(bound, bounds.get(count, math.inf))
    epsilon, unproven = _epsilon(point, view)
    return Standing(
        point=point.index,
        view=view,
        rero=bounds.get(_TEN),
        epsilon=epsilon,
        unproven=unproven,
        chances=tuple(chances[count] for count in sorted(chances)),
        bounds=bounds,
        findings=tuple(findings),
        contradicted=contradicted,
        legible=any(finding.legible for finding in seen.findings)
        or any(one.low >= NAMED for one in chances.values()),
        aside=_ASIDE if point.open_labels else "",
    )


def _bounds(point: Point, seen: Evidence, view: View) -> Iterator[tuple[int, float]]:
    """Bounds on picking a record out of n, of every intruder who sees at least as much."""
    threat, side = view
    run, prior = point.notions.get("rero_bound"), point.rero_prior
    at_ten = prior is not None and math.isclose(prior, PRIOR)
    if run is not None and at_ten and _covers_run(point, view):
        yield _TEN, run
    _, bound, told_prior = _exposed(point, view) or (None, None, None)
    if bound is not None and told_prior is not None and math.isclose(told_prior, PRIOR):
        yield _TEN, bound
    for one in seen.chances:
        stronger = one.participation == "known" or side == "secret"
        if one.bound is None or not stronger:
            continue
        # One update is one that the record took part in. A bound of the run is an average over how
        # often records took part, where some did in no step: it says nothing of that update.
        if one.threat == threat or (one.threat == "training" and threat != "update"):
            yield one.candidates, one.bound


def _epsilon(point: Point, view: View) -> tuple[float | None, str]:
    """ε for this intruder, or why there is none."""
    if _covers_run(point, view):
        return point.notions.get("epsilon"), point.reasons.get("epsilon", "")
    known = _exposed(point, view)
    if known is not None and known[0] is not None:
        return known[0], ""
    key = _intruder(view)
    reasons = (one["reason"] for row in point.rows for one in row.get("exposures") or []
               if (one["threat"], one["participation"]) == key and one["reason"])  # fmt: skip
    return None, str(next(reasons, "these rows were made before such an ε was stored"))


def _intruder(view: View) -> View:
    """Whose stored bounds hold for a view: of one update, whoever knows of it; else the server's.

    Those of a run never hold for one update that the record took part in: they are averages over
    how often it did, which may be never. At rate 0.01, 10 steps and σ = 0.5 a record is rebuilt
    from the run in at most 17% of cases, and from an update that it is in, in up to 77%.
    """
    return ("update" if view[0] == "update" else "training"), "known"


def _exposed(point: Point, view: View) -> tuple[float | None, float | None, float | None] | None:
    """ε, ReRo and its prior of an intruder who sees at least as much, the worst of the seeds."""
    found = [
        one
        for row in point.rows
        for one in row.get("exposures") or [{}]
        if not one or (one.get("threat"), one.get("participation")) == _intruder(view)
    ]
    if not found:
        return None
    return (
        _worst(number(one.get("epsilon")) for one in found),
        _worst(number(one.get("rero")) for one in found),
        number(found[0].get("prior")),
    )


def _worst(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    known = [value for value in listed if value is not None]
    return max(known) if known and len(known) == len(listed) else None


def _covers_run(point: Point, view: View) -> bool:
    """Whether the account of the run speaks of this intruder."""
    threat, side = view
    return (threat != "update" and side == "secret") or _known_too(point)


def _known_too(point: Point) -> bool:
    """Whether the account asks for no secret: nothing in it is sampled, so nothing is amplified."""
    schedules = [section(section(row, "privacy"), "schedule") for row in point.rows]
    return bool(schedules) and all(one.get("sampling") == "shuffled" for one in schedules)
