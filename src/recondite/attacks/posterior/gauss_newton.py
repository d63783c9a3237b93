"""Gauss and Newton: releases linearised at the best guess so far, under a public prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.base import AttackRequest, Available, Threat
from recondite.attacks.posterior.base import PosteriorAttack, PosteriorEstimate
from recondite.attacks.posterior.floors import van_trees_floor
from recondite.attacks.posterior.generated import DRAWS, real_of
from recondite.attacks.posterior.importance import (
    ImportanceWeights,
    mean_of,
    run_rehearsal,
    run_weights,
    weighed,
)
from recondite.attacks.posterior.prior import Posterior, PublicPrior
from recondite.attacks.posterior.rehearsal import drawn, judged
from recondite.attacks.posterior.releases import ReleaseSite
from recondite.attacks.posterior.run import OverRun
from recondite.mechanisms import Mechanism, UndefinedNotionError

if TYPE_CHECKING:
    from recondite.attacks.outcome import Floor, Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import ImageSet

__all__ = ["REHEARSED", "GaussNewton"]

REHEARSED = 8  # records rehearsed on where importance weights did not beat a blind guess
_HALVINGS = 6  # of a step that goes downhill
_LABELS = 3  # classes worth linearising at where the label is unknown


@dataclass(frozen=True)
class GaussNewton(PosteriorAttack):
    """The posterior under class-conditional Gaussian mixtures, by repeated linearisation.

    Starts from the importance weights' answer. Each step takes the Jacobian of the bounded gradient
    at the point reached, which makes the releases linear with normal noise, and moves to the
    posterior's mean: Newton's step with Gauss's Hessian where the prior is one Gaussian.
    ``expected_mse`` is the error that its covariance (Laplace's) predicts, in pixels in [0, 1];
    where it is far below the error found, the prior or the linearisation is wrong. Where importance
    weights did not beat a blind guess at records that the attacker knows, and neither does a
    rehearsal of this attack, the answer is drawn towards that guess
    (:mod:`recondite.attacks.posterior.rehearsal`).

    With threat ``training`` the victims are training records, and the releases those of all steps
    that a victim took part in, by an attacker who knows everybody else and these steps
    (``participation: known``).

    Attributes:
      releases: Releases of the same record, each with fresh noise; their likelihoods add.
      steps: Linearisations.
      rank: Principal components of the public records, at most.
      prior: As for importance weights.
      draws: As for importance weights.
    """

    name: ClassVar[str] = "gauss-newton"
    title: ClassVar[str] = "posterior under a public prior, linearised"
    threats: ClassVar[frozenset[Threat]] = frozenset({"update", "training"})
    reads: ClassVar[tuple[str, ...]] = ImportanceWeights.reads
    from_transcript: ClassVar[bool] = True

    releases: int = 1
    steps: int = 3
    rank: int = 150
    prior: str | None = None
    draws: int = DRAWS

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.at_least("steps", self.steps, 1)
        _validate.at_least("rank", self.rank, 1)

    def estimate(
        self,
        sites: Sequence[ReleaseSite],
        public: ImageSet,
        labels: Tensor | None,
        progress: Callable[[str, float], None],
        real: int | None = None,
    ) -> PosteriorEstimate:
        """Victim by victim."""
        for site in sites:
            self._check(site.law.mechanism)
        weights, trial, tried = weighed(sites, public, labels, real)
        noisy = all(site.noisy for site in sites)
        rehearsal, victims = None, len(weights)
        if trial is not None and tried is not None:
            rehearsal = trial.judged(mean_of(tried, public))
            if not rehearsal.beats:  # the prior may not fit: is this attack's answer any better?
                count = min(REHEARSED, len(trial.known))
                few, known = tried[:count], trial.known.subset(range(count))
                mine = self._believed(
                    lambda number: (trial.sites, victims + number),
                    _without(few, trial.aside),
                    trial.rest,
                    known.labels if trial.told else None,
                    lambda stage, done: None,
                    noisy=False,
                )
                rehearsal = trial.judged(mine.images)
        found = self._believed(
            lambda number: (sites, number), weights, public, labels, progress, noisy=noisy
        )
        return drawn(found, rehearsal, real_of(public, real), labels)

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """A run is linearised where it is known in which steps a record took part."""
        if not self.replays(asked):
            yield from super().misfits(asked, there)
            return
        yield from ImportanceWeights(self.releases, self.prior).misfits(asked, there)
        if asked.participation != "known":
            yield "participation", f"must be known for {self.name} with threat training"

    def _evaluate(self, victim: Victim) -> Outcome:
        if not self.replays(victim.asked):
            return super()._evaluate(victim)
        if victim.asked.participation != "known":
            raise ValueError(f"participation must be known for {self.name} with threat training")
        seen = OverRun.of(victim, self.name)
        if seen.played.game.estimated:
            raise ValueError(f"{self.name} has no density of a batch: choose importance-weights")
        self._check(seen.played.transcript.mechanism)
        rehearsal = run_rehearsal(seen)
        if rehearsal is not None and not rehearsal.beats:
            others = seen.others(REHEARSED)
            assert others is not None
            mine = self._over(others, lambda stage, done: None, noisy=False)
            told = seen.labels is not None
            rehearsal = judged(mine.images, others.chosen, seen.public, told=told)
        noisy = bool(victim.defence.mechanism.parameter)
        found = self._over(seen, victim.progress, noisy=noisy)
        return seen.outcome(drawn(found, rehearsal, seen.public, seen.labels))

    def _over(
        self, seen: OverRun, progress: Callable[[str, float], None], *, noisy: bool
    ) -> PosteriorEstimate:
        """The records behind a whole run."""
        return self._believed(
            lambda number: (seen.sites(number), 0),
            run_weights(seen),
            seen.public,
            seen.labels,
            progress,
            noisy=noisy,
        )

    def _check(self, mechanism: Mechanism) -> None:
        try:
            mechanism.fisher_information()
        except UndefinedNotionError as error:
            raise ValueError(f"{self.name}: {error}; choose importance-weights") from None

    def _believed(
        self,
        behind: Callable[[int], tuple[Sequence[ReleaseSite], int]],
        weights: Tensor,
        public: ImageSet,
        labels: Tensor | None,
        progress: Callable[[str, float], None],
        *,
        noisy: bool,
    ) -> PosteriorEstimate:
        """From importance weights: ``behind`` gives a victim's releases and its number in them."""
        prior = PublicPrior(public, rank=self.rank)
        coordinates = prior.coordinates(public.images)
        means, variances, classes, precisions = [], [], [], []
        for number, own in enumerate(weights):
            tried = _tried(own, public, labels, number)
            made = []
            sites, place = behind(number)
            for label in tried:
                same = own if labels is not None else own * (public.labels == label)
                start = (same / same.sum().clamp_min(1e-300)) @ coordinates
                made.append(self._climbed(sites, place, prior, start, label))
            share = [float((public.labels == label).double().mean()) for label in tried]
            likely = [
                one.log_evidence + math.log(max(part, 1e-9))
                for (one, _), part in zip(made, share, strict=True)
            ]
            believed = torch.softmax(torch.tensor(likely, dtype=torch.float64), 0).tolist()
            best = max(range(len(tried)), key=believed.__getitem__)
            middle = sum(
                (part * one.mean for part, (one, _) in zip(believed, made, strict=True)),
                torch.zeros_like(made[0][0].mean),
            )
            means.append(middle)
            variances.append(
                sum(
                    part * (one.variance + prior.squared(one.mean - middle))
                    for part, (one, _) in zip(believed, made, strict=True)
                )
            )
            classes.append(tried[best])
            precisions.append(made[best][1])
            progress(self.name, (number + 1) / len(weights))
        images = prior.images(torch.stack(means))
        unit = _unit(public)
        expected = sum(variances) / len(variances) / prior.mean.numel() * unit
        floors: tuple[Floor, ...] = ()
        if noisy:  # without noise nothing is hidden
            told = classes if labels is not None else None
            floors = (van_trees_floor(prior, torch.stack(precisions).mean(0), told, unit),)
        return PosteriorEstimate(
            images,
            torch.tensor(classes, device=images.device),
            {"expected_mse": expected, "public_records": float(len(public))},
            floors=floors,
            steps=self.steps,
        )

    def _climbed(
        self,
        sites: Sequence[ReleaseSite],
        number: int,
        prior: PublicPrior,
        start: Tensor,
        label: int,
    ) -> tuple[Posterior, Tensor]:
        """The posterior of one victim with one label, and the last precision."""
        at, target = start, torch.tensor(label, device=start.device)
        value = _objective(sites, number, prior, at, target)
        for _ in range(self.steps):
            vector = torch.zeros_like(at)
            precision = torch.zeros(prior.rank, prior.rank, dtype=at.dtype, device=at.device)
            for site in sites:
                one, more = site.linearised(number, prior, at, target)
                vector, precision = vector + one, precision + more
            made = prior.posterior(vector, precision, label)
            # A mean need not be more likely than a mode, but a step far downhill left the region
            # in which the linearisation holds.
            moved = made.mean
            for _ in range(_HALVINGS):
                reached = _objective(sites, number, prior, moved, target)
                if reached >= value - prior.rank:
                    break
                moved = 0.5 * (at + moved)
            at, value = moved, reached
        made = replace(made, mean=at)
        return made, precision


def _without(weights: Tensor, aside: Tensor) -> Tensor:
    """Weights of the public records that are left where some were set aside."""
    kept = torch.ones(weights.shape[1], dtype=torch.bool, device=weights.device)
    kept[aside] = False
    return weights[:, kept]


def _objective(
    sites: Sequence[ReleaseSite], number: int, prior: PublicPrior, point: Tensor, label: Tensor
) -> float:
    """Log-likelihood of the releases at a point, plus the log-density of one Gaussian prior."""
    image = prior.images(point).float()
    total = -0.5 * float((point - prior.start(int(label))).square().sum())
    for site in sites:
        centre = site.centre(site.gradient.at(image, label), number).detach().double()
        total += float(site.log_likelihood(number, centre[None])[0])
    return total


def _tried(weights: Tensor, public: ImageSet, labels: Tensor | None, number: int) -> list[int]:
    """The label that was told, or those that the importance weights leave possible."""
    if labels is not None:
        return [int(labels[number])]
    shares = torch.zeros(len(public.classes), dtype=weights.dtype, device=weights.device)
    shares.index_add_(0, public.labels, weights)
    order = shares.argsort(descending=True)[:_LABELS].tolist()
    return [int(one) for one in order if float(shares[one]) > 1e-6]


def _unit(public: ImageSet) -> float:
    """What a squared unit of the features is in pixels, a mean over channels."""
    deviations = public.std or (1.0,)
    return sum(value * value for value in deviations) / len(deviations)
