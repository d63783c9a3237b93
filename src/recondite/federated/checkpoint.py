"""Where a server is in its rounds, on disk after each: a killed one goes on where it was."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recondite.federated.settings import Settings
from recondite.models import load_weights, save_weights
from recondite.studies.shapes import Row
from recondite.training.record import write_json

__all__ = ["Checkpoint"]

_NAME = "checkpoint.json"
# What may differ between the server that stopped and the one that goes on.
_FREE = ("rounds", "wait", "resume", "out", "audit-every", "audit-clients", "audit-seconds")


@dataclass
class Checkpoint:
    """The rounds that were finished, and the weights after the last of them.

    Guarantee: a server that goes on from it sends the weights of the round that was under way
    again, bit by bit and in the same federation's name. A client that had released that round
    answers with the same bytes, and counts it once.

    Attributes:
      folder: Of the server's results.
      federation: A random name, the same before and after.
      done: Rounds that were finished.
      rows: Their rows.
    """

    folder: Path
    federation: str = field(default_factory=lambda: secrets.token_hex(16))
    done: int = 0
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def resumed(cls, folder: Path, settings: Settings, model: Any) -> Checkpoint:
        """The checkpoint of a server that stopped; its weights are read into the model.

        Raises:
          ValueError: There is none, or it is of other settings.
        """
        path = folder / _NAME
        if not path.exists():
            raise ValueError(f"{folder} holds no checkpoint to resume: run without it")
        found = json.loads(path.read_text())
        if found["settings"] != _fixed(settings):
            raise ValueError(f"the checkpoint in {folder} is of other settings: run without it")
        load_weights(model, folder / found["weights"])
        return cls(folder, found["federation"], found["done"], found["rows"])

    def write(self, settings: Settings, model: Any, number: int, row: Row) -> None:
        """After a round, before the next is sent: its weights first, then what names them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.done = number
        self.rows.append(row)
        weights = f"checkpoint-{number}.safetensors"
        save_weights(model, self.folder / weights)
        state = {
            "federation": self.federation,
            "done": number,
            "weights": weights,
            "rows": self.rows,
            "settings": _fixed(settings),
        }
        write_json(self.folder / _NAME, state)
        self._clear(keep=weights)

    def finish(self) -> None:
        """Removes it: the run has its results."""
        (self.folder / _NAME).unlink(missing_ok=True)
        self._clear()

    def _clear(self, keep: str = "") -> None:
        for path in self.folder.glob("checkpoint-*.safetensors"):
            if path.name != keep:
                path.unlink(missing_ok=True)


def _fixed(settings: Settings) -> dict[str, object]:
    return {key: value for key, value in settings.to_config().items() if key not in _FREE}
