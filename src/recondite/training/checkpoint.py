"""Checkpoints of a run: written whole or not at all, and refused where they are another run's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol

import torch

from recondite._files import replaced
from recondite.configuration import TrainingConfig
from recondite.training.plan import fingerprint_of

__all__ = ["Stateful", "resume", "save", "unfinished"]


class Stateful(Protocol):
    """What a checkpoint holds the state of: a model, an optimizer, an engine, a loader."""

    def state_dict(self) -> Any:
        """The state, of tensors and plain types."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Goes on from a state."""


def unfinished(out: str | os.PathLike[str] | None) -> Path | None:
    """The folder of a run, made if missing; refused where it holds a finished one.

    To be asked before anything is drawn or counted: what a refused run spends would stay counted.
    """
    if out is None:
        return None
    folder = Path(out)
    if (folder / "record.json").exists():
        raise ValueError(f"out {folder.name} holds a finished run: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save(folder: Path, config: TrainingConfig, epochs: int, parts: Mapping[str, Stateful]) -> None:
    """Writes the state of each part after so many epochs."""
    states = {name: part.state_dict() for name, part in parts.items()}
    with replaced(folder / "checkpoint.pt") as file:
        torch.save({"plan": config.fingerprint(), "epochs": epochs, **states}, file)


def resume(folder: Path | None, config: TrainingConfig, parts: Mapping[str, Stateful]) -> int:
    """Loads the state of each part; returns the epochs that the checkpoint has behind it."""
    if folder is None:
        return 0
    path = folder / "checkpoint.pt"
    if not path.exists():
        return 0
    try:
        state = torch.load(path, weights_only=True, map_location=config.device)
        theirs = fingerprint_of(state["plan"])
    # An empty file ends in EOFError, which the command line would take for an interruption.
    except (OSError, EOFError, RuntimeError, ValueError, LookupError, UnpicklingError):
        raise ValueError(
            f"out {folder.name} holds a damaged checkpoint.pt: remove it to train from the "
            "beginning (what was released stays counted), or choose another folder"
        ) from None
    if theirs != config.fingerprint():
        raise ValueError(f"out {folder.name} holds another run's checkpoint: choose another folder")
    for name, part in parts.items():
        part.load_state_dict(state[name])
    return int(state["epochs"])
