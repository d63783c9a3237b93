"""Layers with small gradients, formed: transposed convolutions, PReLU, RMS norms, Conv1D.

Each is the layer's own formula, sample by sample; norms are measured from what is summed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from recondite.gradients.layers.base import GenericRule, Grads, LayerRule, trainable
from recondite.gradients.layers.linear import LinearRule
from recondite.gradients.tape import Entry, Tape, record, wide

__all__ = [
    "Conv1DRule",
    "ConvTransposeRule",
    "PReLURule",
    "RMSNormRule",
    "is_conv1d",
    "is_rms_norm",
]


class ConvTransposeRule(GenericRule):
    """``nn.ConvTranspose1d``, ``2d`` and ``3d``: the samples as groups of one convolution."""

    def per_sample(self, entry: Entry) -> Grads:
        """Every sample's weight gradient, by one grouped transposed convolution."""
        assert entry.backprop is not None
        conv: Any = entry.layer
        a, b = wide(entry.activation), wide(entry.backprop)
        size, out = len(a), {}
        weight, bias = trainable(conv, "weight"), trainable(conv, "bias")
        if weight is not None:
            single = conv.weight.detach().to(b.dtype)
            found = torch.ops.aten.convolution_backward(
                b.reshape(1, -1, *b.shape[2:]),
                a.to(b.dtype).reshape(1, -1, *a.shape[2:]),
                single.expand(size, *single.shape).reshape(-1, *single.shape[1:]),
                None,
                conv.stride,
                conv.padding,
                conv.dilation,
                True,
                conv.output_padding,
                size * conv.groups,
                (False, True, False),
            )[1]
            out[weight] = found.reshape(size, *single.shape)
        if bias is not None:
            out[bias] = b.flatten(2).sum(2)
        return out


class PReLURule(GenericRule):
    """``nn.PReLU``: what was negative, times the output's gradient."""

    def per_sample(self, entry: Entry) -> Grads:
        """Summed over all places that share a slope."""
        assert entry.backprop is not None
        layer: Any = entry.layer
        found = wide(entry.activation).clamp(max=0.0) * wide(entry.backprop)
        if layer.num_parameters == 1:
            return {layer.weight: found.flatten(1).sum(1, keepdim=True)}
        return {layer.weight: found.reshape(len(found), layer.num_parameters, -1).sum(2)}


def is_rms_norm(layer: nn.Module) -> bool:
    """Whether it is a root-mean-square norm of Transformers: by name, and by what it does.

    Llama's, Mistral's, Qwen's and Gemma's (whose scale is 1 + weight) are. Tried on three vectors:
    one more of every weight must add the even vectors. A class of that name that does anything
    else has the slow rule.

    >>> is_rms_norm(nn.LayerNorm(3))
    False
    """
    weight: Any = getattr(layer, "weight", None)
    named = type(layer).__name__.endswith("RMSNorm") and type(layer) is not nn.RMSNorm
    if not named or dict(layer.named_parameters()).keys() != {"weight"} or weight.dim() != 1:
        return False
    if any(True for _ in layer.buffers()) or weight.device.type == "meta":
        return False
    steps = torch.linspace(-1.0, 2.0, 3 * len(weight), device=weight.device)
    tried = torch.cos(7.0 * steps).reshape(3, -1).to(weight.dtype)
    with torch.no_grad():
        try:
            one, two = (
                functional_call(layer, {"weight": weight + more}, (tried,)) for more in (0.0, 1.0)
            )
            wanted = _even(layer, tried)
        except Exception:  # whatever it is, it is no such norm
            return False
        least = 1e-2 if weight.dtype.itemsize < 4 else 1e-4
        return one.shape == tried.shape and bool(
            torch.allclose((two - one).to(wanted.dtype), wanted, rtol=least, atol=least)
        )


def _even(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """Vectors of root mean square 1, but for what keeps 0 from being divided by."""
    wide_x = wide(x)
    small: Any = getattr(layer, "variance_epsilon", None) or getattr(layer, "eps", None) or 1e-6
    out: torch.Tensor = wide_x * torch.rsqrt(wide_x.square().mean(-1, keepdim=True) + small)
    return out


class RMSNormRule(GenericRule):
    """Transformers' root-mean-square norms: the even inputs, times the output's gradient."""

    def per_sample(self, entry: Entry) -> Grads:
        """Summed over all places of a record."""
        assert entry.backprop is not None
        layer: Any = entry.layer
        found = _even(layer, entry.activation) * wide(entry.backprop)
        return {layer.weight: found.reshape(len(found), -1, found.shape[-1]).sum(1)}


def is_conv1d(layer: nn.Module) -> bool:
    """Whether it is the linear layer of GPT-2, by name and layout: weights are (in, out).

    >>> is_conv1d(nn.Linear(2, 3))
    False
    """
    weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
    return (
        type(layer).__name__ == "Conv1D"
        and isinstance(weight, torch.Tensor)
        and isinstance(bias, torch.Tensor)
        and weight.dim() == 2
        and bias.shape == (getattr(layer, "nf", None),) == weight.shape[1:]
    )


class Conv1DRule(LinearRule):
    """GPT-2's ``Conv1D``, y = xW + b: a linear layer whose weights are transposed."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape."""
        linear: Any = layer

        def run(x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = torch.nn.functional.linear(x, linear.weight.mT, linear.bias)
            return out

        def pull(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = (grad @ linear.weight.mT.to(grad.dtype)).to(x.dtype)
            return out

        layer.forward = record(tape, layer, run, pull)

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """aᵀ(w·b)."""
        return _turned(entry, super().product(entry, weights))

    def per_sample(self, entry: Entry) -> Grads:
        """Outer products."""
        return _turned(entry, super().per_sample(entry))

    def inner(self, entry: Entry, vectors: Grads) -> torch.Tensor:
        """From the gradients themselves."""
        return LayerRule.inner(self, entry, vectors)

    def cross(self, entry: Entry, some: torch.Tensor) -> torch.Tensor:
        """From the gradients themselves."""
        return LayerRule.cross(self, entry, some)

    def write_per_sample(self, entry: Entry, places: Grads) -> None:
        """From the gradients themselves."""
        LayerRule.write_per_sample(self, entry, places)


def _turned(entry: Entry, found: Grads) -> Grads:
    weight = trainable(entry.layer, "weight")
    return {p: grad.mT.contiguous() if p is weight else grad for p, grad in found.items()}
