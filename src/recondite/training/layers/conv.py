"""Convolutions: norms from unfolded patches, sums by the convolution's own weight gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recondite.models.patches import patches
from recondite.training.layers.base import Grads, LayerRule, trainable
from recondite.training.tape import Entry, Tape, record, wide

__all__ = ["Conv2dRule"]

# Unfolded patches of this many elements at a time (64 MB of float32).
_CHUNK = 1 << 24


class Conv2dRule(LayerRule):
    """``nn.Conv2d`` with zero padding."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape."""
        conv: Any = layer

        def run(x: torch.Tensor) -> torch.Tensor:
            return functional.conv2d(
                x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
            )

        def pull(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return _backward(conv, grad, x, (True, False, False))[0].to(x.dtype)

        layer.forward = record(tape, layer, run, pull)

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """From the gradients where they are small; else by patches, ⟨uuᵀ, bbᵀ⟩, in chunks."""
        a, b = _single(entry)
        conv: Any = entry.layer
        total = torch.zeros(len(a), device=a.device, dtype=b.dtype)
        if trainable(conv, "weight") is not None and len(a) * conv.weight.numel() <= _CHUNK:
            entry.gradients = _gradients(conv, a, b)
            total = entry.gradients.flatten(1).square().sum(1)
        elif trainable(conv, "weight") is not None:
            rows = max(1, _CHUNK // max(1, a[0].numel() * conv.weight[0, 0].numel()))
            total = torch.cat(
                [
                    _patch_norms(conv, x, y)
                    for x, y in zip(torch.split(a, rows), torch.split(b, rows), strict=True)
                ]
            )
        if trainable(conv, "bias") is not None:
            total = total + b.flatten(2).sum(2).square().sum(1)
        return total

    def weighted_sum(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """The weight gradient of a convolution whose output gradients are weighted."""
        a, b = _single(entry)
        conv: Any = entry.layer
        weight, bias = trainable(conv, "weight"), trainable(conv, "bias")
        if weight is not None and entry.gradients is not None:
            found: Grads = {weight: torch.tensordot(weights, entry.gradients, 1).view_as(weight)}
            if bias is not None:
                found[bias] = weights @ b.flatten(2).sum(2)
            return found
        scaled = b * weights[:, None, None, None]
        mask = (False, weight is not None, bias is not None)
        _, to_weight, to_bias = _backward(conv, scaled, a, mask)
        out: Grads = {}
        if weight is not None:
            out[weight] = to_weight
        if bias is not None:
            out[bias] = to_bias
        return out

    def per_sample(self, entry: Entry) -> Grads:
        """By one grouped convolution."""
        a, b = _single(entry)
        conv: Any = entry.layer
        out: Grads = {}
        weight, bias = trainable(conv, "weight"), trainable(conv, "bias")
        if weight is not None:
            out[weight] = _gradients(conv, a, b)
        if bias is not None:
            out[bias] = b.flatten(2).sum(2)
        return out


def _single(entry: Entry) -> tuple[torch.Tensor, torch.Tensor]:
    assert entry.backprop is not None
    return wide(entry.activation), wide(entry.backprop)


def _patches(conv: Any, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Patches (n, groups, in·k, positions) and output gradients (n, groups, out, positions)."""
    padding = conv.padding
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
    """Every sample's weight gradient: the samples side by side as groups of one convolution."""
    size = len(a)
    side_by_side = a.reshape(1, -1, *a.shape[2:]), b.reshape(1, -1, *b.shape[2:])
    weight = conv.weight.detach().to(b.dtype)
    weights = weight.expand(size, *weight.shape).reshape(-1, *weight.shape[1:])
    found = _convolution_backward(
        conv, side_by_side[1], side_by_side[0], weights, size * conv.groups, (False, True, False)
    )[1]
    return found.reshape(size, *weight.shape)


def _patch_norms(conv: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    windows, grads = _patches(conv, a, b)
    positions = windows.shape[-1]
    if 2 * positions * positions <= windows.shape[2] * grads.shape[2]:
        return ((windows.mT @ windows) * (grads.mT @ grads)).sum((1, 2, 3))
    return (grads @ windows.mT).square().sum((1, 2, 3))


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
    padding = conv.padding
    if padding == "valid":
        padding = (0, 0)
    if padding == "same":
        whole = [d * (k - 1) for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
        if any(extra % 2 for extra in whole):
            raise ValueError("padding 'same' with an even kernel is not supported: pad explicitly")
        padding = tuple(extra // 2 for extra in whole)
    sizes = [conv.out_channels] if mask[2] else None
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.aten.convolution_backward(
        grad,
        x.to(grad.dtype),
        weight,
        sizes,
        conv.stride,
        padding,
        conv.dilation,
        False,
        (0, 0),
        groups,
        mask,
    )
    return result
