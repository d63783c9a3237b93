"""Convolutions: from small gradients themselves, or by patches and the convolution's own sum."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recondite.gradients.layers import norms
from recondite.gradients.layers.base import CHUNK, Grads, LayerRule, quick_sizes, trainable
from recondite.gradients.layers.conv_gradients import from_patches, patches_are_quicker
from recondite.gradients.patches import patches
from recondite.gradients.tape import Entry, Tape, record, wide

__all__ = ["Conv2dRule", "by_products", "small"]

# Unfolded patches of this many elements at a time.
_CHUNK = CHUNK
# Fast algorithms for convolutions on a GPU round more often than a sum of their terms.
_FAST = 64


class Conv2dRule(LayerRule):
    """``nn.Conv2d``; padding other than zeros is put around the image, and recorded with it."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape."""
        conv: Any = layer

        def run(x: torch.Tensor) -> torch.Tensor:
            return functional.conv2d(
                x, conv.weight, conv.bias, conv.stride, _padding(conv), conv.dilation, conv.groups
            )

        def pull(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return _backward(conv, grad, x, (True, False, False))[0].to(x.dtype)

        def pad(x: torch.Tensor) -> torch.Tensor:
            sides = conv._reversed_padding_repeated_twice
            out: torch.Tensor = functional.pad(x, sides, mode=conv.padding_mode)
            return out

        around = None if conv.padding_mode == "zeros" else pad
        layer.forward = record(tape, layer, run, pull, before=around)

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """From the gradients where they are small; else by patches, in chunks."""
        a, b = _single(entry)
        conv: Any = entry.layer
        weight, bias = trainable(conv, "weight"), trainable(conv, "bias")
        if weight is None or small(conv, len(a)):
            entry.gradients = self.per_sample(entry)
            return quick_sizes(entry.gradients)
        rows = max(1, _CHUNK // max(1, a[0].numel() * conv.weight[0, 0].numel()))
        total = torch.cat(
            [
                _patch_norms(conv, x, y)
                for x, y in zip(torch.split(a, rows), torch.split(b, rows), strict=True)
            ]
        )
        return total if bias is None else total + norms.measured(b.flatten(2).sum(2))

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """The weight gradient of a convolution whose output gradients are weighted."""
        a, b = _single(entry)
        conv: Any = entry.layer
        weight, bias = trainable(conv, "weight"), trainable(conv, "bias")
        out: Grads = {}
        with norms.full_precision():
            if weight is not None:
                scaled = b * weights[:, None, None, None]
                out[weight] = _backward(conv, scaled, a, (False, True, False))[1]
            if bias is not None:
                out[bias] = weights @ b.flatten(2).sum(2)
        return out

    def per_sample(self, entry: Entry) -> Grads:
        """By one grouped convolution, or products of patches."""
        a, b = _single(entry)
        conv: Any = entry.layer
        out: Grads = {}
        weight, bias = trainable(conv, "weight"), trainable(conv, "bias")
        if weight is not None:
            out[weight] = _gradients(conv, a, b)
        if bias is not None:
            out[bias] = b.flatten(2).sum(2)
        return out


def small(conv: Any, rows: int) -> bool:
    """Whether the gradients of a batch's records are small enough to be made, norms and all."""
    return bool(rows * conv.weight.numel() <= _CHUNK)


def by_products(positions: int, inputs: int, outputs: int) -> bool:
    """Whether norms come from products of positions, not from gradients by chunks.

    Args:
      positions: Of the kernel in an image.
      inputs: Numbers that a kernel sees, of one group.
      outputs: Channels of one group.
    """
    return 2 * positions * positions <= inputs * outputs


def _single(entry: Entry) -> tuple[torch.Tensor, torch.Tensor]:
    assert entry.backprop is not None
    return wide(entry.activation), wide(entry.backprop)


def _patches(conv: Any, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Patches (n, groups, in·k, positions) and output gradients (n, groups, out, positions)."""
    padding = _padding(conv)
    if padding == "same":
        left = [d * (k - 1) // 2 for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
        whole = [d * (k - 1) for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
        a = functional.pad(a, (left[1], whole[1] - left[1], left[0], whole[0] - left[0]))
    if isinstance(padding, str):
        padding = (0, 0)
    found = patches(a, conv.kernel_size, conv.dilation, padding, conv.stride)
    size, groups = len(a), conv.groups
    return (
        found.reshape(size, groups, -1, found.shape[-1]),
        b.reshape(size, groups, b.shape[1] // groups, -1),
    )


def _gradients(conv: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Every sample's weight gradient: the samples side by side as groups of one convolution.

    Or by products of patches, where they are quicker. A GPU would run a kernel for every sample:
    there they are one product of patches.
    """
    size = len(a)
    if a.is_cuda:
        windows, grads = _patches(conv, a, b)
        return (grads @ windows.mT).reshape(size, *conv.weight.shape)
    if size and patches_are_quicker(conv, b[0, 0].numel()):
        return from_patches(conv, a.to(b.dtype), b, _sides(conv))
    side_by_side = a.reshape(1, -1, *a.shape[2:]), b.reshape(1, -1, *b.shape[2:])
    weight = conv.weight.detach().to(b.dtype)
    weights = weight.expand(size, *weight.shape).reshape(-1, *weight.shape[1:])
    found = _convolution_backward(
        conv, side_by_side[1], side_by_side[0], weights, size * conv.groups, (False, True, False)
    )[1]
    return found.reshape(size, *weight.shape)


def _padding(conv: Any) -> Any:
    """What is left to pad when the tape's image is convolved."""
    return conv.padding if conv.padding_mode == "zeros" else (0, 0)


def _sides(conv: Any) -> tuple[int, int]:
    """The zeros that are left to pad, as numbers: above and below, left and right."""
    padding = _padding(conv)
    if padding == "valid":
        return (0, 0)
    if padding == "same":
        whole = [d * (k - 1) for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
        if any(extra % 2 for extra in whole):
            raise ValueError("padding 'same' with an even kernel is not supported: pad explicitly")
        return whole[0] // 2, whole[1] // 2
    return int(padding[0]), int(padding[1])


def _patch_norms(conv: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """⟨uuᵀ, bbᵀ⟩ over patches u, or the norm of the gradient, if smaller; group by group."""
    windows, grads = _patches(conv, a, b)
    size, groups, _, positions = windows.shape
    if by_products(positions, windows.shape[2], grads.shape[2]):
        found = norms.gram(windows.flatten(0, 1).mT, grads.flatten(0, 1).mT)
        return found.view(size, groups).sum(1)
    with norms.full_precision():
        squared = norms.quick((grads @ windows.mT).flatten(1))
    sizes = [  # the last term: squares that were lost because they are too small
        torch.linalg.vector_norm(part, dim=2).double() + part.shape[2] * 2.0**-62
        for part in (windows, grads)
    ]
    terms = positions + (_FAST if a.is_cuda else 2)
    return norms.with_errors(
        squared, 1.001 * (sizes[0] * sizes[1]).sum((1, 2)), (0, 2 * terms), norms.UNIT[b.dtype]
    )


def _backward(
    conv: Any, grad: torch.Tensor, x: torch.Tensor, mask: tuple[bool, bool, bool]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _convolution_backward(conv, grad, x, conv.weight.to(grad.dtype), conv.groups, mask)


def _convolution_backward(
    conv: Any,
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    groups: int,
    mask: tuple[bool, bool, bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    sizes = [conv.out_channels] if mask[2] else None
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.aten.convolution_backward(
        grad,
        x.to(grad.dtype),
        weight,
        sizes,
        conv.stride,
        _sides(conv),
        conv.dilation,
        False,
        (0, 0),
        groups,
        mask,
    )
    return result
