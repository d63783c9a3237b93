"""Gradients and updates in files from strangers: read, never run."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from recondite.models.weights import read_tensors, write_tensors

__all__ = ["load_gradients", "save_gradients"]


def load_gradients(model: nn.Module, path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Gradients of a model's trainable parameters, keyed by name.

    Args:
      model: Whose names and shapes the file must have.
      path: A safetensors file; pickles are refused unread. Names of buffers are ignored.

    Returns:
      Name to (victims, *parameter). A file of one victim may leave that axis out.
    """
    found = read_tensors(path)
    wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}
    buffers = {name for name, _ in model.named_buffers()}
    unknown = [key for key in found if key not in wanted and key not in buffers]
    missing = [key for key in wanted if key not in found]
    if unknown or missing:
        what = f"lacks {missing[0]}" if missing else f"holds {unknown[0]}, which the model lacks"
        raise ValueError(f"gradients {path} {what}: were they taken from another model?")
    out = {}
    for name, parameter in wanted.items():
        value = found[name]
        alone = value.shape == parameter.shape
        if not alone and value.shape[1:] != parameter.shape:
            raise ValueError(
                f"gradients {path}: {name} must have shape {tuple(parameter.shape)}, with a first "
                f"axis of victims or without, got {tuple(value.shape)}"
            )
        out[name] = (value.unsqueeze(0) if alone else value).to(torch.float32)
    return out


def save_gradients(gradients: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Writes gradients keyed by parameter name, as :func:`load_gradients` reads them."""
    write_tensors(dict(gradients), path)
