"""Several attempts at every victim, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recondite.attacks.gradient.base import Reconstruction
from recondite.attacks.gradient.descent import Best
from recondite.attacks.gradient.labels import infer_labels
from recondite.attacks.gradient.starts import starts
from recondite.attacks.gradient.victims import Victims
from recondite.metrics.images import match_order

__all__ = ["Attempts", "inferred_note"]


def inferred_note(victims: Victims) -> str:
    """What a reader should know of labels that were not given."""
    exact = victims.batch_size == 1
    return f"labels inferred from the gradient{'' if exact else ': an estimate'}"


@dataclass(frozen=True, eq=False)
class Attempts:
    """Trials of an attack, victim by victim.

    Attributes:
      victims: Whom they attack.
      restarts: Trials a victim.
      images: First images, (victims · restarts, batch, c, h, w).
      labels: One set a trial, (victims · restarts, batch, …).
      inferred: Whether the labels were found in the gradient.
    """

    victims: Victims
    restarts: int
    images: Tensor
    labels: Tensor
    inferred: bool

    @classmethod
    def begin(cls, victims: Victims, restarts: int, start: str) -> Attempts:
        """Random starts; labels as given, or inferred."""
        inferred = victims.labels is None
        labels = infer_labels(victims) if victims.labels is None else victims.labels
        return cls(
            victims,
            restarts,
            starts(victims, restarts, start),
            labels.repeat_interleave(restarts, 0),
            inferred,
        )

    def result(self, best: Best, matched: Tensor, labels: Tensor | None = None) -> Reconstruction:
        """The attempt of least matching loss of every victim.

        Args:
          best: Where the trials ended.
          matched: Matching loss of each, without priors.
          labels: Labels of each trial where the attack changed them.
        """
        count, restarts = self.victims.count, self.restarts
        losses = matched.nan_to_num(nan=torch.inf).reshape(count, restarts)
        chosen = losses.argmin(1)
        number = torch.arange(count, device=chosen.device) * restarts + chosen
        used = self.labels if labels is None else labels
        images = best.points.detach()
        notes = []
        if self.inferred and labels is None:
            notes.append(inferred_note(self.victims))
        if best.interrupted:
            notes.append(f"ended early after {best.steps} iterations: the best so far")
        return Reconstruction(
            images=images[number],
            labels=used[number],
            loss=losses.gather(1, chosen.unsqueeze(1)).squeeze(1),
            agreement=_agreement(images.reshape(count, restarts, *images.shape[1:]), chosen),
            interrupted=best.interrupted,
            by_user=best.by_user,
            steps=best.steps,
            seconds=best.seconds,
            notes=tuple(notes),
        )


def _agreement(images: Tensor, chosen: Tensor) -> Tensor | None:
    """Root mean square distance of the chosen attempt to the others, order matched."""
    restarts = images.shape[1]
    if restarts == 1:
        return None
    out = []
    for victim, best in zip(images, chosen.tolist(), strict=True):
        squares = []
        for other in range(restarts):
            if other == best:
                continue
            order = match_order(victim[other], victim[best]).to(victim.device)
            squares.append((victim[other][order] - victim[best]).square().mean())
        out.append(torch.stack(squares).mean().sqrt())
    return torch.stack(out)
