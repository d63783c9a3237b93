"""Importance weights: every public record counts as much as it makes the releases likely."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from recondite.attacks.base import AttackRequest, Available, Threat
from recondite.attacks.posterior.base import PosteriorAttack, PosteriorEstimate
from recondite.attacks.posterior.generated import DRAWS, real_of
from recondite.attacks.posterior.rehearsal import MOST, Rehearsal, RehearsalTrial, drawn, judged
from recondite.attacks.posterior.releases import ReleaseSite, log_likelihoods
from recondite.attacks.posterior.run import OverRun

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import ImageSet

__all__ = [
    "ImportanceWeights",
    "believed",
    "candidates",
    "mean_of",
    "run_rehearsal",
    "run_weights",
    "weigh",
    "weighed",
]


@dataclass(frozen=True)
class ImportanceWeights(PosteriorAttack):
    """The posterior mean under the public records' own empirical law: w_j ∝ p(releases | x_j).

    Exact for that prior, whatever the network and the defence; as coarse as the public records are
    few. ``effective_samples`` is 1/Σw², a mean over victims: near 1 the answer is one public
    record, and a finer prior (gauss-newton) knows more. Where a rehearsal on known records
    (:mod:`recondite.attacks.posterior.rehearsal`) does not beat the blind guess, the answer is
    drawn towards that guess: ``kept_of_posterior`` says how far it went.

    With threat ``training`` the victims are training records, and the release is the whole run: the
    likelihood of a public record in a victim's place is the identification game's
    (:mod:`recondite.attacks.identification.game`), by an attacker who knows everybody else's
    records and batches, and with ``participation: known`` also when the victim took part.

    Attributes:
      releases: Releases of the same record, each with fresh noise; their likelihoods add.
      prior: A generative prior, of an update only: its draws count as public records do
        (:func:`recondite.attacks.posterior.generated.with_draws`).
      draws: Of it, at most.
    """

    name: ClassVar[str] = "importance-weights"
    title: ClassVar[str] = "posterior mean over public records"
    threats: ClassVar[frozenset[Threat]] = frozenset({"update", "training"})
    reads: ClassVar[tuple[str, ...]] = (*PosteriorAttack.reads, "participation")
    from_transcript: ClassVar[bool] = True

    releases: int = 1
    prior: str | None = None
    draws: int = DRAWS

    def estimate(
        self,
        sites: Sequence[ReleaseSite],
        public: ImageSet,
        labels: Tensor | None,
        progress: Callable[[str, float], None],
        real: int | None = None,
    ) -> PosteriorEstimate:
        """One pass over the public records, the rehearsal in it."""
        del progress
        weights, trial, tried = weighed(sites, public, labels, real)
        rehearsal = None if trial is None or tried is None else trial.judged(mean_of(tried, public))
        return drawn(believed(weights, public, labels), rehearsal, real_of(public, real), labels)

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """A run has its own batches, and its victims are training records."""
        if not self.replays(asked):
            yield from super().misfits(asked, there)
            return
        if self.prior is not None:
            yield "prior", "is of an update: a run is replayed for public records"
        if self.releases != 1:
            yield (
                "releases",
                f"must be 1 with threat training: a run has its own, got {self.releases}",
            )
        if asked.images > there.records:
            yield "images", f"must be at most {there.records}, the records, got {asked.images}"

    def _evaluate(self, victim: Victim) -> Outcome:
        if not self.replays(victim.asked):
            return super()._evaluate(victim)
        seen = OverRun.of(victim, self.name)
        found = believed(run_weights(seen), seen.public, seen.labels)
        return seen.outcome(drawn(found, run_rehearsal(seen), seen.public, seen.labels))


def mean_of(weights: Tensor, public: ImageSet) -> Tensor:
    """The mean of public images by their weights, (victims, public)."""
    return torch.einsum("vn,n...->v...", weights, public.images.double())


def believed(weights: Tensor, public: ImageSet, labels: Tensor | None) -> PosteriorEstimate:
    """The mean of public records by their weights, (victims, public)."""
    images = mean_of(weights, public)
    classes = torch.zeros(
        len(weights), len(public.classes), dtype=weights.dtype, device=weights.device
    )
    classes.index_add_(1, public.labels, weights)
    samples = float((1.0 / weights.square().sum(1)).mean())
    return PosteriorEstimate(
        images,
        classes.argmax(1) if labels is None else labels,
        {"effective_samples": samples, "public_records": float(len(public))},
    )


def candidates(victims: int, public: ImageSet, labels: Tensor | None) -> Tensor:
    """Which public records are tried for which victim, (victims, public).

    Without labels each public record has its own: all classes are tried. A class that no public
    record has is tried with all of them.
    """
    wanted = torch.ones(victims, len(public), dtype=torch.bool, device=public.images.device)
    if labels is not None:
        wanted = labels[:, None].to(public.labels) == public.labels[None]
        wanted |= ~wanted.any(1, keepdim=True)
    return wanted


def weigh(sites: Sequence[ReleaseSite], public: ImageSet, labels: Tensor | None) -> Tensor:
    """Posterior weights of public records, (victims, public), in double precision."""
    wanted = candidates(sites[0].seen.shape[0], public, labels)
    likely = log_likelihoods(sites, public.images, public.labels, wanted)
    return torch.softmax(likely, 1)


def weighed(
    sites: Sequence[ReleaseSite], public: ImageSet, labels: Tensor | None, real: int | None = None
) -> tuple[Tensor, RehearsalTrial | None, Tensor | None]:
    """:func:`weigh`, and the weights at releases of records that the attacker set aside.

    These count among the public records of the victims, and not of each other.
    """
    trial = RehearsalTrial.of(sites, public, told=labels is not None, real=real)
    if trial is None:
        return weigh(sites, public, labels), None, None
    victims = sites[0].seen.shape[0]
    theirs = candidates(len(trial.known), public, trial.known.labels if trial.told else None)
    theirs[:, trial.aside] = False
    theirs |= ~theirs.any(1, keepdim=True)  # no other of its class: all others
    theirs[:, trial.aside] = False
    wanted = torch.cat([candidates(victims, public, labels), theirs])
    likely = log_likelihoods(trial.sites, public.images, public.labels, wanted)
    weights = torch.softmax(likely, 1)
    return weights[:victims], trial, weights[victims:]


def run_rehearsal(seen: OverRun) -> Rehearsal | None:
    """How the posterior behind a whole run did at other training records, which are known."""
    others = seen.others(MOST)
    if others is None:
        return None
    told = seen.labels is not None
    return judged(mean_of(run_weights(others), seen.public), others.chosen, seen.public, told=told)


def run_weights(seen: OverRun) -> Tensor:
    """Posterior weights of public records behind a whole run, (victims, public)."""
    likely = torch.as_tensor(seen.scores[:, 1:]).to(seen.public.images.device)
    wanted = candidates(len(likely), seen.public, seen.labels)
    return torch.softmax(likely.masked_fill(~wanted, -torch.inf), 1)
