"""What an attack found, and the parts of a comparison's row that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from recondite.attacks.base import Threat
from recondite.attacks.gallery import Gallery
from recondite.metrics.floors import Gain, Metric, beats_guessing
from recondite.notions import json_ready

if TYPE_CHECKING:
    from recondite.metrics.identification import Identified
    from recondite.metrics.membership import MembershipResult

__all__ = [
    "Blind",
    "Claim",
    "Floor",
    "Gallery",
    "Identification",
    "Membership",
    "Outcome",
    "Rebuilt",
    "RecordScores",
]

_POINTS = 100  # of a ROC curve


@dataclass(frozen=True)
class Claim:
    """An upper bound beside what an attack showed.

    Attributes:
      notion: The key of the notion.
      claim: What was promised, at most; infinite where nothing was.
      lower: Lower bound on the true value, at ``confidence``.
      how: Where it comes from, in a few words.
      about: What it is about: the run, or one release.
      confidence: Probability with which ``lower`` holds.
      delta: δ of an ε; None for other notions.
    """

    notion: str
    claim: float
    lower: float
    how: str
    about: str
    confidence: float
    delta: float | None = None

    @property
    def violated(self) -> bool:
        """Whether the promise is below what was shown: it is then wrong, at the confidence."""
        return self.lower > self.claim

    def to_dict(self) -> dict[str, Any]:
        """As a row says it."""
        plain: dict[str, Any] = json_ready(
            {
                "notion": self.notion,
                "claim": self.claim,
                "lower": self.lower,
                "how": self.how,
                **({} if self.delta is None else {"delta": self.delta}),
                "confidence": self.confidence,
                "about": self.about,
                "violated": self.violated,
            }
        )
        return plain


@dataclass(frozen=True, eq=False)
class RecordScores:
    """How near reconstructions are to their originals, by the metrics of their records.

    Attributes:
      metrics: What was measured.
      values: For each metric's key, one number a victim.
      exposure: The key of the metric by which victims are ranked.
      placed: The mean by a metric's key, as if the order within a batch were known.
      scale: What the numbers are of, in words.
    """

    metrics: tuple[Metric, ...]
    values: Mapping[str, tuple[float, ...]]
    exposure: str
    placed: Mapping[str, float] = field(default_factory=dict)
    scale: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def to_dict(self) -> dict[str, Any]:
        """As a row says it: the values, their mean and median, and the most exposed victim's."""
        found: dict[str, Any] = {"images": len(self)}
        for metric in self.metrics:
            values = self.values[metric.key]
            worst = max(values) if metric.direction == "higher" else min(values)
            found[metric.key] = list(values)
            found[f"{metric.key}_mean"] = sum(values) / len(values)
            found[f"{metric.key}_median"] = sorted(values)[(len(values) - 1) // 2]
            found[f"{metric.key}_worst"] = worst
        found |= {f"{key}_placed_mean": value for key, value in self.placed.items()}
        # A reader that does not know the records, such as a page, knows the metrics from here.
        found["metrics"] = [
            {"key": one.key, "label": one.label, "direction": one.direction, "unit": one.unit}
            for one in self.metrics
        ]
        return {**found, "exposure": self.exposure, "scale": self.scale}


@dataclass(frozen=True, eq=False)
class Blind:
    """What a guess that sees no release scores on the same victims, and what was gained over it.

    Attributes:
      guess: The best of the blind guesses, in words: the class mean, the mean, a public record.
      scores: Of each victim, by the metric's key.
      gains: Over the guess, by the metric's key, each with its interval over victims.
      shown: The guess at each of the first victims, as a gallery shows it; None where it has its
        own.
    """

    guess: str
    scores: Mapping[str, tuple[float, ...]]
    gains: Mapping[str, Gain]
    shown: NDArray[Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As a row says it: ``blind``, ``gain`` and ``beats_guessing``."""
        means = {f"{key}_mean": sum(v) / len(v) for key, v in self.scores.items()}
        lists = {key: list(values) for key, values in self.scores.items()}
        return {
            "blind": {"guess": self.guess, **lists, **means},
            "gain": {key: _plain(gain) for key, gain in self.gains.items()},
            "beats_guessing": beats_guessing(self.gains),
        }


def _plain(gain: Gain) -> dict[str, float | None]:
    low, high = gain.interval or (None, None)
    return {
        "value": gain.value,
        "low": low,
        "high": high,
        "level": gain.level,
        "most": gain.most,
        "victims": gain.victims,
    }


@dataclass(frozen=True)
class Identification:
    """How often an attacker picked a record out of n candidates, with what nobody can exceed.

    Attributes:
      found: The rate, with its interval.
      participation: Whether the attacker was told in which steps the record took part.
      bound: No attacker of this threat succeeds more often; None where no bound is proven.
      relation: Which neighbouring data sets the bound and the game speak of.
      reason: Why there is no bound, in one line; empty where there is one.
      among: How candidates were drawn: all alike, or one of each label.
    """

    found: Identified
    participation: Literal["secret", "known"]
    bound: float | None
    relation: str
    reason: str = ""
    among: str = "alike"

    def to_dict(self) -> dict[str, Any]:
        """As a row says it."""
        keys = ("participation", "bound", "relation", "reason", "among")
        own = {key: getattr(self, key) for key in keys}
        return {**self.found.to_dict(), **own}


@dataclass(frozen=True)
class Floor:
    """An error that no attacker, or no attacker under stated conditions, can go below.

    Attributes:
      key: Which floor.
      mse: In squared units of the scores, a mean over a record's numbers.
      proven: Whether it is a bound; an estimate otherwise.
      worst_case: Whether it speaks of every record, or of the average one under ``prior``.
      prior: The prior it needs, in words; empty where it needs none.
      sentence: What it says, in plain words.
    """

    key: str
    mse: float
    proven: bool
    worst_case: bool
    prior: str
    sentence: str


@dataclass(frozen=True)
class Rebuilt:
    """What an attack rebuilt.

    Attributes:
      scores: How near it came.
      images_from: What the originals are.
      matching_loss: What it minimised, for each victim; empty where nothing is.
      labels_right: Share of labels that were found; None where they were told, or not asked for.
      restarts: Attempts a victim.
      batch_size: Records behind a gradient; None without gradients.
      victim: "trained" or "untrained"; None where no model takes part.
      figures: Further figures of the attack's own, by name.
      blind: What a blind guess scores on the same victims; None where there is none to compare.
    """

    scores: RecordScores
    images_from: str
    matching_loss: tuple[float, ...] = ()
    labels_right: float | None = None
    restarts: int = 1
    batch_size: int | None = None
    victim: str | None = "trained"
    figures: Mapping[str, float | None] = field(default_factory=dict)
    blind: Blind | None = None


@dataclass(frozen=True, eq=False)
class Membership:
    """A membership attack's result with the δ and confidence of what it says about ε."""

    result: MembershipResult
    delta: float
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """As a row says it: notes and time stand elsewhere in it."""
        body = self.result.to_dict(self.delta, self.confidence)
        points = self.result.roc.points(_POINTS)
        body["roc"] = [[float(f"{x:.5g}") for x in point] for point in points]
        return {key: value for key, value in body.items() if key not in ("seconds", "notes")}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an attack found.

    Attributes:
      rebuilt: Scores of what it rebuilt; None where it rebuilds nothing.
      gallery: Images to show; None where there are none, or none may be shown.
      membership: Whom it recognised; None where it asks nobody.
      identification: How often it picked the record out of 10, 100, 1,000 candidates.
      floors: Errors that nobody can go below, for this victim and threat.
      claims: Upper bounds beside what it showed.
      threat: What it shows to be exposed; None for an outcome that no attack made.
      notes: What a reader should know.
      iterations: Steps it took.
      interrupted: Whether it was ended early and holds the best so far.
      seconds: How long it took; 0 where nobody looked at the clock.
    """

    rebuilt: Rebuilt | None = None
    gallery: Gallery | None = None
    membership: Membership | None = None
    identification: tuple[Identification, ...] = ()
    floors: tuple[Floor, ...] = ()
    claims: tuple[Claim, ...] = ()
    threat: Threat | None = None
    notes: tuple[str, ...] = ()
    iterations: int = 0
    interrupted: bool = False
    seconds: float = 0.0

    @property
    def pictures(self) -> Gallery | None:
        """The gallery, with what a blind guess hands in at the same victims."""
        blind = None if self.rebuilt is None else self.rebuilt.blind
        if self.gallery is None or blind is None or blind.shown is None:
            return self.gallery
        return replace(self.gallery, guesses=blind.shown[: len(self.gallery.originals)])

    def to_dict(self, gallery: str | None = None) -> dict[str, Any]:
        """The parts of a row, in plain values.

        Args:
          gallery: Where the images are, as the row says it.
        """
        return {
            "threat": self.threat,
            "reconstruction": self._reconstruction(gallery),
            "membership": None if self.membership is None else self.membership.to_dict(),
            "identification": [one.to_dict() for one in self.identification],
            "floors": [json_ready(vars(one)) for one in self.floors],
            "claims": [claim.to_dict() for claim in self.claims],
            "notes": list(self.notes),
        }

    def _reconstruction(self, gallery: str | None) -> dict[str, Any] | None:
        made = self.rebuilt
        if made is None:
            return None
        return {
            **made.scores.to_dict(),
            "gallery": gallery if self.gallery is not None else None,
            **made.figures,
            **({} if made.blind is None else made.blind.to_dict()),
            "matching_loss": list(made.matching_loss),
            "labels_right": made.labels_right,
            "iterations": self.iterations,
            "restarts": made.restarts,
            "batch_size": made.batch_size,
            "victim": made.victim,
            "images_from": made.images_from,
            "interrupted": self.interrupted,
        }
