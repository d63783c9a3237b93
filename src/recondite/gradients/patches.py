"""The patches that a convolution multiplies by its weights, of a whole batch or a few records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["copied_patches", "patches"]

Pair = tuple[int, int]


def patches(images: Tensor, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair) -> Tensor:
    """As ``torch.nn.functional.unfold``, (n, channels·kernel, positions), in one copy.

    torch's own goes image by image: on a GPU it launches a kernel for each, which for small images
    takes longer than everything else in an iteration.

    >>> patches(torch.arange(9.0).view(1, 1, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1))[0, :, 3]
    tensor([4., 5., 7., 8.])
    """
    found: Tensor = _Patches.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
        images, kernel, dilation, padding, stride
    )
    return found


def copied_patches(
    images: Tensor,
    kernel: Pair,
    dilation: Pair,
    padding: Pair,
    stride: Pair,
    places: Sequence[int],
    most: int,
) -> Iterator[Tensor]:
    """Patches of some images after another: (images, positions, kernel·channels), channels last.

    The memory of each is that of the one before.

    Args:
      images: Of the batch.
      kernel: Its height and width.
      dilation: Between the kernel's numbers.
      padding: Zeros around the image.
      stride: Between positions.
      places: Positions down and across.
      most: Images at a time.

    >>> images = torch.arange(9.0).view(1, 1, 3, 3)
    >>> next(copied_patches(images, (2, 2), (1, 1), (0, 0), (1, 1), (2, 2), 8))[0, 3]
    tensor([4., 5., 7., 8.])
    """
    count, channels, height, width = images.shape
    most = min(most, count)
    padded = images.new_zeros(most, height + 2 * padding[0], width + 2 * padding[1], channels)
    inner = padded[:, padding[0] : padding[0] + height, padding[1] : padding[1] + width]
    one, down, across, _ = padded.stride()
    windows = padded.as_strided(
        (most, *places, *kernel, channels),
        (
            one,
            down * stride[0],
            across * stride[1],
            down * dilation[0],
            across * dilation[1],
            1,
        ),
    )
    held = images.new_empty(windows.shape)
    flat = held.view(most, places[0] * places[1], -1)
    last = images.permute(0, 2, 3, 1)
    for start in range(0, count, most):
        size = min(most, count - start)
        inner[:size].copy_(last[start : start + size])
        held[:size].copy_(windows[:size])
        yield flat[:size]


class _Patches(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, kernel: Pair, dilation: Pair, padding: Pair, stride: Pair
    ) -> Tensor:
        ctx.size = images.shape[2:]
        ctx.window = kernel, dilation, padding, stride
        if any(padding):
            images = functional.pad(images, (padding[1], padding[1], padding[0], padding[0]))
        count, channels, *sides = images.shape
        places = [
            (side - d * (k - 1) - 1) // s + 1
            for side, k, d, s in zip(sides, kernel, dilation, stride, strict=True)
        ]
        one, channel, *steps = images.stride()
        inner = [step * d for step, d in zip(steps, dilation, strict=True)]
        outer = [step * s for step, s in zip(steps, stride, strict=True)]
        windows = images.as_strided(
            (count, channels, *kernel, *places), (one, channel, *inner, *outer)
        )
        return windows.reshape(count, channels * kernel[0] * kernel[1], places[0] * places[1])

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None, None]:
        # One kernel for the batch, and differentiable again.
        return functional.fold(slopes[0], ctx.size, *ctx.window), None, None, None, None
