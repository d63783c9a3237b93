"""The record of a run: what was trained, with what, how it did, and what it cost.

Attacks, comparisons and federations write the same shape. ``schema_version`` grows when a key
changes its meaning; keys may be added without that.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Required, TypedDict

from recondite._files import write_atomically
from recondite._version import __version__
from recondite.notions import json_ready

__all__ = ["DefencePart", "RunRecord", "machine", "write_json"]

SCHEMA_VERSION = 1


class DefencePart(TypedDict, total=False):
    """A defence as it was trained with; the last two of noise on records."""

    name: Required[str]
    parameters: Mapping[str, object]
    clipping: str
    max_grad_norm: float | None
    sampling: str
    max_batch_size: int | None
    secure: bool
    fitted_on: str
    noise_std: dict[str, float]


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
      kind: What ran: "training".
      data: The records: name, source, counts, shape, preparation, pixel scale.
      model: The network: name, trainable parameters, initial weights.
      defence: The mechanism, its parameters, how gradients were bounded and batches drawn; of an
        attack on files what was said of it.
      training: Optimizer, epochs, steps, batch size, seconds; empty where somebody else trained.
      results: How it did. Not private: computed from the data without noise.
      privacy: The account in every notion; None where nothing protects.
      simulation: Whether the noise followed from a seed: then there is no guarantee.
      notes: What a reader should know.
      audit: A canary audit of the mechanism as the engine releases it, where one was asked for.
      diverged: Whether the loss ended as no finite number, or a million times the first step's.
    """

    kind: str
    data: Mapping[str, object]
    model: Mapping[str, object]
    defence: DefencePart | Mapping[str, object]
    training: Mapping[str, object]
    results: Mapping[str, float]
    privacy: dict[str, Any] | None
    simulation: bool = False
    notes: tuple[str, ...] = ()
    audit: dict[str, Any] | None = None
    diverged: bool = False
    created: str = field(
        default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds")
    )

    def to_dict(self) -> dict[str, Any]:
        """One JSON object."""
        body = {"schema_version": SCHEMA_VERSION, **asdict(self), "machine": machine()}
        out: dict[str, Any] = json_ready(body)
        return out


def machine() -> dict[str, str | int | None]:
    """Where a run ran: versions and sizes, no names and no paths."""
    import torch

    return {
        "recondite": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Writes whole or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text + "\n")
