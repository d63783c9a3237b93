"""From reconstructions to scores and a gallery, the same for every attack."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recondite.attacks.outcome import Gallery, Scores
from recondite.metrics import score
from recondite.records import ImageSet

__all__ = ["bounds_of", "labels_found", "picked", "scored"]

_SHOWN = 16  # images of a gallery
_DECIBELS = 100.0  # an exact copy, as far as eight bits can show it


def picked(test: ImageSet, count: int, seed: int) -> Tensor:
    """Positions of the held-out records to attack, the same for every defence."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(len(test), generator=generator)[:count]


def bounds_of(records: ImageSet) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of a pixel in the model's scale, one a channel."""
    channels = records.shape[0]
    mean = torch.tensor(records.mean or (0.0,) * channels)
    std = torch.tensor(records.std or (1.0,) * channels)
    return (0.0 - mean) / std, (1.0 - mean) / std


def scored(pixels: Tensor, originals: Tensor) -> tuple[Scores, Gallery]:
    """Scores of (victims, batch, c, h, w) in [0, 1], and some of them to show."""
    parts: dict[str, list[Tensor]] = {"mse": [], "psnr": [], "ssim": []}
    ordered = []
    several = originals.shape[1] > 1
    placed: dict[str, list[Tensor]] = {"mse": [], "ssim": []}
    if not several:  # nothing to match: one computation for all
        pixels, originals = pixels.transpose(0, 1), originals.transpose(0, 1)
    for mine, true in zip(pixels, originals, strict=True):
        result = score(mine, true, matched=several)
        # By position: where the order within a batch is taken for known, as some papers do.
        same = score(mine, true, matched=False) if several else result
        for name, values in placed.items():
            values.append(getattr(same, name))
        for name, values in parts.items():
            values.append(getattr(result, name))
        ordered.append(mine[result.order.to(mine.device)])
    mse, psnr, ssim = (torch.cat(parts[name]) for name in ("mse", "psnr", "ssim"))
    psnr = psnr.clamp(max=_DECIBELS)
    scores = Scores(
        mse=_rounded(mse),
        psnr=_rounded(psnr),
        ssim=_rounded(ssim),
        mse_median=float(mse.median()),
        mse_mean=float(mse.mean()),
        mse_worst=float(mse.min()),
        psnr_mean=float(psnr.mean()),
        ssim_mean=float(ssim.mean()),
        ssim_worst=float(ssim.max()),
        mse_placed_mean=float(torch.cat(placed["mse"]).mean()),
        ssim_placed_mean=float(torch.cat(placed["ssim"]).mean()),
    )
    rebuilt, true = torch.cat(ordered)[:_SHOWN], originals.flatten(0, 1)[:_SHOWN]
    return scores, Gallery(originals=_bytes(true), reconstructions=_bytes(rebuilt))


def labels_found(found: Tensor | None, labels: Tensor) -> float | None:
    """Share of labels that were found, in any order within a batch."""
    if found is None:
        return None
    right = 0
    for mine, true in zip(found.tolist(), labels.tolist(), strict=True):
        left = list(true)
        for value in mine:
            if value in left:
                left.remove(value)
                right += 1
    return right / labels.numel()


def _bytes(images: Tensor) -> NDArray[np.uint8]:
    scaled = (images.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8)
    out: NDArray[np.uint8] = scaled.permute(0, 2, 3, 1).contiguous().numpy()
    return out


def _rounded(values: Tensor) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values.tolist())
