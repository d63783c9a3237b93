"""The posterior of a record whose noisy copy is seen: what a channel really lets through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, DefenceFacts, Threat
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.posterior.base import attacked
from recondite.attacks.posterior.prior import PublicPrior

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import ImageSet

__all__ = ["ChannelPosterior"]


@dataclass(frozen=True)
class ChannelPosterior(Attack):
    """The posterior mean of a record given its noisy copy, under a prior from public records.

    The noise is normal and known, so that under Gaussian mixtures around public records the
    posterior is exact: Wiener's filter at one end, importance weights at the other, each counting
    as much as the copy makes it likely. The holder of the copy sees it directly; of an update he
    can see no more than that, since the gradient is of the copy.

    Attributes:
      releases: Noisy copies of the same record, at least; more than one only where noise is fresh
        at every use (``per_step``): with noise drawn once they are all the same. With threat
        ``training`` there are as many as the training makes.
      rank: Principal components of the public records, at most.
    """

    name: ClassVar[str] = "channel-posterior"
    title: ClassVar[str] = "posterior mean behind noise on records"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.NOISY_RECORDS, Knowledge.DEFENCE, Knowledge.PUBLIC_DATA}
    )
    threats: ClassVar[frozenset[Threat]] = frozenset({"update", "training"})
    reads: ClassVar[tuple[str, ...]] = ("images", "labels", "threat")
    takes: ClassVar[tuple[str, ...]] = ("images",)
    wants: ClassVar[str] = "a channel: add noise on records"
    paper: ClassVar[str] = "this system"

    releases: int = 1
    rank: int = 256

    def __post_init__(self) -> None:
        _validate.at_least("releases", self.releases, 1)
        _validate.at_least("rank", self.rank, 1)

    @classmethod
    def applies(cls, defence: DefenceFacts) -> bool:
        """Where a defence is on records."""
        return defence.on_records

    def trains(self, asked: AttackRequest) -> bool:
        """No model takes part."""
        del asked
        return False

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Some held-out records must stay public."""
        if asked.images + 3 > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"must leave three public records or more: {has} held out"

    def _evaluate(self, victim: Victim) -> Outcome:
        from recondite.attacks import scoring
        from recondite.attacks.outcome import Outcome, Rebuilt
        from recondite.attacks.posterior.floors import channel_floor

        if not victim.defence.noisy_records:
            raise ValueError(f"{self.name} needs noise on records: choose a channel as defence")
        chosen, public = attacked(victim)
        looks = self.releases if victim.defence.fresh_noise else 1
        if self.exposed(victim.asked) == "training":
            looks = max(looks, victim.defence.looks)
        again = chosen.images.repeat_interleave(looks, 0)[:, None]
        copies = victim.defence.seen(again).reshape(len(chosen), looks, -1).double()
        told = victim.asked.labels
        images, labels, figures = self._believed(victim, copies, public, chosen if told else None)
        pixels = chosen.pixels(images.to(chosen.images)).clamp(0, 1)[:, None]
        scores, gallery = scoring.scored(pixels, chosen.pixels()[:, None])
        notes = [f"{looks} noisy copies of each record"] if looks > 1 else []
        if self.releases > looks:
            notes.append("noise is drawn once a record: all its copies are the same")
        right = None if told else scoring.labels_found(labels[:, None], chosen.labels[:, None])
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="held-out records",
                labels_right=right,
                batch_size=1,
                victim=None,
                figures={"releases": looks, **figures},
                blind=scoring.blind_beside(scores, chosen, public, told=told),
            ),
            gallery=gallery,
            floors=channel_floor(victim, public, looks),
            notes=tuple(notes),
        )

    def _believed(
        self, victim: Victim, copies: Tensor, public: ImageSet, told: ImageSet | None
    ) -> tuple[Tensor, Tensor, dict[str, float | None]]:
        channel = victim.defence.channel
        if channel is None:
            raise ValueError(f"{self.name} needs a fitted channel: choose one as defence")
        prior = PublicPrior(public, rank=self.rank)
        covariance = torch.as_tensor(np.asarray(channel.noise.covariance())).to(prior.mean)
        # Along the basis the copies are the coordinates plus normal noise; what lies outside of it
        # is noise to the attacker, who knows its variance.
        seen = torch.linalg.solve(covariance, prior.basis.T)  # (features, rank)
        looks = copies.shape[1]
        precision = looks * (prior.basis @ seen)
        precision = 0.5 * (precision + precision.T)
        vectors = (copies.to(prior.mean) - prior.mean).sum(1) @ seen
        made = []
        for number, vector in enumerate(vectors):
            label = None if told is None else int(told.labels[number])
            made.append(prior.posterior(vector, precision, label))
            victim.progress(self.name, (number + 1) / len(vectors))
        labels = torch.tensor([max(one.labels, key=one.labels.__getitem__) for one in made])
        deviations = public.std or (1.0,)
        unit = sum(value * value for value in deviations) / len(deviations)
        expected = sum(one.variance for one in made) / len(made) / prior.mean.numel() * unit
        images = prior.images(torch.stack([one.mean for one in made]))
        return (
            images,
            labels,
            {"expected_mse": expected, "public_records": float(len(public))},
        )
