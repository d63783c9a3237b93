"""What every gradient attack takes and gives back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.base import Attack, AttackRequest, Available, Threat
from recondite.attacks.gradient.victims import Victims
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.reconstruction import AttackProgress, Reconstruction
from recondite.gradients.losses import usual_loss

if TYPE_CHECKING:
    from recondite.attacks.leak import Leak
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim
    from recondite.records import Records

__all__ = ["AttackProgress", "GradientAttack", "Reconstruction"]

Loss = Callable[[Tensor, Tensor], Tensor]


class GradientAttack(Attack):
    """Rebuilds records from a gradient, as a frozen dataclass of its settings.

    A subclass writes ``_attack``; :meth:`evaluate` hands it the gradients that a victim's defence
    lets out, and scores what comes back.

    Attributes:
      paper: Where it was published.
      restarts: Attempts a victim.
    """

    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.MODEL, Knowledge.GRADIENTS})
    threats: ClassVar[frozenset[Threat]] = frozenset({"update"})
    reads: ClassVar[tuple[str, ...]] = ("images", "batch_size", "victim", "labels", "threat")
    takes: ClassVar[tuple[str, ...]] = ("images",)
    takes_gradients: ClassVar[bool] = True
    paper: ClassVar[str]
    restarts: int = 1

    def trains(self, asked: AttackRequest) -> bool:
        """Only where the gradients of the trained model are asked for."""
        return asked.victim == "trained"

    def misfits(self, asked: AttackRequest, there: Available) -> Iterator[tuple[str, str]]:
        """Held-out records are attacked: there must be as many."""
        wanted = asked.images * asked.batch_size
        if wanted > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"needs {wanted} held-out records: {has}"

    @staticmethod
    def originals(images: Tensor) -> Tensor:
        """What the result is compared with, (victims, batch, c, h, w): the records themselves."""
        return images

    @staticmethod
    def compared(chosen: Records, true: Tensor) -> Records:
        """``originals`` as records, for a blind guess at them; without a class where mixed."""
        flat = true.flatten(0, 1)
        if len(flat) == len(chosen):
            return chosen
        return chosen.replaced(flat, torch.zeros_like(chosen.labels[: len(flat)]))

    def _evaluate(self, victim: Victim) -> Outcome:
        """Attacks what one step on held-out records releases.

        They never were in the training set: the gradient is what a client would send for them.
        """
        from recondite.attacks.gradient.held_out import aimed, outcome_of
        from recondite.attacks.scoring import bounds_of

        asked, aim = victim.asked, aimed(victim)
        model = victim.target()
        found = self.reconstruct_many(
            model,
            usual_loss,
            victim.leak(model, aim.features, aim.labels),
            shape=aim.test.shape,
            batch_size=asked.batch_size,
            labels=aim.labels if asked.labels else None,
            bounds=bounds_of(aim.test),
            classes=aim.test.outputs,
            seed=victim.seed,
            progress=victim.told(self.name),
        )
        true = self.originals(aim.features)
        against = replace(aim, features=true, chosen=self.compared(aim.chosen, true))
        return outcome_of(victim, model, against, found, told=asked.labels, restarts=self.restarts)

    def rebuild(self, leak: Leak) -> Reconstruction:
        """Matches the average of each victim's releases; refuses a defence, which it cannot use."""
        if leak.defended:
            raise ValueError(
                f"{self.name} cannot use a defence: leave it out, or choose importance-weights, "
                "gauss-newton or strongest, which do"
            )
        found = self.reconstruct_many(
            leak.model,
            usual_loss,
            leak.average(),
            shape=leak.shape,
            batch_size=leak.batch_size,
            labels=leak.labels,
            bounds=leak.bounds,
            seed=leak.seed,
            progress=lambda now: leak.progress(self.name, now.step / max(now.steps, 1)),
            time_limit=leak.time_limit,
        )
        if leak.releases == 1:
            return found
        return replace(found, notes=(*found.notes, f"the average of {leak.releases} releases"))

    def reconstruct(
        self,
        model: nn.Module,
        loss_fn: Loss,
        gradients: Mapping[str, Tensor] | Sequence[Tensor],
        *,
        shape: Sequence[int],
        batch_size: int = 1,
        labels: Tensor | None = None,
        bounds: tuple[Any, Any] | None = None,
        classes: int | None = None,
        seed: int | None = None,
        progress: Callable[[AttackProgress], None] | None = None,
        time_limit: float | None = None,
    ) -> Reconstruction:
        """Attacks one gradient.

        Args:
          model: The network whose gradient leaked, with the weights and in the mode it had.
          loss_fn: ``loss_fn(logits, labels)``, averaged over the batch as in training.
          gradients: Keyed by parameter name, or in the order of ``model.named_parameters()``.
          shape: (c, h, w) of one record.
          batch_size: Records behind the gradient.
          labels: (batch,) where the attacker knows them; inferred if not given.
          bounds: Smallest and largest value of a pixel in the model's scale: numbers, or one
            per channel. None for no limit.
          classes: Number of classes; found by running the model if not given.
          seed: Makes the attack repeatable.
          progress: Called now and then.
          time_limit: Seconds after which the best so far is returned.
        """
        given = gradients if isinstance(gradients, Mapping) else _named(model, gradients)
        stacked = {name: value.unsqueeze(0) for name, value in given.items()}
        result = self.reconstruct_many(
            model,
            loss_fn,
            stacked,
            shape=shape,
            batch_size=batch_size,
            labels=None if labels is None else labels.unsqueeze(0),
            bounds=bounds,
            classes=classes,
            seed=seed,
            progress=progress,
            time_limit=time_limit,
        )
        return result.victim(0)

    def reconstruct_many(
        self,
        model: nn.Module,
        loss_fn: Loss,
        gradients: Mapping[str, Tensor],
        *,
        shape: Sequence[int],
        batch_size: int = 1,
        labels: Tensor | None = None,
        bounds: tuple[Any, Any] | None = None,
        classes: int | None = None,
        weights: Mapping[str, Tensor] | None = None,
        seed: int | None = None,
        progress: Callable[[AttackProgress], None] | None = None,
        time_limit: float | None = None,
    ) -> Reconstruction:
        """Attacks many gradients of one architecture in one computation.

        As :meth:`reconstruct`, with a leading axis of victims on every gradient, on ``labels``
        and on the result. Victims do not influence each other.

        Args:
          model: As above.
          loss_fn: As above.
          gradients: Parameter name to (victims, *parameter).
          shape: As above.
          batch_size: As above, the same for all victims.
          labels: (victims, batch).
          bounds: As above.
          classes: As above.
          weights: Parameter name to (victims, *parameter) where every victim has weights of its
            own; the model's for all otherwise.
          seed: As above.
          progress: As above.
          time_limit: As above, for all together.
        """
        victims = Victims.of(
            model,
            loss_fn,
            gradients,
            shape=shape,
            batch_size=batch_size,
            labels=labels,
            bounds=bounds,
            classes=classes,
            weights=weights,
            seed=seed,
        )
        if time_limit is not None:
            _validate.positive("time_limit", time_limit)
        was = {name: module.training for name, module in model.named_modules()}
        wanted = [parameter.requires_grad for parameter in model.parameters()]
        try:
            return self._attack(victims, progress, time_limit)
        finally:
            for name, module in model.named_modules():
                module.training = was[name]
            for parameter, flag in zip(model.parameters(), wanted, strict=True):
                parameter.requires_grad_(flag)

    @abstractmethod
    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        """Runs on checked input."""


def _named(model: nn.Module, gradients: Sequence[Tensor]) -> dict[str, Tensor]:
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if len(names) != len(gradients):
        raise ValueError(
            f"gradients must have {len(names)} tensors, one a trainable parameter, got "
            f"{len(gradients)}"
        )
    return dict(zip(names, gradients, strict=True))


def torch_generator(seed: int | None, device: torch.device) -> torch.Generator:
    """A generator of an attacker's starts: seeded by the system when no seed is given."""
    generator = torch.Generator(device=device)
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator
