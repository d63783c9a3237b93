"""Rehearsals: an attack on records that the attacker knows, to see how far its answer is trusted.

A posterior is as good as its prior. Where no public record is like the victim, its weights collapse
on a wrong one, and an answer that ignores every release does better. The attacker can find that out
without the victims' truth: somebody who knows the defence makes releases of records that he has and
attacks those. Of a whole run these are training records of others, whom its attacker knows.

Guarantee: none of the attacked records is looked at. Where the rehearsal does not clearly beat the
blind guess, the answer is drawn towards that guess, by the share that served the rehearsed records
best, less one standard error: on records like them it is no worse than blind but for the noise of
so few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from scipy.stats import t as student
from torch import Tensor

if TYPE_CHECKING:
    from recondite.attacks.posterior.base import PosteriorEstimate
    from recondite.attacks.posterior.releases import ReleaseSite
    from recondite.records import ImageSet

__all__ = ["MOST", "Rehearsal", "RehearsalTrial", "drawn", "judged"]

MOST = 16  # records rehearsed on
_LEAST = 4  # fewer say nothing
_PART = 8  # of so many public records one is set aside, at most
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rehearsal:
    """How an attack did on known records, beside a blind guess at them.

    Attributes:
      share: Of the way from the blind guess to the attack's answer, what is worth going.
      gain: Share of the blind guess's squared error that the attack removed.
      low: Lower end of its interval over records, by the jackknife.
      records: How many.
      by_class: Whether the better blind guess is the class's mean, not that of all.
    """

    share: float
    gain: float
    low: float
    records: int
    by_class: bool

    @property
    def beats(self) -> bool:
        """Whether the attack clearly beat the blind guess."""
        return self.low > 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know; nothing where the answer stands as it was."""
        if self.share >= 1.0:
            return ()
        return (
            f"rehearsed on {self.records} records that the attacker knows: not clearly better than "
            f"a blind guess there (gain {self.gain:+.2f}), so only {100 * self.share:.0f}% of the "
            "way from that guess is gone",
        )


@dataclass(frozen=True, eq=False)
class RehearsalTrial:
    """Releases of records that the attacker set aside, beside those of the victims.

    Attributes:
      sites: With the releases of the rehearsed records after those of the victims.
      aside: Places of the rehearsed records among the public ones.
      known: The rehearsed records.
      rest: The public records without them.
      real: Those of the rest that are no draws of a model: what a blind guess is made of.
      told: Whether an attacker is told the classes.
    """

    sites: tuple[ReleaseSite, ...]
    aside: Tensor
    known: ImageSet
    rest: ImageSet
    real: ImageSet
    told: bool

    @classmethod
    def of(
        cls, sites: Sequence[ReleaseSite], public: ImageSet, *, told: bool, real: int | None = None
    ) -> RehearsalTrial | None:
        """None where releases cannot be made again, or public records are too few.

        Args:
          sites: What was seen of the victims.
          public: What the attacker holds.
          told: Whether an attacker is told the classes.
          real: How many of the public records, the first, are no draws of a model; None for all.
        """
        own = len(public) if real is None else real
        count = min(MOST, own // _PART)
        if count < _LEAST or any(site.again is None for site in sites):
            return None
        order = torch.randperm(own, generator=torch.Generator().manual_seed(0))
        aside = order[:count].sort().values
        kept = torch.ones(len(public), dtype=torch.bool)
        kept[aside] = False
        known = public.subset(aside)
        more = []
        for site in sites:
            assert site.again is not None
            made = site.again(known.images, known.labels)
            more.append(replace(site, seen=torch.cat([site.seen, made.to(site.seen)])))
        rest = public.subset(kept)
        return cls(tuple(more), aside, known, rest, rest.subset(range(own - count)), told)

    def judged(self, images: Tensor) -> Rehearsal:
        """Of what was made of the first rehearsed records."""
        known = self.known.subset(range(len(images)))
        return judged(images, known, self.real, told=self.told)


def judged(answers: Tensor, known: ImageSet, public: ImageSet, *, told: bool) -> Rehearsal:
    """Compares answers with a blind guess at the same records.

    Args:
      answers: One a record, in the records' scale.
      known: The records.
      public: What the guess is made of: none of them.
      told: Whether the guess may use their classes.
    """
    true = known.images.double()
    guess = _typical(public, None, len(known))
    own = _typical(public, known.labels, len(known)) if told else guess
    by_class = bool((own - true).square().sum() < (guess - true).square().sum())
    guess = own if by_class else guess
    moved = (answers.to(guess) - guess).flatten(1)
    wanted = (true - guess).flatten(1)
    errors, floor = (wanted - moved).square().sum(1), wanted.square().sum(1)
    gain, spread = _ratio(floor - errors, floor)
    low = gain - float(student.ppf(0.5 + 0.5 * _CONFIDENCE, len(known) - 1)) * spread
    share = 1.0
    if low <= 0:
        best, error = _ratio((moved * wanted).sum(1), moved.square().sum(1))
        share = min(1.0, max(0.0, best - error))
    return Rehearsal(share, gain, low, len(known), by_class)


def drawn(
    found: PosteriorEstimate, rehearsal: Rehearsal | None, public: ImageSet, labels: Tensor | None
) -> PosteriorEstimate:
    """An estimate drawn towards the blind guess as far as a rehearsal advises.

    Args:
      found: What an attack believes.
      rehearsal: None where there was none: the estimate stands as it is.
      public: The public records, without draws of a model.
      labels: The victims' classes where they are told.
    """
    if rehearsal is None:
        return found
    images, share = found.images, rehearsal.share
    if share < 1.0:
        guess = _typical(public, labels if rehearsal.by_class else None, len(images))
        images = guess + share * (images.to(guess) - guess)
    return replace(
        found,
        images=images,
        figures={**found.figures, "kept_of_posterior": share},
        notes=(*found.notes, *rehearsal.notes),
    )


def _typical(public: ImageSet, labels: Tensor | None, count: int) -> Tensor:
    """The mean of the public records, or of those of each class, (count, c, h, w)."""
    rows = public.images.double()
    every = rows.mean(0)
    if labels is None:
        return every.expand(count, *public.shape)
    means = {
        label: rows[same].mean(0) if bool((same := public.labels == label).any()) else every
        for label in set(labels.tolist())
    }
    return torch.stack([means[label] for label in labels.tolist()])


def _ratio(above: Tensor, below: Tensor) -> tuple[float, float]:
    """A ratio of sums over records, with its standard error by the jackknife."""
    total, under = float(above.sum()), float(below.sum())
    if under <= 0:
        return 0.0, 0.0
    count = len(above)
    each = (total - above) / (under - below).clamp_min(1e-300)
    spread = float((each - each.mean()).square().sum()) * (count - 1) / count
    return total / under, math.sqrt(spread)
