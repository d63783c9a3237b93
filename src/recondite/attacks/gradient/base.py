"""What every gradient attack takes and gives back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from recondite import _validate
from recondite.attacks.base import Asked, Attack, Available, Threat
from recondite.attacks.gradient.victims import Victims
from recondite.attacks.knowledge import Knowledge

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim

__all__ = ["GradientAttack", "Progress", "Reconstruction"]

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Progress:
    """How far an attack is.

    Attributes:
      step: Iterations finished.
      steps: Iterations planned.
      loss: Mean over victims of the best matching loss so far.
    """

    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class Reconstruction:
    """What an attack rebuilt.

    Attributes:
      images: (batch, c, h, w) in the scale the model takes; (victims, batch, c, h, w) of many.
      labels: The labels used or found, (batch,) or (victims, batch); None where there are none.
      loss: Matching loss of the best attempt; (victims,) of many.
      agreement: Mean distance per pixel (root mean square) between the best attempt and the
        others; None with one attempt. An estimate of how sure the attacker can be without the
        originals: small where attempts from other starts found the same image.
      interrupted: Whether the attack stopped early: the best so far is kept.
      steps: Iterations done.
      seconds: Time taken.
      notes: What a reader should know.
      by_user: Whether a keyboard interrupt stopped it early, and not the time limit.
    """

    images: Tensor
    labels: Tensor | None
    loss: Tensor
    agreement: Tensor | None = None
    interrupted: bool = False
    steps: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    by_user: bool = False

    def victim(self, index: int) -> Reconstruction:
        """The part of one victim."""
        return replace(
            self,
            images=self.images[index],
            labels=None if self.labels is None else self.labels[index],
            loss=self.loss[index],
            agreement=None if self.agreement is None else self.agreement[index],
        )


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
    paper: ClassVar[str]
    restarts: int = 1

    def trains(self, asked: Asked) -> bool:
        """Only where the gradients of the trained model are asked for."""
        return asked.victim == "trained"

    def misfits(self, asked: Asked, there: Available) -> Iterator[tuple[str, str]]:
        """Held-out records are attacked: there must be as many."""
        wanted = asked.images * asked.batch_size
        if wanted > there.test_records:
            has = f"{there.data} has {there.test_records}"
            yield "images", f"needs {wanted} held-out records: {has}"

    def informed(self, victim: Victim, model: nn.Module, public: Tensor) -> GradientAttack:
        """The attack with what it knows of this victim; most know nothing but the gradient.

        Args:
          victim: The victim.
          model: Whose gradients leak.
          public: Images of the same kind that are not attacked.
        """
        del victim, model, public
        return self

    @staticmethod
    def originals(images: Tensor) -> Tensor:
        """What the result is compared with, (victims, batch, c, h, w): the records themselves."""
        return images

    def _evaluate(self, victim: Victim) -> Outcome:
        """Attacks what one step on held-out records releases.

        They never were in the training set: the gradient is what a client would send for them.
        """
        from recondite.attacks import scoring
        from recondite.attacks.claims import identification_claims
        from recondite.attacks.outcome import Outcome, Rebuilt

        asked, test = victim.asked, victim.records.test
        picked = scoring.picked(test, asked.images * asked.batch_size, victim.seed)
        chosen = test.subset(picked)
        images = chosen.images.reshape(asked.images, asked.batch_size, *test.shape)
        labels = chosen.labels.reshape(asked.images, asked.batch_size)
        model = victim.target()
        leaked = victim.leak(model, images, labels)
        others = torch.ones(len(test), dtype=torch.bool)
        others[picked] = False
        low, high = scoring.bounds_of(test)
        found = self.informed(victim, model, test.images[others]).reconstruct_many(
            model,
            nn.functional.cross_entropy,
            leaked,
            shape=test.shape,
            batch_size=asked.batch_size,
            labels=labels if asked.labels else None,
            bounds=(low.to(images), high.to(images)),
            seed=victim.seed,
            progress=victim.told(self.name),
        )
        if not torch.isfinite(found.images).all():
            raise ValueError(
                "the attack diverged: its images are not finite (lower its learning rate)"
            )
        true = self.originals(images)
        pixels, originals = (test.pixels(x).clamp(0, 1) for x in (found.images, true))
        scores, gallery = scoring.scored(pixels, originals)
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="held-out records",
                matching_loss=tuple(float(value) for value in found.loss.flatten()),
                labels_right=None if asked.labels else scoring.labels_found(found.labels, labels),
                restarts=self.restarts,
                batch_size=asked.batch_size,
                victim=asked.victim,
            ),
            gallery=gallery,
            claims=identification_claims(
                victim, model, pixels, chosen, asked.batch_size, told=asked.labels
            ),
            notes=found.notes,
            iterations=found.steps,
            interrupted=found.interrupted,
            seconds=found.seconds,
        )

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
        progress: Callable[[Progress], None] | None = None,
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
        progress: Callable[[Progress], None] | None = None,
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
        progress: Callable[[Progress], None] | None,
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
