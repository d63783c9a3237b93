"""What an attacker sees of one batch: its gradient, bounded and noised by a mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.base import GradientAttack, Reconstruction
from recondite.metrics import score
from recondite_papers.jobs.data import Split
from recondite_papers.stacked import Stack, StackRelease
from recondite_papers.stacked.blocks import Partition
from recondite_papers.stacked.release import Releaser
from recondite_papers.tables.cells import Row

__all__ = ["VictimGradients", "attacked", "finished", "joined", "leak", "measured"]


@dataclass(frozen=True)
class VictimGradients:
    """Gradients of many victims.

    Attributes:
      gradients: Parameter name to (victims, *parameter).
      images: (victims, batch, c, h, w) originals.
      labels: (victims, batch).
    """

    gradients: dict[str, Tensor]
    images: Tensor
    labels: Tensor


def leak(
    model: nn.Module,
    data: Split,
    release: StackRelease,
    *,
    batch: int,
    batches: int,
    seed: int,
    keep_norm: bool = False,
    first: int = 0,
) -> VictimGradients:
    """Gradients of the first ``batches`` batches of the training set, each released once.

    Args:
      model: The network, with the weights the attacker knows.
      data: The records.
      release: How the gradient is bounded and noised.
      batch: Records in a batch.
      batches: How many.
      seed: Of the noise.
      keep_norm: Gives a unit release the length that the clean gradient had, as a program may do
        that turns vectors and forgets that lengths tell.
      first: Batches to skip.
    """
    stack = Stack([model], data.images.device)
    generator = torch.Generator(data.images.device).manual_seed(seed)
    flats, images, labels = [], [], []
    partition = None
    if release.kind == "directional":
        partition = Partition(
            stack, [release.value], release.blocks, release.weights, generator, pool=1 << 14
        )
    for number in range(first, first + batches):
        x = data.images[number * batch : (number + 1) * batch]
        y = data.labels[number * batch : (number + 1) * batch]
        ones = torch.ones(1, batch, device=x.device)
        taps, _ = stack.taps(x[None], y[None], ones)
        if partition is not None:
            flat = partition(stack.per_sample(taps), ones)[0] / batch
        else:
            flat = Releaser(stack, [release], batch, 1, generator)(taps, ones)[0]
        if keep_norm:
            clean = stack.weighted_sum(
                taps, torch.ones(1, batch, len(taps.inputs), device=x.device)
            )
            flat = flat * (clean[0].norm() / batch / flat.norm())
        flats.append(flat)
        images.append(x)
        labels.append(y)
    sizes = [int(torch.tensor(shape).prod()) for shape in stack.shapes]
    pieces = torch.split(torch.stack(flats), sizes, 1)
    named = zip(stack.names, pieces, stack.shapes, strict=True)
    gradients = {name: piece.reshape(-1, *shape) for name, piece, shape in named}
    return VictimGradients(gradients, torch.stack(images), torch.stack(labels))


def joined(leaks: list[VictimGradients]) -> VictimGradients:
    """Victims of several releases, one after the other."""
    names = leaks[0].gradients
    return VictimGradients(
        {name: torch.cat([one.gradients[name] for one in leaks]) for name in names},
        torch.cat([one.images for one in leaks]),
        torch.cat([one.labels for one in leaks]),
    )


def attacked(
    method: GradientAttack, model: nn.Module, seen: VictimGradients, data: Split, time_limit: float
) -> Reconstruction:
    """What an attacker who knows the labels makes of all victims at once; no torn result.

    Args:
      method: The attack.
      model: The network whose gradients these are.
      seen: The victims.
      data: Where their records come from.
      time_limit: Seconds for all.
    """
    return finished(
        method.reconstruct_many(
            model,
            nn.functional.cross_entropy,
            seen.gradients,
            shape=data.shape,
            batch_size=seen.labels.shape[1],
            labels=seen.labels,
            bounds=data.bounds,
            seed=0,
            time_limit=time_limit,
        )
    )


def finished(found: Reconstruction) -> Reconstruction:
    """What an attack found, unless a keyboard interrupt cut it off.

    An attack answers an interrupt with the best so far, which is right for whoever called it by
    hand. A job must not store that: its block would count as done. A time limit is part of the
    job, and what it cut off is kept.

    Raises:
      KeyboardInterrupt: Where one ended the attack.
    """
    if found.by_user:
        raise KeyboardInterrupt
    return found


def measured(found: Tensor, originals: Tensor, data: Split) -> Row:
    """Errors of some victims' images: matched in order and by position, in [0, 1] and as scaled.

    Args:
      found: (victims, batch, c, h, w) in the model's scale.
      originals: The same.
      data: Whose scale it is.
    """
    matched, placed, similar, similar_placed = [], [], [], []
    for images, truth in zip(found, originals, strict=True):
        pair = data.pixels(images), data.pixels(truth)
        best = score(*pair)
        matched.append(best.mse.cpu())
        similar.append(best.ssim.cpu())
        same = best if len(images) == 1 else score(*pair, matched=False)
        placed.append(same.mse.cpu())
        similar_placed.append(same.ssim.cpu())
    mse, by_place = torch.cat(matched), torch.cat(placed)
    ssim, ssim_place = torch.cat(similar), torch.cat(similar_placed)
    variance = data.std**2
    return {
        "images": len(mse),
        "mse": float(mse.mean()),
        "mse_median": float(mse.median()),
        "mse_worst": float(mse.min()),
        "mse_placed": float(by_place.mean()),
        "mse_scaled": float(mse.mean()) / variance,
        "mse_scaled_median": float(mse.median()) / variance,
        "mse_scaled_placed": float(by_place.mean()) / variance,
        "mse_scaled_sd": float(mse.std()) / variance if len(mse) > 1 else None,
        "ssim": float(ssim.mean()),
        "ssim_placed": float(ssim_place.mean()),
        "ssim_worst": float(ssim.max()),
    }
