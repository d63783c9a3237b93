"""Model inversion: what the typical image of a class looks like to a trained model.

After Fredrikson et al. (2015), in the setting of Tan et al. (2024), section 6.1: start from the
mean of images that are not in the training set, and change it until the model is sure of a class.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from recondite import _validate
from recondite.attacks.base import Attack, Threat
from recondite.attacks.gradient.base import AttackProgress
from recondite.attacks.knowledge import Knowledge
from recondite.attacks.membership.signals import (
    LossFunction,
    Records,
    check_labels,
    device_of,
    evaluation_mode,
    logits_of,
    records_of,
)
from recondite.records import ImageSet

if TYPE_CHECKING:
    from recondite.attacks.outcome import Outcome
    from recondite.attacks.victim import Victim

__all__ = ["Inversion", "InversionScores", "ModelInversion", "class_centres"]


@dataclass(frozen=True, eq=False)
class InversionScores:
    """How far the inverted images are from the centres of their classes.

    Attributes:
      mse: Mean squared error for each class that was inverted, (classes,).
      median: Over the classes: the figure of the paper.
      start: Median over the classes of the error of the start image: what an attacker knew before.
      scale: What a pixel's number means.
    """

    mse: Tensor
    median: float
    start: float
    scale: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "mse": self.mse.tolist(),
            "mse_median": self.median,
            "mse_start": self.start,
            "scale": self.scale,
        }


@dataclass(frozen=True, eq=False)
class Inversion:
    """Inverted images, one for each class.

    Attributes:
      images: (classes, c, h, w), in the scale of the auxiliary images.
      labels: Their classes.
      start: The image all started from.
      loss: Last loss of each.
      iterations: Steps taken.
      interrupted: Whether a keyboard interrupt ended it early; the images are those of that step.
      seconds: How long it took.
    """

    images: Tensor
    labels: Tensor
    start: Tensor
    loss: Tensor
    iterations: int
    interrupted: bool
    seconds: float

    def score(self, records: Records) -> InversionScores:
        """Compares with the centres of the classes.

        Args:
          records: The training set of the victim. An ``ImageSet`` is scored in pixels in [0, 1],
            whatever scale it is in; a pair (images, labels) in its own scale.
        """
        centres = class_centres(records, self.labels)
        images, start, scale = self.images, self.start, "as given"
        if isinstance(records, ImageSet):
            images, start, centres = (records.pixels(x) for x in (images, start, centres))
            scale = "pixels in [0, 1]"
        centres = centres.to(images)
        errors = (images - centres).square().flatten(1).mean(dim=1).cpu()
        before = (start[None].to(images) - centres).square().flatten(1).mean(dim=1).cpu()
        return InversionScores(errors, _median(errors), _median(before), scale)


def _median(values: Tensor) -> float:
    # torch.median takes the lower of the two in the middle.
    return float(values.double().quantile(0.5))


def class_centres(records: Records, labels: Tensor | Sequence[int]) -> Tensor:
    """Mean image of each of these classes, (classes, c, h, w)."""
    images, truth = records_of("records", records, 1)
    centres = []
    for label in torch.as_tensor(labels).tolist():
        chosen = images[truth == label]
        if not len(chosen):
            raise ValueError(f"records must hold images of class {label}, which has none")
        centres.append(chosen.double().mean(dim=0).to(images.dtype))
    return torch.stack(centres)


@dataclass(frozen=True)
class ModelInversion(Attack):
    """Inverts all classes of a model in one batched computation.

    Each image has its own loss, and Adam acts on each pixel alone: the batch gives exactly what
    one class after another would. Iterations and learning rate are the paper's; cross-entropy to
    the target class and no bounds on pixels are assumptions, since it gives neither.

    Attributes:
      iterations: Steps.
      learning_rate: Of Adam.
    """

    iterations: int = 600
    learning_rate: float = 1e-2

    name: ClassVar[str] = "model-inversion"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.MODEL, Knowledge.PUBLIC_DATA})
    threats: ClassVar[frozenset[Threat]] = frozenset({"model"})
    takes: ClassVar[tuple[str, ...]] = ("images",)

    def __post_init__(self) -> None:
        _validate.at_least("iterations", self.iterations, 1)
        _validate.positive("learning_rate", self.learning_rate)

    def _evaluate(self, victim: Victim) -> Outcome:
        """Each class's typical image from the trained model, against its training records' mean."""
        from recondite.attacks.outcome import Outcome, Rebuilt
        from recondite.attacks.scoring import as_images, blind_beside, public_of, scored

        records, test = victim.records, as_images(victim.records.test)
        found = self.invert(victim.model, test, progress=victim.told(self.name))
        centres = class_centres(records.training, found.labels)
        pixels, originals = (test.pixels(x).clamp(0, 1) for x in (found.images, centres))
        scores, gallery = scored(pixels[:, None], originals[:, None])
        public = public_of(victim, torch.empty(0, dtype=torch.long))
        true = test.replaced(centres, found.labels.to(centres.device))
        return Outcome(
            rebuilt=Rebuilt(
                scores,
                images_from="means of the training records of each class",
                matching_loss=tuple(float(value) for value in found.loss.flatten()),
                figures={"mse_start": found.score(records.training).start},
                blind=blind_beside(scores, true, public, told=True),
            ),
            # The mean of a small class is close to its records.
            gallery=gallery if victim.shown else None,
            iterations=found.iterations,
            interrupted=found.interrupted,
            seconds=found.seconds,
        )

    def invert(
        self,
        model: nn.Module,
        auxiliary: Records,
        *,
        labels: Tensor | Sequence[int] | None = None,
        loss_fn: LossFunction | None = None,
        bounds: tuple[float, float] | None = None,
        progress: Callable[[AttackProgress], None] | None = None,
    ) -> Inversion:
        """Finds an image for each class. Nothing is drawn: the result needs no seed.

        A keyboard interrupt ends the search and returns what it has.

        Args:
          model: The victim: images to logits, used in evaluation mode and left as it was.
          auxiliary: Images that the victim was not trained on; their mean is the start.
          labels: Classes to invert; by default every logit of the model.
          loss_fn: Loss of (logits, labels); by default cross-entropy.
          bounds: Least and largest pixel, kept after every step; None leaves pixels free.
          progress: Called after every step.
        """
        begun = time.perf_counter()
        public, _ = records_of("auxiliary", auxiliary, 1)
        device = device_of(model)
        start = public.double().mean(dim=0).to(device, public.dtype)
        logits = logits_of(model, start[None])
        chosen = range(logits.shape[1]) if labels is None else labels
        targets = torch.as_tensor(list(chosen), device=device).long().reshape(-1)
        if not len(targets):
            raise ValueError("labels must name one or more classes")
        check_labels("labels", logits, targets)
        if bounds is not None and not bounds[0] < bounds[1]:
            raise ValueError(f"bounds must be (least, largest), got {bounds!r}")
        criterion = functional.cross_entropy if loss_fn is None else loss_fn
        each = torch.func.vmap(lambda z, y: criterion(z[None], y[None]).mean())
        images = start.expand(len(targets), *start.shape).clone().requires_grad_(True)
        optimizer = torch.optim.Adam([images], lr=self.learning_rate)
        done, interrupted = 0, False
        losses = torch.full((len(targets),), torch.nan, device=device)
        with evaluation_mode(model):
            try:
                while done < self.iterations:
                    losses = each(model(images), targets)
                    (images.grad,) = torch.autograd.grad(losses.sum(), images)
                    optimizer.step()
                    if bounds is not None:
                        with torch.no_grad():
                            images.clamp_(*bounds)
                    done += 1
                    if progress is not None:
                        progress(
                            AttackProgress(done, self.iterations, float(losses.detach().mean()))
                        )
            except KeyboardInterrupt:
                interrupted = True
        if not bool(torch.isfinite(images).all()):
            raise ValueError(
                "model gives gradients that are not finite: check its weights and the scale of "
                "the auxiliary images"
            )
        return Inversion(
            images=images.detach(),
            labels=targets,
            start=start,
            loss=losses.detach(),
            iterations=done,
            interrupted=interrupted,
            seconds=time.perf_counter() - begun,
        )
