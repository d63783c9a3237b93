"""The input of a gradient attack, checked once for all attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from recondite import _validate

__all__ = ["Victims", "refuse_unknown_mode"]


@dataclass(frozen=True, eq=False)
class Victims:
    """Gradients of one architecture, stacked over victims.

    Attributes:
      model: The network.
      loss_fn: Its loss, averaged over a batch.
      gradients: Parameter name to (victims, *parameter), in the order of the model.
      shape: Of a record: (c, h, w) of an image.
      batch_size: Records behind each gradient.
      labels: (victims, batch) class numbers, (victims, batch, classes) probabilities, or None.
      low: Smallest pixel, (c, 1, 1) or None.
      high: Largest pixel.
      classes: Number of classes.
      weights: Parameter name to (victims, *parameter), or None for the model's own.
      seed: Of the attacker's starts.
    """

    model: nn.Module
    loss_fn: Callable[[Tensor, Tensor], Tensor]
    gradients: dict[str, Tensor]
    shape: tuple[int, ...]
    batch_size: int
    labels: Tensor | None
    low: Tensor | None
    high: Tensor | None
    classes: int
    weights: dict[str, Tensor] | None
    seed: int | None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        gradients: Mapping[str, Tensor],
        *,
        shape: Sequence[int],
        batch_size: int,
        labels: Tensor | None,
        bounds: tuple[Any, Any] | None,
        classes: int | None,
        weights: Mapping[str, Tensor] | None,
        seed: int | None,
    ) -> Victims:
        """Checks and stacks; every mistake is one line."""
        sides = tuple(_validate.at_least("shape", side, 1) for side in shape)
        if not sides or (bounds is not None and len(sides) != 3):
            raise ValueError(f"shape must have 3 numbers (channels, height, width), got {shape!r}")
        batch_size = _validate.at_least("batch_size", batch_size, 1)
        ordered = _ordered(model, gradients)
        count, example = next((len(g), g) for g in ordered.values())
        if labels is not None:
            labels = labels.to(example.device)
            if labels.shape[:2] != (count, batch_size):
                raise ValueError(
                    f"labels must have one label for each of {batch_size} records of {count} "
                    f"victims, got {tuple(labels.shape)}"
                )
        found = _classes(model, sides, example) if classes is None else classes
        if labels is not None:
            labels = _labels(labels, found, example)
        low, high = _bounds(bounds, sides[0], example)
        return cls(
            model=model,
            loss_fn=loss_fn,
            gradients=ordered,
            shape=sides,
            batch_size=batch_size,
            labels=labels,
            low=low,
            high=high,
            classes=_validate.at_least("classes", found, 1),
            weights=None if weights is None else _stacked_weights(model, weights, count),
            seed=seed,
        )

    @property
    def count(self) -> int:
        """Number of victims."""
        return len(next(iter(self.gradients.values())))

    @property
    def device(self) -> torch.device:
        """Where the computation runs."""
        return next(iter(self.gradients.values())).device

    @property
    def dtype(self) -> torch.dtype:
        """In what precision."""
        return next(iter(self.gradients.values())).dtype

    def clamp(self, images: Tensor) -> Tensor:
        """Images within the bounds."""
        if self.low is None or self.high is None:
            return images
        return torch.maximum(torch.minimum(images, self.high), self.low)


def refuse_unknown_mode(model: nn.Module) -> None:
    """Refuses, in one line, a model whose pass depends on what no attacker can replay."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.training and module.track_running_stats:
                raise ValueError(
                    "model has batch norms in training mode: call model.eval() if the victim used "
                    "its running statistics, or give norm='batch' layers "
                    "track_running_stats=False if it used those of its batch"
                )
            mean = module.running_mean
            if mean is not None and not bool(torch.isfinite(mean).all()):
                raise ValueError("model has batch norms without known statistics: load them first")
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0:
            raise ValueError("model has dropout in training mode: call model.eval() first")


