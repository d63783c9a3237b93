"""What an attacker believes of images before seeing a gradient."""

from __future__ import annotations

from torch import Tensor

__all__ = ["total_variation"]


def total_variation(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels, of (trials, batch, c, h, w): (trials,)."""
    total = images.new_zeros(len(images))
    for axis in (-1, -2):
        if images.shape[axis] > 1:
            total = total + images.diff(dim=axis).abs().flatten(1).mean(1)
    return total
