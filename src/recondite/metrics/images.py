"""How close reconstructed images are to the originals: MSE, PSNR and SSIM of each image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from recondite import _validate

__all__ = ["Scores", "assignment", "match_order", "mse", "psnr", "score", "ssim"]

_SIGMA = 1.5
_WINDOW = 11  # of the SSIM paper; smaller images get the largest odd window that fits


@dataclass(frozen=True)
class Scores:
    """Scores of each image, in the originals' order.

    Attributes:
      mse: Mean squared error over an image's pixels, in the scale of ``data_range``.
      psnr: 10·log10(data_range² / mse), in decibels; infinite for an exact copy.
      ssim: Structural similarity, 1 for an exact copy.
      order: ``order[i]`` is the position of the reconstruction that was compared to original i.
      data_range: Largest minus smallest value a pixel can have.
      window: Side of the SSIM window.
    """

    mse: Tensor
    psnr: Tensor
    ssim: Tensor
    order: Tensor
    data_range: float
    window: int

    def summary(self) -> dict[str, float]:
        """Means, medians and the worst case: the image an attacker rebuilt best."""
        return {
            "images": len(self.mse),
            "mse_mean": float(self.mse.mean()),
            "mse_median": float(self.mse.median()),
            "mse_worst": float(self.mse.min()),
            "psnr_mean": float(self.psnr.mean()),
            "psnr_median": float(self.psnr.median()),
            "ssim_mean": float(self.ssim.mean()),
            "ssim_median": float(self.ssim.median()),
            "ssim_worst": float(self.ssim.max()),
            "data_range": self.data_range,
            "ssim_window": self.window,
        }


def score(
    images: Tensor, originals: Tensor, *, data_range: float = 1.0, matched: bool = True
) -> Scores:
    """Scores reconstructions against the originals.

    Args:
      images: (n, c, h, w), pixels in [0, 1] unless ``data_range`` says otherwise.
      originals: The same shape and scale.
      data_range: Largest minus smallest value a pixel can have.
      matched: Find the order first (a gradient says nothing about the order of a batch): the
        assignment of least total squared error. False where the order is known.

    Example:
      >>> import torch
      >>> images = torch.rand(4, 1, 12, 12, generator=torch.Generator().manual_seed(0))
      >>> result = score(images.flip(0), images)
      >>> result.order.tolist(), float(result.mse.max()), round(float(result.ssim.min()), 6)
      ([3, 2, 1, 0], 0.0, 1.0)
    """
    images, originals = _checked(images, originals)
    _validate.positive("data_range", data_range)
    order = match_order(images, originals) if matched else torch.arange(len(images))
    found = images[order.to(images.device)]
    errors = mse(found, originals)
    return Scores(
        mse=errors.cpu(),
        psnr=_decibels(errors, data_range).cpu(),
        ssim=ssim(found, originals, data_range=data_range).cpu(),
        order=order,
        data_range=data_range,
        window=window_for(originals),
    )


def mse(images: Tensor, originals: Tensor) -> Tensor:
    """Mean squared error of each image, (n,)."""
    images, originals = _checked(images, originals)
    return ((images - originals) ** 2).flatten(1).mean(1)


def psnr(images: Tensor, originals: Tensor, *, data_range: float = 1.0) -> Tensor:
    """Peak signal-to-noise ratio of each image in decibels, (n,)."""
    return _decibels(mse(images, originals), data_range)


def ssim(images: Tensor, originals: Tensor, *, data_range: float = 1.0) -> Tensor:
    """Structural similarity of each image, (n,), by torchmetrics.

    Gaussian window of standard deviation 1.5 and side 11 around every pixel, the image mirrored at
    its edges; a smaller image gets the largest odd side that fits, 2r + 1, with a standard
    deviation of (r + 0.25)/3.5. Constants 0.01 and 0.03 of ``data_range``.
    """
    from torchmetrics.functional.image import (
        structural_similarity_index_measure,
    )

    images, originals = _checked(images, originals)
    radius = window_for(originals) // 2
    # torchmetrics derives the window from its width: int(3.5·width + 0.5) each side.
    deviation = _SIGMA if 2 * radius + 1 == _WINDOW else (radius + 0.25) / 3.5
    # In float64: variances of flat regions are differences that float32 cannot hold.
    found = structural_similarity_index_measure(
        images.double(),
        originals.double(),
        sigma=deviation,
        data_range=float(data_range),
        reduction="none",
    )
    assert isinstance(found, Tensor)
    return found.reshape(len(images)).float()


def window_for(images: Tensor) -> int:
    """Side of the SSIM window for images of this size: 11, or the largest odd side that fits."""
    side = min(images.shape[-2:])
    return min(_WINDOW, side - 1 + side % 2)


def match_order(images: Tensor, originals: Tensor) -> Tensor:
    """Positions of the reconstructions that fit the originals best, (n,).

    The assignment of least total squared error, exact (Hungarian method).
    """
    images, originals = _checked(images, originals)
    rows, columns = (part.flatten(1).double() for part in (originals, images))
    return assignment(torch.cdist(rows, columns).square())


def assignment(cost: Tensor) -> Tensor:
    """Positions of the reconstructions, (n,), of least total cost (originals, reconstructions)."""
    # A broken reconstruction goes where it costs the others nothing.
    usable = torch.isfinite(cost)
    most = float(cost[usable].max()) if bool(usable.any()) else 0.0
    cost = torch.where(usable, cost, (len(cost) + 1) * most + 1.0)
    _, order = linear_sum_assignment(cost.cpu().numpy())
    return torch.as_tensor(order)


def _decibels(errors: Tensor, data_range: float) -> Tensor:
    return 20.0 * math.log10(data_range) - 10.0 * torch.log10(errors)


def _checked(images: Tensor, originals: Tensor) -> tuple[Tensor, Tensor]:
    if images.shape != originals.shape or images.ndim != 4 or not len(images):
        raise ValueError(
            "images and originals must have one shape (n, c, h, w), got "
            f"{tuple(images.shape)} and {tuple(originals.shape)}"
        )
    return images.detach().float(), originals.detach().float().to(images.device)
