"""The adaptive attacker: knows the defence, uses every round seen, and what images look like."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.gradient.attempts import Attempts
from recondite.attacks.gradient.base import GradientAttack, Progress, Reconstruction
from recondite.attacks.gradient.bounded import Bounding
from recondite.attacks.gradient.descent import descend
from recondite.attacks.gradient.matcher import Matcher
from recondite.attacks.gradient.priors import GaussianPrior, total_variation
from recondite.attacks.gradient.victims import Victims
from recondite.attacks.knowledge import Knowledge

if TYPE_CHECKING:
    from recondite.attacks.victim import Victim

__all__ = ["Adaptive"]

LogLikelihood = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Adaptive(GradientAttack):
    """Maximises the likelihood of what was really released, over all rounds, times a prior.

    A defence that only beats an attacker who ignores it is not defended. This one is handed the
    mechanism's own log-likelihood (:func:`recondite.gradients.leaked.configured_for`, which takes
    gradients in the model's numbers to the mechanism's units), bounds each record's gradient as
    the victim did, adds up the rounds in which the same records took part, and can search among
    images that look like public ones.

    Attributes:
      log_likelihood: ``log_likelihood(release, gradient)`` over the last axis, of flat vectors in
        the order of the model's trainable parameters; None for the cosine.
      per_record: Whether it wants each record's gradient, (…, batch, p), instead of the average
        (noise on every record).
      bounding: How the victim bounded each record's gradient.
      prior: Fitted on public images; ``"public"`` to fit it on those that come with a victim;
        None for smoothness and the box alone.
      steps: Iterations.
      restarts: Attempts a victim.
      learning_rate: Of Adam: in units of the prior's coefficients, or of pixels.
      total_variation: Weight of smoothness beside the cosine, without a prior.
      smoothness: Weight of smoothness beside a likelihood, without a prior, in nats: the inverse
        scale of a Laplace law on every difference of neighbouring pixels. Assumption: 1, which is
        far wider than what real images show, so that a weak noise is not smoothed away.
    """

    name: ClassVar[str] = "adaptive"
    paper: ClassVar[str] = "this system"
    needs: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.MODEL, Knowledge.GRADIENTS, Knowledge.DEFENCE}
    )

    log_likelihood: LogLikelihood | None = None
    per_record: bool = False
    bounding: Bounding = field(default_factory=Bounding)
    prior: GaussianPrior | Literal["public"] | None = None
    steps: int = 1000
    restarts: int = 1
    learning_rate: float = 0.05
    total_variation: float = 1e-4
    smoothness: float = 1.0

    def __post_init__(self) -> None:
        _validate.at_least("steps", self.steps, 1)
        _validate.at_least("restarts", self.restarts, 1)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("total_variation", self.total_variation)
        _validate.non_negative("smoothness", self.smoothness)
        if not (self.prior in (None, "public") or isinstance(self.prior, GaussianPrior)):
            raise ValueError("prior must be public: fitted on other held-out records")

    def informed(self, victim: Victim, model: nn.Module, public: Tensor) -> Adaptive:
        """Handed the defence's own bounding and likelihood, and a prior where it wants one."""
        defence = victim.defence
        law = victim.observed(model, victim.asked.batch_size)
        return replace(
            self,
            bounding=Bounding(
                {"flat": "clip", "scale": "scale"}.get(defence.clipping, "none"),
                defence.max_grad_norm,
            ),
            prior=GaussianPrior.fit(public) if self.prior == "public" else self.prior,
            log_likelihood=self.log_likelihood if law is None else law.log_likelihood,
            per_record=self.per_record if law is None else law.per_record,
        )

    def reconstruct_rounds(
        self,
        model: nn.Module,
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        rounds: Sequence[tuple[Mapping[str, Tensor] | None, Mapping[str, Tensor]]],
        *,
        progress: Callable[[Progress], None] | None = None,
        time_limit: float | None = None,
        **options: Any,
    ) -> Reconstruction:
        """Attacks what several rounds released about the same records.

        Args:
          model: The architecture, with its weights where a round gives none.
          loss_fn: Its loss.
          rounds: For each, the weights it began with (name to tensor; None for the model's) and
            what was released, stacked over victims.
          progress: As for every attack.
          time_limit: As for every attack.
          options: As for ``reconstruct_many``.
        """
        if not rounds:
            raise ValueError("rounds must hold one round or more")
        defaults: dict[str, Any] = {
            "batch_size": 1,
            "labels": None,
            "bounds": None,
            "classes": None,
            "seed": None,
            "weights": None,
        }
        seen = []
        for weights, release in rounds:
            own = copy.deepcopy(model)
            if weights is not None:
                _load(own, weights)
            seen.append(Victims.of(own, loss_fn, release, **{**defaults, **options}))
        if len({one.count for one in seen}) > 1:
            raise ValueError("rounds must all hold the same victims, in the same order")
        if time_limit is not None:
            _validate.positive("time_limit", time_limit)
        return self._search(seen, progress, time_limit)

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[Progress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        return self._search([victims], progress, time_limit)

    def _search(
        self,
        rounds: Sequence[Victims],
        progress: Callable[[Progress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        first = rounds[0]
        attempts = Attempts.begin(first, self.restarts, "normal")
        matchers = [Matcher(one, self.restarts, self.bounding) for one in rounds]
        prior = self.prior
        if prior == "public":
            raise ValueError("prior public needs a victim's public images: give a GaussianPrior")
        if prior is not None and prior.shape != first.shape:
            raise ValueError(f"prior is of images {prior.shape}, not {first.shape}: fit another")
        labels = attempts.labels
        weight = self.total_variation
        if self.log_likelihood is not None:
            weight = self.smoothness * attempts.images[0].numel()

        def matched(images: Tensor) -> Tensor:
            total = images.new_zeros(len(images))
            for matcher in matchers:
                total = total + self._mismatch(matcher, images, labels)
            return total

        def images_at(points: Tensor) -> Tensor:
            return points if prior is None else first.clamp(prior.images(points))

        def objective(points: Tensor) -> Tensor:
            if prior is not None:
                return matched(images_at(points)) + prior.penalty(points)
            return matched(points) + weight * total_variation(points)

        start = attempts.images
        if prior is not None:
            flat = start.flatten(2)[..., : len(prior.basis)]
            short = len(prior.basis) - flat.shape[2]
            start = torch.nn.functional.pad(flat, (0, max(short, 0)))
        best = descend(
            objective,
            start,
            steps=self.steps,
            learning_rate=self.learning_rate,
            signed=False,
            decay=True,
            project=first.clamp if prior is None else (lambda points: points),
            progress=progress,
            time_limit=time_limit,
        )
        images = images_at(best.points)
        chosen = replace(best, points=images)
        result = attempts.result(chosen, best.values)
        return replace(result, notes=(*result.notes, self._described(len(rounds))))

    def _mismatch(self, matcher: Matcher, images: Tensor, labels: Tensor) -> Tensor:
        if self.log_likelihood is None:
            return matcher.cosine_distance(images, labels)
        release = torch.cat([g.flatten(1) for g in matcher.targets()], 1)
        if self.per_record:
            return -self.log_likelihood(release, matcher.each_record(images, labels))
        made = torch.cat([g.flatten(1) for g in matcher.gradients(images, labels)], 1)
        return -self.log_likelihood(release, made)

    def _described(self, rounds: int) -> str:
        law = "cosine" if self.log_likelihood is None else "the defence's likelihood"
        prior = "smoothness" if self.prior is None else "a prior from public images"
        return f"adaptive: {law}, {prior}, {rounds} round{'s' if rounds > 1 else ''}"


def _load(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """A round's weights; every trainable parameter must be among them."""
    own = model.state_dict()
    wanted = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for name in (*wanted, *weights):
        if name not in weights or name not in own or weights[name].shape != own[name].shape:
            raise ValueError(f"rounds: weights and model do not agree on {name}")
    model.load_state_dict(dict(weights), strict=False)
