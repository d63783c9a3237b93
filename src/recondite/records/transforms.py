"""How images are made smaller: pure functions of tensors (..., h, w).

Biswas et al., "Comparing privacy notions …" (2025), compare defences on small images, 16x16:
MNIST cropped at the centre ("crop16"), Fashion-MNIST resized ("resize16").
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from recondite._validate import at_least

__all__ = ["centre_crop", "crop16", "prepare", "resize", "resized"]

_NAMES = re.compile(r"(crop|resize)([1-9][0-9]{0,3})")


def centre_crop(images: Tensor, size: int) -> Tensor:
    """Returns the middle size x size of each image; where it cannot be even, nearer the top left.

    Example:
      >>> import torch
      >>> centre_crop(torch.arange(16.0).reshape(1, 4, 4), 2)
      tensor([[[ 5.,  6.],
               [ 9., 10.]]])
    """
    at_least("size", size, 1)
    height, width = images.shape[-2:]
    if size > height or size > width:
        raise ValueError(f"cannot crop images of {height}×{width} to {size}×{size}: resize them")
    top, left = (height - size) // 2, (width - size) // 2
    return images[..., top : top + size, left : left + size]


def crop16(images: Tensor) -> Tensor:
    """Returns the middle 16x16 of each image."""
    return centre_crop(images, 16)


def resize(images: Tensor, size: int) -> Tensor:
    """Returns each image at size x size: bilinear, with antialiasing when it shrinks."""
    at_least("size", size, 1)
    height, width = images.shape[-2:]
    if (height, width) == (size, size):
        return images
    flat = images.reshape(-1, 1, height, width)
    small = torch.nn.functional.interpolate(
        flat, size=(size, size), mode="bilinear", align_corners=False, antialias=True
    )
    return small.reshape(*images.shape[:-2], size, size)


def resized(how: str | None) -> int | None:
    """The size that a preparation brings images of any size to; None where it does not resize."""
    match = None if how is None else _NAMES.fullmatch(how)
    return int(match[2]) if match is not None and match[1] == "resize" else None


def prepare(images: Tensor, how: str) -> Tensor:
    """Returns the images cropped or resized as a name says, such as "crop16" or "resize32"."""
    match = _NAMES.fullmatch(how)
    if match is None:
        raise ValueError(f"prepare must be cropN or resizeN, such as crop16, got {how!r}")
    function = centre_crop if match[1] == "crop" else resize
    return function(images, int(match[2]))
