"""The loss of a record, by what its label is: a class, an amount, or nothing."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

__all__ = ["usual_loss"]


def usual_loss(output: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy for classes (or their probabilities), squared error for amounts.

    A model with one output of records that have whole-number labels says each record's loss itself:
    a language model, whose targets are in the text.

    Args:
      output: (n, classes) logits; (n, 1) for amounts, and for losses.
      labels: (n,) whole numbers, (n, classes) probabilities, or (n,) amounts as floats.
      reduction: "mean", "sum" or "none".

    Example:
      >>> import torch
      >>> float(usual_loss(torch.tensor([[2.0], [4.0]]), torch.tensor([1.0, 1.0])))
      5.0
      >>> float(usual_loss(torch.tensor([[2.0], [4.0]]), torch.tensor([0, 0])))
      3.0
    """
    if labels.is_floating_point() and labels.ndim == 1:
        if output.ndim != 2 or output.shape[1] != 1:
            raise ValueError(f"amounts need one output a record, got {tuple(output.shape)}")
        return functional.mse_loss(output[:, 0], labels.to(output.dtype), reduction=reduction)
    if output.ndim == 2 and output.shape[1] == 1 and labels.ndim == 1:
        own = output[:, 0]
        return own if reduction == "none" else own.sum() if reduction == "sum" else own.mean()
    return functional.cross_entropy(output, labels, reduction=reduction)
