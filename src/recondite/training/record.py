"""The record of a run: what was trained, with what, how it did, and what it cost.

Attacks, comparisons and federations write the same shape. ``schema_version`` grows when a key
changes its meaning; keys may be added without that.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from recondite._files import write_atomically
from recondite._version import __version__
from recondite.notions import json_ready

__all__ = ["RunRecord", "machine", "write_json"]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
      kind: What ran: "training".
      data: The records: name, source, counts, shape, preparation, pixel scale.
      model: The network: name, trainable parameters, initial weights.
      defence: The mechanism, its parameters, how gradients were bounded and batches drawn.
      training: Optimizer, epochs, steps, batch size, seconds.
      results: How it did. Not private: computed from the data without noise.
      privacy: The account in every notion; None where nothing protects.
      simulation: Whether the noise followed from a seed: then there is no guarantee.
      notes: What a reader should know.
      audit: A canary audit of the mechanism as the engine releases it, where one was asked for.
    """

    kind: str
    data: dict[str, Any]
    model: dict[str, Any]
    defence: dict[str, Any]
    training: dict[str, Any]
    results: dict[str, Any]
    privacy: dict[str, Any] | None
    simulation: bool = False
    notes: tuple[str, ...] = ()
    audit: dict[str, Any] | None = None
    created: str = field(
        default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds")
    )

    def to_dict(self) -> dict[str, Any]:
        """One JSON object."""
        body = {"schema_version": SCHEMA_VERSION, **asdict(self), "machine": machine()}
        out: dict[str, Any] = json_ready(body)
        return out


def machine() -> dict[str, Any]:
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


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes whole or not at all."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text + "\n")
