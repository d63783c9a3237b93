"""The posterior of a record whose noisy copy is seen: what a channel really lets through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, DefenceFacts, Threat
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.posterior.base import attacked
from recondite.attacks.posterior.prior import Posterior, PublicPrior

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import ImageSet

__all__ = ["BehindNoise", "ChannelPosterior"]


@dataclass(frozen=True)
class ChannelPosterior(Attack):
    """The posterior mean of a record given its noisy copy, under a prior from public records.

    The noise is normal and known, so that under Gaussian mixtures around public records the
    posterior is exact: Wiener's filter at one end, importance weights at the other, each counting
    as much as the copy makes it likely; what the largest components leave out is guessed linearly
    (``BehindNoise``). The holder of the copy sees it directly; of an update he
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
        looks = copies.shape[1]
        seen = BehindNoise(prior, torch.as_tensor(np.asarray(channel.noise.covariance())), looks)
        made, images = [], []
        for number, copy in enumerate(copies.to(prior.mean).mean(1)):
            label = None if told is None else int(told.labels[number])
            believed, image = seen.believed(copy, label)
            made.append(believed)
            images.append(image)
            victim.progress(self.name, (number + 1) / len(copies))
        labels = torch.tensor([max(one.labels, key=one.labels.__getitem__) for one in made])
        deviations = public.std or (1.0,)
        unit = sum(value * value for value in deviations) / len(deviations)
        expected = sum(one.variance for one in made) / len(made) / prior.mean.numel() * unit
        return (
            torch.stack(images),
            labels,
            {"expected_mse": expected, "public_records": float(len(public))},
        )


class BehindNoise:
    """A record behind known normal noise, under a prior fitted on public records.

    A record is its coordinates in the prior's basis and a remainder, normal with the covariance of
    the public records' own. To the coordinates the remainder is noise: left out, a channel whose
    noise is small in the directions of little variance would be taken to show the coordinates far
    better than it does. Once the coordinates are believed, the best linear guess of the remainder
    is added.

    Attributes:
      prior: Of the record.
    """

    def __init__(self, prior: PublicPrior, covariance: Tensor, looks: int) -> None:
        """Prepares the linear parts, which do not depend on what was seen.

        Args:
          prior: Of the record.
          covariance: Of the noise on one copy, (features, features).
          looks: How many copies with fresh noise the mean that is seen is of.
        """
        self.prior = prior
        remainder = prior.remainder
        total = covariance.to(prior.mean) / looks + remainder
        # The two are symmetric: (noise + remainder)⁻¹·remainder, transposed, is the linear guess.
        solved = torch.linalg.solve(total, torch.cat([prior.basis.T, remainder], 1))
        self._seen = solved[:, : prior.rank]
        self._linear = solved[:, prior.rank :]
        precision = prior.basis @ self._seen
        self._precision = 0.5 * (precision + precision.T)
        self._left = float((remainder.diagonal() - (remainder * self._linear.T).sum(1)).sum())

    def believed(self, mean: Tensor, label: int | None) -> tuple[Posterior, Tensor]:
        """The posterior of the coordinates, and the image that is expected.

        Args:
          mean: Of the copies that were seen, (features,).
          label: The record's class, where it is known.
        """
        prior = self.prior
        apart = mean.flatten() - prior.mean
        found = prior.posterior(apart @ self._seen, self._precision, label)
        along = found.mean @ prior.basis
        guess = along + (apart - along) @ self._linear
        # What stays unknown of the remainder, in place of all of it.
        variance = max(0.0, found.variance - prior.outside) + max(0.0, self._left)
        image = (prior.mean + guess).reshape(prior.shape)
        return replace(found, variance=variance), image
