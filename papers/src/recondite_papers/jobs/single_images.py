"""Reconstruction of single images from released gradients, for every study that does so."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.base import GradientAttack
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.leaks import VictimGradients, attacked, joined, leak, measured
from recondite_papers.stacked import StackRelease
from recondite_papers.tables.cells import Row

__all__ = ["ImageCase", "attack_cases"]


@dataclass(frozen=True)
class ImageCase:
    """One row of a table: a release, and how rows name it.

    Attributes:
      label: Key-value pairs of the row.
      release: How gradients are released.
      keep_norm: As in :func:`leak`.
    """

    label: Row
    release: StackRelease
    keep_norm: bool = False


def attack_cases(
    model: nn.Module,
    data: Split,
    cases: list[ImageCase],
    method: GradientAttack,
    *,
    images: int,
    seconds: float,
    most: int = 100_000,
    noisy: list[Tensor] | None = None,
) -> list[Row]:
    """Attacks the first images of the training set under every case, in few computations.

    Args:
      model: The victim.
      data: The records.
      cases: Rows.
      method: The attack; it knows the label.
      images: Images a case.
      seconds: Time limit for all.
      most: Victims in one computation.
      noisy: Where the data are noised and not the gradient: the images of each case.
    """
    per = max(1, most // images)
    rows: list[Row] = []
    groups = [cases[start : start + per] for start in range(0, len(cases), per)]
    for number, group in enumerate(groups):
        whole = joined(
            [
                _leaked(model, data, case, images, 50 + number * per + place, noisy, cases)
                for place, case in enumerate(group)
            ]
        )
        found = attacked(method, model, whole, data, seconds / len(groups))
        for place, case in enumerate(group):
            span = slice(place * images, (place + 1) * images)
            truth = data.images[:images].unsqueeze(1)
            rows.append(
                {
                    **case.label,
                    "release": asdict(case.release),
                    "keep_norm": case.keep_norm,
                    "attack": method.name,
                    "iterations": found.steps,
                    "interrupted": found.interrupted,
                    "matching_loss": float(found.loss[span].mean()),
                    **measured(found.images[span], truth, data),
                }
            )
    return rows


def _leaked(
    model: nn.Module,
    data: Split,
    case: ImageCase,
    images: int,
    seed: int,
    noisy: list[Tensor] | None,
    cases: list[ImageCase],
) -> VictimGradients:
    if noisy is None:
        shown = data
    else:
        place = next(i for i, other in enumerate(cases) if other is case)
        shown = Split(
            noisy[place],
            data.labels[:images],
            data.test_images[:1],
            data.test_labels[:1],
            data.mean,
            data.std,
            data.name,
            data.classes,
        )
    with torch.no_grad():
        return leak(
            model,
            shown,
            case.release,
            batch=1,
            batches=images,
            seed=seed,
            keep_norm=case.keep_norm,
        )
