"""Labels from a gradient: cross-entropy pulls the true class's output row the other way."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.base import torch_generator
from recondite.attacks.gradient.victims import Victims, refuse_unknown_mode

__all__ = ["infer_labels"]


@torch.no_grad()
def infer_labels(victims: Victims) -> Tensor:
    """The labels of each batch, sorted, (victims, batch).

    The derivative at output c is the mean over the batch of (probability of c minus the share of
    records of class c). With one record the only negative one is its label (iDLG, Zhao et al.
    2020), exactly: the bias shows it, and without a bias the weight's gradient of rank one does,
    up to a sign that three classes or more settle. With more records, each class's count is
    estimated from the probabilities the model gives to random images and taken greedily (after
    LLG, Wainakh et al. 2022): an estimate, which supposes a gradient that was not rescaled.
    """
    refuse_unknown_mode(victims.model)
    name, layer = _last_linear(victims.model)
    batch = victims.batch_size
    signal, unit = _signal(victims, name, layer)
    if batch == 1:
        weight = victims.gradients.get(f"{name}.weight" if name else "weight")
        if signal.shape[1] > 2 and weight is not None and layer.bias is None:
            signal = _one_negative(weight)
        return signal.argmin(1, keepdim=True)
    expected = _average_probability(victims)
    if victims.weights is not None:
        expected = torch.full_like(expected, 1.0 / victims.classes)
    # Records of each class: batch · (mean probability - derivative).
    counts = batch * (expected - signal / unit)
    labels = []
    for row in counts:
        left = row.clone()
        chosen = []
        for _ in range(batch):
            best = int(left.argmax())
            chosen.append(best)
            left[best] -= 1.0
        labels.append(sorted(chosen))
    return torch.tensor(labels, device=victims.device)


def _last_linear(model: nn.Module) -> tuple[str, nn.Linear]:
    found = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    if not found:
        raise ValueError("labels cannot be inferred without a last linear layer: give labels")
    return found[-1]


def _signal(victims: Victims, name: str, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """Something proportional to the derivative at every output, and the factor."""
    prefix = f"{name}." if name else ""
    if f"{prefix}bias" in victims.gradients:
        return victims.gradients[f"{prefix}bias"], torch.ones(
            victims.count, 1, device=victims.device
        )
    if f"{prefix}weight" not in victims.gradients:
        raise ValueError("labels cannot be inferred: the last linear layer does not train")
    rows = victims.gradients[f"{prefix}weight"].sum(2)
    unit = _mean_input_sum(victims, layer)
    return rows, unit.expand(victims.count, 1)


def _one_negative(weight: Tensor) -> Tensor:
    """Derivatives at the outputs up to a factor, from (victims, classes, in) of rank one.

    Exactly one of them is negative, which fixes the sign whatever the inputs' signs are.
    """
    column = torch.linalg.svd(weight.double(), full_matrices=False).U[:, :, 0]
    sides = torch.stack([column, -column])
    # What is negative beside the smallest should not be.
    wrong = (-sides).clamp_min(0.0).sum(2) - (-sides.amin(2)).clamp_min(0.0)
    return torch.where((wrong[0] <= wrong[1]).unsqueeze(1), sides[0], sides[1])


def _probe(victims: Victims) -> Tensor:
    generator = torch_generator(0, victims.device)
    noise = torch.randn(
        64, *victims.shape, generator=generator, device=victims.device, dtype=victims.dtype
    )
    return victims.clamp(noise)


def _average_probability(victims: Victims) -> Tensor:
    logits = victims.model(_probe(victims))
    return torch.softmax(logits, 1).mean(0).expand(victims.count, -1)


def _mean_input_sum(victims: Victims, layer: nn.Linear) -> Tensor:
    seen: list[Tensor] = []
    handle = layer.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    try:
        victims.model(_probe(victims))
    finally:
        handle.remove()
    total = seen[0].flatten(1).sum(1).mean()
    return torch.where(total.abs() < 1e-9, torch.ones_like(total), total).reshape(1, 1)
