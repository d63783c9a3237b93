"""The patches that a convolution multiplies by its weights, of a whole batch at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["patches"]

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
