"""What an attack found, and the parts of a comparison's row that it becomes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recondite.notions import json_ready

if TYPE_CHECKING:
    from recondite.attacks.membership.result import MembershipResult

__all__ = ["Claim", "Gallery", "Membership", "Outcome", "Rebuilt", "Scores"]

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
class Gallery:
    """Some originals beside what was rebuilt of them, (n, h, w, c) bytes."""

    originals: NDArray[np.uint8]
    reconstructions: NDArray[np.uint8]

    def to_bytes(self) -> bytes:
        """A compressed file."""
        file = io.BytesIO()
        np.savez_compressed(file, originals=self.originals, reconstructions=self.reconstructions)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, file: bytes) -> Gallery:
        """From what :meth:`to_bytes` made; nothing in it is executed."""
        with np.load(io.BytesIO(file), allow_pickle=False) as held:
            return cls(held["originals"], held["reconstructions"])


@dataclass(frozen=True)
class Scores:
    """How near reconstructions are to their originals, in pixels in [0, 1].

    Attributes:
      mse: Mean squared error of each image.
      psnr: Peak signal-to-noise ratio of each, in decibels, at most 100.
      ssim: Structural similarity of each.
      mse_median: Over the images.
      mse_mean: Over the images.
      mse_worst: Of the most exposed image.
      psnr_mean: Over the images.
      ssim_mean: Over the images.
      ssim_worst: Of the most exposed image.
      mse_placed_mean: As if the order within a batch were known.
      ssim_placed_mean: The same.
    """

    mse: tuple[float, ...]
    psnr: tuple[float, ...]
    ssim: tuple[float, ...]
    mse_median: float
    mse_mean: float
    mse_worst: float
    psnr_mean: float
    ssim_mean: float
    ssim_worst: float
    mse_placed_mean: float
    ssim_placed_mean: float

    def to_dict(self) -> dict[str, Any]:
        """As a row says it."""
        lists = {"mse", "psnr", "ssim"}
        return {
            "images": len(self.mse),
            **{name: list(v) if name in lists else v for name, v in vars(self).items()},
            "scale": "pixels in [0, 1]",
        }


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
    """

    scores: Scores
    images_from: str
    matching_loss: tuple[float, ...] = ()
    labels_right: float | None = None
    restarts: int = 1
    batch_size: int | None = None
    victim: str | None = "trained"
    figures: Mapping[str, float | None] = field(default_factory=dict)


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
      claims: Upper bounds beside what it showed.
      notes: What a reader should know.
      iterations: Steps it took.
      interrupted: Whether it was ended early and holds the best so far.
      seconds: How long it took; 0 where nobody looked at the clock.
    """

    rebuilt: Rebuilt | None = None
    gallery: Gallery | None = None
    membership: Membership | None = None
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    iterations: int = 0
    interrupted: bool = False
    seconds: float = 0.0

    def to_dict(self, gallery: str | None = None) -> dict[str, Any]:
        """The parts of a row, in plain values.

        Args:
          gallery: Where the images are, as the row says it.
        """
        return {
            "reconstruction": self._reconstruction(gallery),
            "membership": None if self.membership is None else self.membership.to_dict(),
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
            "matching_loss": list(made.matching_loss),
            "labels_right": made.labels_right,
            "iterations": self.iterations,
            "restarts": made.restarts,
            "batch_size": made.batch_size,
            "victim": made.victim,
            "images_from": made.images_from,
            "interrupted": self.interrupted,
        }
