"""Training records behind everything that a run released, for the posterior attackers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from recondite.attacks.identification.replay import Played, replayed
from recondite.attacks.posterior.gradients import BoundedGradient
from recondite.attacks.posterior.releases import ReleaseSite
from recondite.mechanisms import Observed
from recondite.records import ImageSet

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.posterior.base import PosteriorEstimate
    from recondite.attacks.victim import Victim

__all__ = ["OverRun"]

_KNOWS = (
    "rebuilt by one who knows all other records, the batches they were in, and every weight; "
    "games of one training share its noise"
)


@dataclass(frozen=True, eq=False)
class OverRun:
    """What an attacker of a whole run has.

    Attributes:
      victim: The victim.
      chosen: The training records that are attacked.
      public: What the attacker holds of the same kind.
      played: How likely each public record makes the run in the place of each victim.
    """

    victim: Victim
    chosen: ImageSet
    public: ImageSet
    played: Played

    @classmethod
    def of(cls, victim: Victim, name: str) -> OverRun:
        """Replays the run, unless another attack has.

        Raises:
          ValueError: In one line, where the run was not recorded or records are no images.
        """
        from recondite.attacks.scoring import as_images, public_of

        training = as_images(victim.records.training)
        public = public_of(victim, torch.tensor([], dtype=torch.long))
        assert public is not None  # none of them is attacked
        played = replayed(victim, public, victim.asked.images, name)
        return cls(victim, training.subset(torch.tensor(played.places)), public, played)

    def others(self, most: int) -> OverRun | None:
        """As if other training records were attacked, whom this attacker knows.

        The next of those whose games were played; None where too few were.
        """
        from recondite.attacks.scoring import as_images

        played = self.played.after(most)
        if played is None:
            return None
        training = as_images(self.victim.records.training)
        chosen = training.subset(torch.tensor(played.places))
        return OverRun(self.victim, chosen, self.public, played)

    @property
    def labels(self) -> Tensor | None:
        """The victims' classes where they are told."""
        return self.chosen.labels if self.victim.asked.labels else None

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """Of each victim, then of every public record, by the participation that is asked for."""
        return self.played.scores(self.victim.asked.participation)

    @property
    def participation(self) -> str:
        """What the attacker has: who knows others' batches of one size knows this record's."""
        return "known" if self.played.tells else self.victim.asked.participation

    def sites(self, number: int) -> list[ReleaseSite]:
        """The releases of the steps that a victim took part in, the others' sum known in each."""
        run, place = self.played.transcript, self.played.places[number]
        defence, law = self.victim.defence, Observed(self.played.transcript.mechanism, run.units)
        image, label = self.chosen.images[number][None], self.chosen.labels[number][None]
        made = []
        for step in run.steps:
            if place not in step.turn.records:
                continue
            model = self.victim.initial()
            run.load(model, step)
            gradient = BoundedGradient(model, defence.clipping, defence.max_grad_norm)
            ((_, own),) = gradient.rows(image, label)
            rest = step.turn.total[None] - run.units.of(own)
            made.append(ReleaseSite(gradient, law, step.turn.release[None, None], rest))
        return made

    def outcome(self, found: PosteriorEstimate) -> Outcome:
        """Scores, blind guess and floors of what is believed of the victims."""
        from recondite.attacks import scoring
        from recondite.attacks.outcome import Outcome, Rebuilt
        from recondite.attacks.posterior.floors import run_floors

        chosen, told = self.chosen, self.labels is not None
        pixels = chosen.pixels(found.images.to(chosen.images)).clamp(0, 1)[:, None]
        scores, gallery = scoring.scored(pixels, chosen.pixels()[:, None])
        right = None
        if not told:
            right = scoring.labels_found(found.labels[:, None], chosen.labels[:, None])
        recipe = self.victim.recipe
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="training records",
                labels_right=right,
                batch_size=None if recipe is None else recipe.batch_size,
                victim="trained",
                figures={
                    "releases": float(np.mean(self.played.taken_part)),
                    **found.figures,
                },
                blind=scoring.blind_beside(scores, chosen, self.public, told=told),
            ),
            gallery=gallery,
            floors=run_floors(self.victim, self.played, self.public),
            notes=(
                f"over the whole training, participation {self.participation}",
                _KNOWS,
                *found.notes,
            ),
            iterations=found.steps,
        )
