"""A stack of networks of one architecture, and the gradient of every sample of every run.

Networks that are chains of linear layers, convolutions, activations and pooling: the small ones of
the papers. The weights of R runs have a first axis R; a batch has axes (R, B). What
training needs of a layer is its input a and the gradient δ of its output: a sample's gradient is
Σ_l δ_l a_lᵀ over the places l of a convolution (one place for a linear layer), its norm in a linear
layer is ‖δ‖·sqrt(‖a‖² + 1), and a weighted sum over samples is one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

__all__ = ["Layer", "Stack", "Taps"]

_ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.Sigmoid: "sigmoid", nn.ReLU: "relu", nn.Tanh: "tanh",
}  # fmt: skip
_POOLING: dict[str, Any] = {"max-pool": F.max_pool2d, "average-pool": F.avg_pool2d}


@dataclass(frozen=True)
class Layer:
    """A layer with weights, or a function between two.

    Attributes:
      kind: "linear", "conv", "max-pool", "average-pool", "flatten", or an activation's name.
      place: Position of its weights in the stack.
      kernel: Side of a convolution's kernel or of a pool's window.
      stride: Of a convolution.
      padding: Of a convolution.
    """

    kind: str
    place: int = -1
    kernel: int = 1
    stride: int = 1
    padding: int = 0


@dataclass
class Taps:
    """Inputs (R, B, L, K) and output gradients (R, B, L, O) of the layers with weights."""

    inputs: list[Tensor]
    deltas: list[Tensor]

    def samples(self, start: int, stop: int) -> Taps:
        """Those of some of the samples."""
        return Taps(
            [a[:, start:stop] for a in self.inputs], [d[:, start:stop] for d in self.deltas]
        )


class Stack:
    """R networks with weights of their own.

    Attributes:
      layers: What is applied, in order.
      weights: (R, O, K) of each layer with weights.
      biases: (R, O) of each, or None.
      shapes: Shapes of one network's parameters, in the order in which they are joined.
    """

    def __init__(self, models: Sequence[nn.Module], device: str | torch.device = "cpu") -> None:
        first = list(models[0].children())
        self.layers: list[Layer] = []
        self.weights: list[Tensor] = []
        self.biases: list[Tensor | None] = []
        self.shapes: list[tuple[int, ...]] = []
        self.names: list[str] = []
        for index, module in enumerate(first):
            same = [list(model.children())[index] for model in models]
            self.layers.append(self._layer(module, same, device))
        for name, parameter in models[0].named_parameters():
            self.shapes.append(tuple(parameter.shape))
            self.names.append(name)

    def _layer(self, module: nn.Module, same: Sequence[Any], device: Any) -> Layer:
        if isinstance(module, nn.Linear | nn.Conv2d):
            self.weights.append(
                torch.stack([m.weight.detach().flatten(1) for m in same]).to(device)
            )
            bias = None
            if module.bias is not None:
                bias = torch.stack([m.bias.detach() for m in same]).to(device)
            self.biases.append(bias)
            place = len(self.weights) - 1
            if isinstance(module, nn.Linear):
                return Layer("linear", place)
            padding = module.padding[0] if isinstance(module.padding, tuple) else 0
            return Layer("conv", place, module.kernel_size[0], module.stride[0], int(padding))
        if isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
            size = module.kernel_size
            kind = "max-pool" if isinstance(module, nn.MaxPool2d) else "average-pool"
            return Layer(kind, kernel=size if isinstance(size, int) else size[0])
        if isinstance(module, nn.Flatten):
            return Layer("flatten")
        names = [name for kind, name in _ACTIVATIONS.items() if type(module) is kind]
        if not names:
            raise ValueError(f"a stack cannot hold {type(module).__name__}: train it by itself")
        return Layer(names[0])

    @property
    def runs(self) -> int:
        """R."""
        return len(self.weights[0])

    @property
    def dim(self) -> int:
        """Parameters of one network."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.weights[0].device

    def parameters(self) -> list[Tensor]:
        """(R, *parameter) of each parameter, in order."""
        out: list[Tensor] = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            out.append(weight)
            if bias is not None:
                out.append(bias)
        return out

    def state(self, run: int) -> dict[str, Tensor]:
        """The weights of one run by the names of its model."""
        values = (p[run] for p in self.parameters())
        shaped = zip(self.names, values, self.shapes, strict=True)
        return {name: value.reshape(shape).cpu() for name, value, shape in shaped}

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Logits (R, B, classes), and inputs and outputs of the layers with weights."""
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        x = images
        for layer in self.layers:
            if layer.kind == "linear":
                x = x.flatten(2)
                z = self._affine(x, layer)
                inputs.append(x.detach().unsqueeze(2))
                outputs.append(z)
                x = z
            elif layer.kind == "conv":
                runs, batch = x.shape[:2]
                patches, height, width = _patches(x.flatten(0, 1), layer)
                patches = patches.view(runs, batch * height * width, -1)
                z = self._affine(patches, layer)
                inputs.append(patches.detach().view(runs, batch, height * width, -1))
                outputs.append(z)
                maps = z.view(runs * batch, height, width, -1).permute(0, 3, 1, 2)
                x = maps.reshape(runs, batch, *maps.shape[1:])
            elif layer.kind in _POOLING:
                pooled = _POOLING[layer.kind](x.flatten(0, 1), layer.kernel)
                x = pooled.reshape(*x.shape[:2], *pooled.shape[1:])
            elif layer.kind == "flatten":
                x = x.flatten(2)
            else:
                x = getattr(torch, layer.kind)(x)
        return x, inputs, outputs

    def _affine(self, x: Tensor, layer: Layer) -> Tensor:
        weight, bias = self.weights[layer.place], self.biases[layer.place]
        product = torch.bmm(x, weight.transpose(1, 2))
        z = product if bias is None else product + bias.unsqueeze(1)
        return z if z.requires_grad else z.requires_grad_()

    def taps(self, images: Tensor, labels: Tensor, mask: Tensor) -> tuple[Taps, Tensor]:
        """Inputs and output gradients of summed cross-entropy, and the loss of each sample.

        Args:
          images: (R, B, c, h, w).
          labels: (R, B).
          mask: (R, B), 1 for samples that take part.
        """
        with torch.enable_grad():
            logits, inputs, outputs = self.forward(images)
            losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            total = (losses * mask.flatten()).sum()
            found = torch.autograd.grad(total, outputs)
        deltas = [delta.reshape(*a.shape[:3], -1) for a, delta in zip(inputs, found, strict=True)]
        return Taps(inputs, deltas), losses.detach().view_as(mask)

    @torch.no_grad()
    def accuracy(self, images: Tensor, labels: Tensor, batch: int = 1000) -> Tensor:
        """Share of the records that each run gets right."""
        return self.topk(images, labels, 1, batch)

    @torch.no_grad()
    def topk(self, images: Tensor, labels: Tensor, k: int, batch: int = 1000) -> Tensor:
        """Share of the records whose label is among a run's k likeliest."""
        right = torch.zeros(self.runs, device=self.device)
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            logits = self.forward(part.unsqueeze(0).expand(self.runs, *part.shape))[0]
            best = logits.topk(k, dim=-1).indices
            hit = best == labels[start : start + batch].view(1, -1, 1)
            right += hit.any(-1).sum(-1)
        return right / len(images)

    def squared_norms(self, taps: Taps) -> Tensor:
        """(R, B, layers): squared norm of each sample's gradient in each layer."""
        out = []
        for place, (a, delta) in enumerate(zip(taps.inputs, taps.deltas, strict=True)):
            biased = self.biases[place] is not None
            if a.shape[2] == 1:
                squared = delta.square().sum((2, 3)) * (a.square().sum((2, 3)) + float(biased))
            else:
                squared = (delta.transpose(2, 3) @ a).square().sum((2, 3))
                if biased:
                    squared = squared + delta.sum(2).square().sum(-1)
            out.append(squared)
        return torch.stack(out, -1)

    def weighted_sum(self, taps: Taps, factors: Tensor) -> Tensor:
        """(R, dim): Σ factor·gradient over the samples; factors are (R, B, layers)."""
        parts = []
        for place, (a, delta) in enumerate(zip(taps.inputs, taps.deltas, strict=True)):
            scaled = delta * factors[:, :, place, None, None]
            if a.shape[2] == 1:
                product = torch.bmm(scaled.flatten(1, 2).transpose(1, 2), a.flatten(1, 2))
            else:
                # One product over samples and places at once is long and thin: cuBLAS takes thirty
                # times as long for it as for a product a sample.
                product = (scaled.transpose(2, 3) @ a).sum(1)
            parts.append(product.flatten(1))
            if self.biases[place] is not None:
                parts.append(scaled.sum((1, 2)))
        return torch.cat(parts, 1)

    def entries(self, taps: Taps, run: int, samples: Tensor, coordinates: Tensor) -> Tensor:
        """Single entries of single samples' gradients in one run, without forming the others.

        Args:
          taps: Of the samples.
          run: Whose.
          samples: Numbers of the samples.
          coordinates: As many numbers of weights, in the order in which parameters are joined.
        """
        out = torch.zeros(len(samples), device=self.device)
        begin = 0
        for place, (a, delta) in enumerate(zip(taps.inputs, taps.deltas, strict=True)):
            width, height = a.shape[3], delta.shape[3]
            at = (coordinates >= begin) & (coordinates < begin + height * width)
            sample, inside = samples[at], coordinates[at] - begin
            row = torch.div(inside, width, rounding_mode="floor")
            out[at] = (delta[run, sample, :, row] * a[run, sample, :, inside % width]).sum(-1)
            begin += height * width
            if self.biases[place] is not None:
                at = (coordinates >= begin) & (coordinates < begin + height)
                out[at] = delta[run, samples[at], :, coordinates[at] - begin].sum(-1)
                begin += height
        return out

    def per_sample(self, taps: Taps) -> list[Tensor]:
        """(R, B, O, K) and (R, B, O): every sample's gradient of every parameter, in order."""
        out = []
        for place, (a, delta) in enumerate(zip(taps.inputs, taps.deltas, strict=True)):
            out.append(delta.transpose(2, 3) @ a)
            if self.biases[place] is not None:
                out.append(delta.sum(2))
        return out


def _patches(x: Tensor, layer: Layer) -> tuple[Tensor, int, int]:
    """(N, H, W, c·k·k) windows of (N, c, h, w), by strided views and one copy."""
    if layer.padding:
        x = F.pad(x, (layer.padding,) * 4)
    windows = x.unfold(2, layer.kernel, layer.stride).unfold(3, layer.kernel, layer.stride)
    height, width = windows.shape[2:4]
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3), int(height), int(width)
