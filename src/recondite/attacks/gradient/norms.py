"""Normalising layers written out, for second derivatives through torch.func.

Under torch.func's transforms the fused backward of layer, instance and batch norms treats the
saved mean and spread as constants, so the derivative of a gradient in the images comes out
wrong (by a few per cent in torch 2.13). The same formulas in elementary operations are right.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["written_out"]


def written_out(model: nn.Module) -> nn.Module:
    """A copy of the model, with the same names, whose norms are elementary operations."""
    own = copy.deepcopy(model)
    module: Any
    for module in own.modules():
        forward = _formula(module)
        if forward is not None:
            module.forward = MethodType(forward, module)
    return own


def _formula(module: nn.Module) -> Callable[[Any, Tensor], Tensor] | None:
    """What stands for a layer's forward; None where running statistics are constants anyway."""
    if isinstance(module, nn.LayerNorm):
        return _layer_norm
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return _instance_norm if module.running_mean is None else None
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return _batch_norm if module.running_mean is None else None
    return None


def _layer_norm(self: Any, inputs: Tensor) -> Tensor:
    axes = tuple(range(-len(self.normalized_shape), 0))
    normal = _normal(inputs, axes, self.eps)
    normal = normal if self.weight is None else normal * self.weight
    return normal if self.bias is None else normal + self.bias


def _batch_norm(self: Any, inputs: Tensor) -> Tensor:
    axes = (0, *range(2, inputs.ndim))
    return _per_channel(self, _normal(inputs, axes, self.eps))


def _instance_norm(self: Any, inputs: Tensor) -> Tensor:
    return _per_channel(self, _normal(inputs, tuple(range(2, inputs.ndim)), self.eps))


def _normal(inputs: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    centred = inputs - inputs.mean(axes, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + eps)


def _per_channel(layer: Any, normal: Tensor) -> Tensor:
    if layer.weight is None:
        return normal
    shape = (-1, *[1] * (normal.ndim - 2))
    out: Tensor = normal * layer.weight.view(shape) + layer.bias.view(shape)
    return out
