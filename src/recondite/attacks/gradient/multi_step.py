"""Federated updates: several local steps are replayed, and the images move until they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor
from torch.func import functional_call, grad, vmap

from recondite import _validate
from recondite.attacks.gradient.attempts import Attempts, inferred_note
from recondite.attacks.gradient.base import AttackProgress, GradientAttack, Reconstruction
from recondite.attacks.gradient.descent import descend
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.norms import written_out
from recondite.attacks.gradient.priors import total_variation
from recondite.attacks.gradient.victims import Victims, refuse_unknown_mode
from recondite.attacks.knowledge import Knowledge

__all__ = ["MultiStep", "update"]


def update(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor], learning_rate: float
) -> dict[str, Tensor]:
    """The sum of the gradients of local SGD: (before - after) / learning rate."""
    _validate.positive("learning_rate", learning_rate)
    return {name: (before[name] - after[name]) / learning_rate for name in after if name in before}


@dataclass(frozen=True)
class MultiStep(GradientAttack):
    """Inverting Gradients for federated averaging (Geiping et al., 2020, Section 6).

    The attacker knows the weights before and after E local steps of plain SGD and replays them:
    the images' own steps are differentiated through. ``gradients`` is :func:`update`. Assumption:
    local batches are taken in the order of the records (with labels that were inferred, in the
    order of the classes); where the victim shuffled, the replay is not what happened and the
    result is worse.

    Attributes:
      local_steps: E.
      local_learning_rate: Of the local SGD.
      local_batch_size: Records of a local step; all by default.
      steps: Iterations.
      restarts: Attempts a victim.
      learning_rate: Of the signed steps.
      total_variation: Weight of smoothness.
    """

    name: ClassVar[str] = "multi-step"
    paper: ClassVar[str] = "Geiping et al., Inverting gradients (2020)"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.MODEL, Knowledge.UPDATES})

    local_steps: int = 5
    local_learning_rate: float = 0.01
    local_batch_size: int | None = None
    steps: int = 2000
    restarts: int = 1
    learning_rate: float = 0.1
    total_variation: float = 1e-4

    def __post_init__(self) -> None:
        for field in ("local_steps", "steps", "restarts"):
            _validate.at_least(field, getattr(self, field), 1)
        if self.local_batch_size is not None:
            _validate.at_least("local_batch_size", self.local_batch_size, 1)
        _validate.positive("local_learning_rate", self.local_learning_rate)
        _validate.positive("learning_rate", self.learning_rate)
        _validate.non_negative("total_variation", self.total_variation)

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        refuse_unknown_mode(victims.model)
        known = victims
        if victims.labels is None:
            # The update sums the gradients of all local steps.
            mean = {n: g / self.local_steps for n, g in victims.gradients.items()}
            known = replace(victims, labels=infer_labels(replace(victims, gradients=mean)))
        attempts = Attempts.begin(known, self.restarts, "normal")
        replay = self._replay(victims)
        leaks = {n: g.repeat_interleave(self.restarts, 0) for n, g in victims.gradients.items()}

        def matched(images: Tensor) -> Tensor:
            made = replay(images, attempts.labels)
            dot, mine, theirs = (images.new_zeros(len(images)) for _ in range(3))
            for name, leak in leaks.items():
                own, other = made[name].flatten(1), leak.flatten(1)
                dot = dot + (own * other).sum(1)
                mine, theirs = mine + own.square().sum(1), theirs + other.square().sum(1)
            return 1.0 - dot / (mine.clamp_min(1e-24) * theirs.clamp_min(1e-24)).sqrt()

        def objective(images: Tensor) -> Tensor:
            return matched(images) + self.total_variation * total_variation(images)

        best = descend(
            objective,
            attempts.images,
            steps=self.steps,
            learning_rate=self.learning_rate,
            signed=True,
            decay=True,
            project=victims.clamp,
            progress=progress,
            time_limit=time_limit,
        )
        result = attempts.result(best, matched(best.points.requires_grad_()).detach())
        if victims.labels is None:
            return replace(result, notes=(inferred_note(victims), *result.notes))
        return result

    def _replay(self, victims: Victims) -> Callable[[Tensor, Tensor], dict[str, Tensor]]:
        """Images and labels of every trial to the update they would have caused."""
        model, names = written_out(victims.model).requires_grad_(False), list(victims.gradients)
        own = {n: p.detach() for n, p in model.named_parameters()}
        state = {n: p for n, p in own.items() if n not in victims.gradients}
        state.update(model.named_buffers())
        size = min(self.local_batch_size or victims.batch_size, victims.batch_size)

        def loss(weights: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
            logits = functional_call(model, {**state, **weights}, (images,))
            return victims.loss_fn(logits, labels)

        def local(start: dict[str, Tensor], images: Tensor, labels: Tensor) -> dict[str, Tensor]:
            weights = start
            for step in range(self.local_steps):
                at = [(step * size + k) % victims.batch_size for k in range(size)]
                slopes = grad(loss)(weights, images[at], labels[at])
                weights = {n: w - self.local_learning_rate * slopes[n] for n, w in weights.items()}
            return {n: (start[n] - weights[n]) / self.local_learning_rate for n in names}

        if victims.weights is None:
            first, axis = {n: own[n] for n in names}, None
        else:
            given = victims.weights
            first = {n: given[n].repeat_interleave(self.restarts, 0) for n in names}
            axis = 0
        batched = vmap(local, in_dims=(axis, 0, 0), randomness="same")

        def replay(images: Tensor, labels: Tensor) -> dict[str, Tensor]:
            made: dict[str, Tensor] = batched(first, images, labels)
            return made

        return replay
