"""What a white-box attacker sees of a record: posteriors, loss, last-layer gradient, label."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from recondite.attacks.membership.signals import LossFunction, device_of, evaluation_mode

__all__ = ["Features", "features_of", "last_layer"]

_BATCH = 64
# Members of an over-fitted model have losses and gradients many orders below the others': on a
# logarithmic scale beyond these numbers the network can see the difference.
_LOSS_SCALE, _GRADIENT_SCALE = 1e4, 1e3


@dataclass(frozen=True, eq=False)
class Features:
    """Four inputs for each record: (n, classes), (n, 1), (n, last layer), (n, classes)."""

    posteriors: Tensor
    loss: Tensor
    gradient: Tensor
    label: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four, in the order of their networks."""
        return self.posteriors, self.loss, self.gradient, self.label


def last_layer(model: nn.Module) -> tuple[str, ...]:
    """Names of the parameters of the last module that has some of its own."""
    found: tuple[str, ...] = ()
    for prefix, module in model.named_modules():
        own = [name for name, _ in module.named_parameters(recurse=False)]
        if own:
            found = tuple(f"{prefix}.{name}" if prefix else name for name in own)
    if not found:
        raise ValueError("model must have parameters: the white-box attack reads their gradient")
    return found


def features_of(
    model: nn.Module, images: Tensor, labels: Tensor, loss_fn: LossFunction | None = None
) -> Features:
    """The four inputs of Tan et al. (2024), section 6.1, with gradients of each record alone.

    Args:
      model: Images to logits, used in evaluation mode.
      images: (n, c, h, w).
      labels: (n,).
      loss_fn: By default cross-entropy.
    """
    device = device_of(model)
    names = set(last_layer(model))
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: value.detach() for name, value in state.items()}
    last = {name: value for name, value in state.items() if name in names}
    rest = {name: value for name, value in state.items() if name not in names}
    criterion = functional.cross_entropy if loss_fn is None else loss_fn

    def loss_of(chosen: dict[str, Tensor], image: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        logits = functional_call(model, {**rest, **chosen}, (image[None],))
        return criterion(logits, label[None]).mean(), logits[0]

    def one(image: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def with_loss(chosen: dict[str, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            loss, logits = loss_of(chosen, image, label)
            return loss, (loss, logits)

        slopes, (loss, logits) = grad(with_loss, has_aux=True)(last)
        flat = torch.cat([slopes[name].reshape(-1) for name in sorted(slopes)])
        return logits, loss, flat

    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    with evaluation_mode(model):
        for x, y in zip(torch.split(images, _BATCH), torch.split(labels, _BATCH), strict=True):
            parts.append(vmap(one)(x.to(device), y.to(device)))
    logits, losses, gradients = (torch.cat(part).float() for part in zip(*parts, strict=True))
    for what, values in (("losses", losses), ("gradients", gradients)):
        if not bool(torch.isfinite(values).all()):
            raise ValueError(
                f"members and nonmembers have {what} that are not finite: check the model's "
                "weights and the scale of the pixels"
            )
    return Features(
        logits.softmax(1).sort(dim=1, descending=True).values,
        torch.asinh(_LOSS_SCALE * losses)[:, None],
        torch.asinh(_GRADIENT_SCALE * gradients),
        functional.one_hot(labels.to(device), logits.shape[1]).float(),
    )
