"""Weights: how many, their first values, and safetensors files, which can run nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from recondite._files import write_atomically
from recondite._validate import at_least
from recondite.records.arrays import needed

__all__ = [
    "count_parameters",
    "load_weights",
    "read_tensors",
    "save_weights",
    "seeded",
    "write_tensors",
]


def count_parameters(model: nn.Module, trainable_only: bool = True) -> int:
    """Tells how many numbers the model learns: the dimension of its gradient.

    Args:
      model: Any module. A parameter that several layers share counts once.
      trainable_only: Leaves out frozen parameters, which have no gradient.
    """
    parameters = model.parameters()
    return sum(p.numel() for p in parameters if p.requires_grad or not trainable_only)


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draws what is drawn inside from a seed, on the CPU, and puts the generator back.

    With a seed, the weights are the same on every machine and device, and torch's generators are
    after it what they were before. Without one, this does nothing.
    """
    if seed is None:
        yield
        return
    number = at_least("seed", seed, 0)
    if number >= 2**63:
        raise ValueError(f"seed must lie below 2^63, got {seed!r}")
    # torch.manual_seed would also set the generators of every accelerator.
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(number)
    try:
        with torch.device("cpu"):
            yield
    finally:
        generator.set_state(state)


def save_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes the model's parameters and buffers, keyed by their names, in one step.

    A file that was there is replaced only when the new one is complete.
    """
    write_tensors(model.state_dict(), path)


def write_tensors(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Writes tensors by name, whole or not at all."""
    library = needed("safetensors.torch", "safetensors")
    target = Path(path)
    # Copies: the format has no tensors that share memory, as tied weights do.
    copies = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    content: bytes = library.save(copies, metadata={"format": "pt"})
    try:
        write_atomically(target, content)
    except OSError as error:
        raise ValueError(f"cannot write {target}: {error.strerror or error}") from error


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> nn.Module:
    """Reads parameters and buffers into the model, all of them or none.

    Args:
      model: A model with exactly the file's names and shapes.
      path: A safetensors file. Other formats, pickles above all, are refused unread.

    Returns:
      The model itself.
    """
    source = Path(path)
    found = read_tensors(source)
    own: dict[str, Tensor] = model.state_dict()
    missing = [key for key in own if key not in found]
    surplus = [key for key in found if key not in own]
    if missing:
        raise ValueError(f"{source} lacks {_some(missing)}: it was saved from another model")
    if surplus:
        raise ValueError(
            f"{source} has {_some(surplus)}, which the model lacks: it was saved from another model"
        )
    for key, value in found.items():
        if value.shape != own[key].shape:
            raise ValueError(
                f"{source}: {key} has shape {tuple(value.shape)}, the model needs "
                f"{tuple(own[key].shape)}"
            )
        if value.is_floating_point() != own[key].is_floating_point():
            raise ValueError(f"{source}: {key} is {value.dtype}, the model needs {own[key].dtype}")
    model.load_state_dict(found)
    return model


def _some(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"


def read_tensors(source: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Tensors by name from a safetensors file; other formats, pickles above all, are refused."""
    path = Path(source)
    library = needed("safetensors.torch", "safetensors")
    error_type: type[Exception] = needed("safetensors", "safetensors").SafetensorError
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise ValueError(f"cannot read weights from {path}: {error.strerror or error}") from error
    # A safetensors file begins with the length of its header, whose first byte may be a pickle's;
    # eight bytes on, the header begins with a brace. Nothing here unpickles, whatever it is.
    if start[:2] == b"PK" or (start[:1] == b"\x80" and start[8:] != b"{"):
        raise ValueError(
            f"{path} is a pickle (torch.save), which could run anything: save the weights with "
            "recondite.models.save_weights or safetensors instead"
        )
    try:
        content: dict[str, Tensor] = library.load_file(path, device="cpu")
    except (error_type, OSError, ValueError, KeyError, RuntimeError) as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    if any(not isinstance(value, torch.Tensor) for value in content.values()):
        raise ValueError(f"{path} is not a safetensors file of tensors")
    return content
