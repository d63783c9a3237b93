"""Gradients of many trial batches from one pass: weights are shared, so trials lie side by side.

Every layer's input and the derivative at its output give the gradient of each trial as small
products, which stay differentiable in the images. Inner products with a target and norms are
formed without writing a gradient down where that is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from recondite.gradients.patches import patches

__all__ = ["LayerTape", "Rows", "supports"]


@dataclass(frozen=True)
class Rows:
    """One layer of one pass: its weight's gradient is Σ outputᵀ·input over a trial's rows.

    Attributes:
      weight: Name of the weight, or None where only the bias trains.
      bias: Name of the bias, or None.
      inputs: (trials, rows, in); for a scaling layer (trials, rows, out), elementwise.
      outputs: (trials, rows, out): the loss's derivative at the layer's output.
      shape: Of the weight.
      elementwise: Whether the layer multiplies instead of mixing.
      batch: Records in a trial: rows of one record are next to each other.
    """

    weight: str | None
    bias: str | None
    inputs: Tensor
    outputs: Tensor
    shape: tuple[int, ...]
    elementwise: bool
    batch: int

    def gradients(self) -> dict[str, Tensor]:
        """Name to (trials, *parameter)."""
        out = {}
        if self.weight is not None:
            out[self.weight] = self._weight()
        if self.bias is not None:
            out[self.bias] = self.outputs.sum(1)
        return out

    def _weight(self) -> Tensor:
        if self.elementwise:
            flat = (self.inputs * self.outputs).sum(1)
        elif self.inputs.stride(2) == 1:
            flat = self.outputs.transpose(1, 2) @ self.inputs
        else:
            # Patches lie transposed. So does their derivative, if they are the left factor: no
            # copy on the way back.
            flat = (self.inputs.transpose(1, 2) @ self.outputs).transpose(1, 2)
        return flat.reshape(len(flat), *self.shape)

    def cheaper_unwritten(self) -> bool:
        """Whether products need less work without the gradient itself."""
        if self.elementwise or self.weight is None:
            return False
        rows, inward = self.inputs.shape[1:]
        outward = self.outputs.shape[2]
        return bool(rows * (inward + outward) < inward * outward)

    def dot(self, target: Tensor) -> Tensor:
        """Inner product with (victims, *parameter), (trials,)."""
        victims = len(target)
        matrix = target.reshape(victims, self.outputs.shape[2], self.inputs.shape[2])
        inputs = self.inputs.reshape(victims, -1, self.inputs.shape[2])
        mapped = (inputs @ matrix.transpose(1, 2)).reshape(self.outputs.shape)
        return (mapped * self.outputs).sum((1, 2))

    def squared_norm(self) -> Tensor:
        """Of the weight's gradient, (trials,), from the two Gram matrices."""
        if self.inputs.shape[1] == 1:
            return self.inputs.square().sum((1, 2)) * self.outputs.square().sum((1, 2))
        left = self.outputs @ self.outputs.transpose(1, 2)
        right = self.inputs @ self.inputs.transpose(1, 2)
        return (left * right).sum((1, 2))

    def record_norms(self) -> Tensor:
        """Squared norm of each record's share, (trials, batch)."""
        trials, rows = self.outputs.shape[:2]
        inputs, outputs = (
            part.reshape(trials * self.batch, rows // self.batch, -1)
            for part in (self.inputs, self.outputs)
        )
        alone = Rows(self.weight, self.bias, inputs, outputs, self.shape, self.elementwise, 1)
        total = torch.zeros(trials * self.batch, dtype=outputs.dtype, device=outputs.device)
        if self.weight is not None:
            if alone.cheaper_unwritten():
                total = total + alone.squared_norm()
            else:
                total = total + alone._weight().flatten(1).square().sum(1)
        if self.bias is not None:
            total = total + outputs.sum(1).square().sum(1)
        return total.reshape(trials, self.batch)

    def scaled(self, factors: Tensor) -> Rows:
        """With each record's share multiplied by a factor, (trials, batch)."""
        each = factors.repeat_interleave(self.outputs.shape[1] // self.batch, dim=1)
        outputs = self.outputs * each.unsqueeze(2)
        return Rows(
            self.weight, self.bias, self.inputs, outputs, self.shape, self.elementwise, self.batch
        )


def supports(model: nn.Module) -> bool:
    """Whether every trainable parameter belongs to a layer that the tape can read."""
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    uses = sum(p.requires_grad for _, p in model.named_parameters(remove_duplicate=False))
    covered = {
        f"{prefix}.{own}" if prefix else own
        for prefix, module in model.named_modules()
        if _readable(module)
        for own, _ in module.named_parameters(recurse=False)
    }
    mixing = any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and _mixes(m) for m in model.modules()
    )
    # A parameter under two names is tied: its gradient is the sum of two layers' parts.
    return names <= covered and uses == len(names) and not mixing


def _mixes(module: Any) -> bool:
    """Whether a batch norm's output depends on the other records of a batch."""
    return bool(module.training or module.running_mean is None)


def _readable(module: nn.Module) -> bool:
    if isinstance(module, nn.Conv2d):
        plain = module.groups == 1 and module.padding_mode == "zeros"
        return plain and not isinstance(module.padding, str)
    return isinstance(module, nn.Linear | nn.GroupNorm | nn.BatchNorm1d | nn.BatchNorm2d) or (
        isinstance(module, nn.LayerNorm) and len(module.normalized_shape) == 1
    )


class LayerTape:
    """Runs a model on trials side by side and reads every layer's part of the gradient."""

    def __init__(self, model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.model, self.loss_fn = model, loss_fn
        self.layers = {
            name: module
            for name, module in model.named_modules()
            if _readable(module) and any(p.requires_grad for p in module.parameters(False))
        }

    def rows(self, images: Tensor, labels: Tensor) -> list[Rows]:
        """Every layer of (trials, batch, c, h, w), differentiable in the images and labels."""
        trials, batch = images.shape[:2]
        seen: dict[str, tuple[Tensor, Tensor]] = {}
        with self._recording(seen):
            logits = self.model(images.flatten(0, 1))
            # The mean over all trials, times their number, is the sum of every trial's mean.
            loss = self.loss_fn(logits, labels.flatten(0, 1)) * trials
        outputs = [seen[name][1] for name in self.layers]
        slopes = torch.autograd.grad(loss, outputs, create_graph=True)
        found = []
        for (name, module), slope in zip(self.layers.items(), slopes, strict=True):
            inputs, outward, elementwise = _flat(module, seen[name][0], slope)
            found.append(
                Rows(
                    _trainable(name, module, "weight"),
                    _trainable(name, module, "bias"),
                    inputs.reshape(trials, -1, inputs.shape[-1]),
                    outward.reshape(trials, -1, outward.shape[-1]),
                    tuple(module.weight.shape),
                    elementwise,
                    batch,
                )
            )
        return found

    @contextmanager
    def _recording(self, seen: dict[str, tuple[Tensor, Tensor]]) -> Iterator[None]:
        def hook(name: str) -> Callable[..., None]:
            def record(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                if name in seen:
                    raise ValueError(f"layer {name} runs twice in one pass")
                seen[name] = (inputs[0], output)

            return record

        handles = [m.register_forward_hook(hook(n)) for n, m in self.layers.items()]
        in_place: list[Any] = [m for m in self.model.modules() if getattr(m, "inplace", False)]
        for module in in_place:
            module.inplace = False
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            for module in in_place:
                module.inplace = True


def _trainable(name: str, module: nn.Module, own: str) -> str | None:
    parameter = getattr(module, own, None)
    if parameter is None or not parameter.requires_grad:
        return None
    return f"{name}.{own}" if name else own


def _flat(module: nn.Module, inputs: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Rows of a layer: (…, in) and (…, out), records next to each other."""
    if isinstance(module, nn.Linear):
        return inputs.reshape(-1, inputs.shape[-1]), slope.reshape(-1, slope.shape[-1]), False
    if isinstance(module, nn.Conv2d):
        padding: Any = module.padding
        kernel: Any = module.kernel_size
        dilation: Any = module.dilation
        stride: Any = module.stride
        windows = patches(inputs, kernel, dilation, padding, stride)
        # Views: with one record a trial nothing is copied.
        return windows.transpose(1, 2), slope.flatten(2).transpose(1, 2), False
    normal = _normalised(module, inputs)
    if isinstance(module, nn.LayerNorm):
        return normal.reshape(-1, normal.shape[-1]), slope.reshape(-1, slope.shape[-1]), True
    channels = normal.shape[1]
    sides = (part.reshape(len(part), channels, -1).transpose(1, 2) for part in (normal, slope))
    left, right = (side.reshape(-1, channels) for side in sides)
    return left, right, True


def _normalised(module: Any, inputs: Tensor) -> Tensor:
    """A normalising layer's output before its scale and shift."""
    if isinstance(module, nn.GroupNorm):
        return functional.group_norm(inputs, module.num_groups, None, None, module.eps)
    if isinstance(module, nn.LayerNorm):
        return functional.layer_norm(inputs, module.normalized_shape, None, None, module.eps)
    return functional.batch_norm(
        inputs, module.running_mean, module.running_var, None, None, False, 0.0, module.eps
    )
