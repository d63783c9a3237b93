"""What every posterior attacker of an update does: releases in, images, errors and floors out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.gradient.base import Reconstruction
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.posterior.from_file import site_of_leak
from recondite.attacks.posterior.generated import DRAWS, with_draws

if TYPE_CHECKING:
    from recondite.attacks.leak import Leak
    from recondite.attacks.outcome import Floor, Outcome
    from recondite.attacks.posterior.releases import ReleaseSite
    from recondite.attacks.victim import Victim
    from recondite.records import ImageSet

__all__ = ["PosteriorAttack", "PosteriorEstimate", "attacked"]


@dataclass(frozen=True, eq=False)
class PosteriorEstimate:
    """What an attacker believes of each victim's record.

    Attributes:
      images: (victims, c, h, w), in the scale the model takes.
      labels: (victims,), the most likely class of each.
      figures: Of the attacker's own.
      notes: What a reader should know.
      information: The mean precision of a release in the prior's coordinates, where it is known.
    """

    images: Tensor
    labels: Tensor
    figures: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    floors: tuple[Floor, ...] = ()
    steps: int = 0


def attacked(victim: Victim) -> tuple[ImageSet, ImageSet]:
    """The records that are attacked, the same for every attack, and the public ones."""
    from recondite.attacks.scoring import as_images, picked, public_of

    test = as_images(victim.records.test)
    places = picked(test, victim.asked.images, victim.seed)
    public = public_of(victim, places)
    if public is None:
        held = len(test)
        raise ValueError(f"images must leave public records: all {held} held-out ones are attacked")
    return test.subset(places), public


class PosteriorAttack(Attack):
    """Rebuilds the one record behind each release from its posterior under a public prior.

    A subclass writes ``estimate``. The attacker knows the defence, holds public records of the
    same kind, and sees ``releases`` releases of the same record, each with fresh noise.
    """

    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.DEFENCE, Knowledge.PUBLIC_DATA}
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update"})
    reads: ClassVar[tuple[str, ...]] = ("images", "batch_size", "victim", "labels", "threat")
    takes: ClassVar[tuple[str, ...]] = ("images",)
    takes_gradients: ClassVar[bool] = True
    paper: ClassVar[str] = "this system"
    releases: int = 1
    prior: str | None = None
    draws: int = DRAWS

    def __post_init__(self) -> None:
        _validate.at_least("releases", self.releases, 1)
        _validate.at_least("draws", self.draws, 1)

    def trains(self, asked: AttackRequest) -> bool:
        """Where the training, or the gradients of the trained model, are asked for."""
        return self.replays(asked) or asked.victim == "trained"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """One record is behind a release; some held-out records must stay public."""
        if asked.batch_size != 1:
            yield "batch_size", f"must be 1 for {self.name}, got {asked.batch_size}"
        if asked.images + 3 > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"must leave three public records or more: {has} held out"

    def held(self, public: ImageSet) -> tuple[ImageSet, tuple[str, ...]]:
        """The public records with the draws of the prior after them, and what to note."""
        if self.prior is None:
            return public, ()
        found = with_draws(public, self.prior, self.draws)
        return found, (f"prior: {len(found) - len(public)} draws of {self.prior} beside "
                       f"{len(public)} public records",)  # fmt: skip

    @abstractmethod
    def estimate(
        self,
        sites: Sequence[ReleaseSite],
        public: ImageSet,
        labels: Tensor | None,
        progress: Callable[[str, float], None],
        real: int | None = None,
    ) -> PosteriorEstimate:
        """What is believed after the releases.

        Args:
          sites: What was seen.
          public: What the attacker holds.
          labels: The victims' classes, where the attacker is told them.
          progress: Told the stage and how much of it is done.
          real: How many of the public records, the first, are no draws; None for all.
        """

    def rebuild(self, leak: Leak) -> Reconstruction:
        """The posterior of the one record behind each victim's releases, all of them pooled."""
        public = leak.alone(self.name)
        if leak.time_limit is not None:
            raise ValueError(f"time_limit is for attacks that iterate: {self.name} takes none")
        site, notes = site_of_leak(leak)
        labels = None if leak.labels is None else leak.labels[:, 0]
        held, drawn = self.held(public)
        found = self.estimate([site], held, labels, leak.progress, len(public))
        images = found.images.to(public.images).clamp(*leak.bounds)
        if not bool(torch.isfinite(images).all()):
            raise ValueError(f"{self.name} found no finite image: choose importance-weights")
        if leak.releases > 1:
            notes = (*notes, f"{leak.releases} releases of each record, pooled")
        return Reconstruction(
            images[:, None],
            found.labels[:, None],
            torch.empty(0),
            steps=found.steps,
            notes=(*notes, *drawn, *found.notes),
            figures={"releases": leak.releases, **found.figures},
        )

    def _evaluate(self, victim: Victim) -> Outcome:
        """Attacks what steps on held-out records release, one record at a time."""
        from recondite.attacks import scoring
        from recondite.attacks.claims import identification_claims
        from recondite.attacks.outcome import Outcome, Rebuilt
        from recondite.attacks.posterior.floors import packing_floors
        from recondite.attacks.posterior.releases import released

        asked = victim.asked
        if asked.batch_size != 1:
            raise ValueError(f"batch_size must be 1 for {self.name}, got {asked.batch_size}")
        chosen, public = attacked(victim)
        model = victim.target()
        site, notes = released(victim, model, chosen.images, chosen.labels, self.releases)
        labels = chosen.labels if asked.labels else None
        victim.progress(self.name, 0.0)
        held, drawn = self.held(public)
        found = self.estimate([site], held, labels, victim.progress, len(public))
        if not bool(torch.isfinite(found.images).all()):
            raise ValueError(f"{self.name} found no finite image: choose importance-weights")
        pixels = chosen.pixels(found.images.to(chosen.images)).clamp(0, 1)[:, None]
        scores, gallery = scoring.scored(pixels, chosen.pixels()[:, None])
        if self.releases > 1:
            notes = (*notes, f"{self.releases} releases of each record, each with fresh noise")
        right = None
        if labels is None:
            right = scoring.labels_found(found.labels[:, None], chosen.labels[:, None])
        # Pooled releases tell more than the one release that these bounds are about.
        claims = identification_claims(victim, model, pixels, chosen, 1, told=asked.labels)
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="held-out records",
                labels_right=right,
                batch_size=1,
                victim=asked.victim,
                figures={"releases": self.releases, **found.figures},
                blind=scoring.blind_beside(scores, chosen, public, told=asked.labels),
            ),
            gallery=gallery,
            claims=claims if self.releases == 1 else (),
            floors=(
                *packing_floors(victim, site.law.mechanism, public, self.releases),
                *found.floors,
            ),
            notes=(*notes, *drawn, *found.notes),
            iterations=found.steps,
        )