def _labels(labels: Tensor, classes: int, like: Tensor) -> Tensor:
    """Class numbers (victims, batch), or probabilities (victims, batch, classes)."""
    if labels.is_floating_point() and labels.ndim == 2 and classes == 1:
        return labels.to(like.dtype)  # amounts
    if labels.is_floating_point():
        if labels.shape[2:] != (classes,):
            raise ValueError(
                f"labels must be whole numbers, or {classes} probabilities a record, got "
                f"{labels.dtype} of shape {tuple(labels.shape)}"
            )
        return labels.to(like.dtype)
    if labels.ndim != 2:
        raise ValueError(f"labels must be one class number a record, got {tuple(labels.shape)}")
    least, most = (int(value) for value in torch.aminmax(labels))
    if least < 0 or most >= classes:
        raise ValueError(f"labels must lie in 0..{classes - 1}, got {least} to {most}")
    return labels.long()


def _ordered(model: nn.Module, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    wanted = {n: p for n, p in model.named_parameters() if p.requires_grad}
    unknown = [name for name in gradients if name not in wanted]
    missing = [name for name in wanted if name not in gradients]
    if unknown or missing:
        what = f"has no {missing[0]}" if missing else f"holds {unknown[0]}, which the model lacks"
        raise ValueError(f"gradients must be keyed by the model's trainable parameters: it {what}")
    parameters = next(iter(wanted.values()))
    out = {}
    counts = set()
    for name, parameter in wanted.items():
        value = torch.as_tensor(gradients[name])
        if value.shape[1:] != parameter.shape:
            raise ValueError(
                f"gradients: {name} must have shape {tuple(parameter.shape)}, got "
                f"{tuple(value.shape[1:])}"
            )
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"gradients: {name} holds NaN or infinity: nothing can be matched")
        counts.add(len(value))
        out[name] = value.detach().to(device=parameters.device, dtype=parameters.dtype)
    if len(counts) != 1 or not min(counts):
        raise ValueError("gradients must hold the same number of victims for every parameter")
    if not any(bool(value.any()) for value in out.values()):
        raise ValueError("gradients are zero everywhere: nothing can be matched")
    return out


def _stacked_weights(
    model: nn.Module, weights: Mapping[str, Tensor], count: int
) -> dict[str, Tensor]:
    out = {}
    for name, parameter in model.named_parameters():
        value = weights.get(name)
        if not parameter.requires_grad:
            if value is not None and not bool((value.to(parameter) == parameter).all()):
                raise ValueError(f"weights: {name} is frozen, so it must be the model's own")
            continue
        if value is None or value.shape != (count, *parameter.shape):
            raise ValueError(
                f"weights: {name} must have shape {(count, *parameter.shape)}, one a victim"
            )
        out[name] = value.detach().to(parameter)
    return out


@torch.no_grad()
def _classes(model: nn.Module, shape: tuple[int, ...], like: Tensor) -> int:
    was = {name: module.training for name, module in model.named_modules()}
    model.eval()
    probe = torch.zeros(2, *shape, device=like.device, dtype=next(model.parameters()).dtype)
    try:
        logits = model(probe)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"shape {shape} does not fit the model: {reason}") from error
    finally:
        for name, module in model.named_modules():
            module.training = was[name]
    if logits.ndim != 2:
        raise ValueError(f"model must give (batch, classes), got {tuple(logits.shape)}")
    return int(logits.shape[1])


def _bounds(
    bounds: tuple[Any, Any] | None, channels: int, like: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    if bounds is None:
        return None, None
    sides = []
    for value in bounds:
        side = torch.as_tensor(value, dtype=like.dtype, device=like.device).reshape(-1, 1, 1)
        if len(side) not in (1, channels):
            raise ValueError(f"bounds must be numbers, or {channels} of them, one a channel")
        sides.append(side)
    if len(sides) != 2 or not bool((sides[0] < sides[1]).all()):
        raise ValueError("bounds must be (smallest, largest) pixel, the first below the second")
    return sides[0], sides[1]
