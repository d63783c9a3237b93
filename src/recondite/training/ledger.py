"""A count of releases that a crash can only make larger.

Steps are reserved in the file, and flushed to disk, before they are taken. Whoever resumes finds
at least as many steps as may have been released.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from recondite import _validate
from recondite._forks import generation
from recondite.training import terms as _terms

__all__ = ["Ledger"]


class Ledger:
    """Counts steps, in memory or in a file.

    Guarantee: after a crash at any point, reopening the file gives a count that is not below the
    number of steps that were taken (and at most ``block`` above it).

    Attributes:
      taken: Steps taken, or that may have been taken.
      epochs: Passes over the records that were begun.
      terms: What determines the cost of a step (:mod:`recondite.training.terms`).
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, block: int = 50) -> None:
        self.path = None if path is None else Path(path)
        self.block = _validate.at_least("block", block, 1)
        self.taken = 0
        self.reserved = 0
        self.epochs = 0
        self.terms: dict[str, Any] | None = None
        self._process = generation()
        if self.path is not None and self.path.exists():
            self.reserved, self.epochs, self.terms = self._read()
            self.taken = self.reserved

    def _read(self) -> tuple[int, int, dict[str, Any] | None]:
        assert self.path is not None
        try:
            state = json.loads(self.path.read_text())
            counts = [_validate.at_least(key, state[key], 0) for key in ("reserved", "epochs")]
            return counts[0], counts[1], state.get("terms")
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"ledger {self.path.name} is not readable: {error}") from None

    def bind(self, terms: dict[str, Any]) -> None:
        """Must be called before the first release: says what a step is.

        Raises:
          ValueError: The file has steps that were made otherwise, or does not say how.
        """
        if self.path is not None and (self.taken or self.epochs):
            _terms.check(f"ledger {self.path.name}", self.terms, terms)
        self.terms = terms

    def _refuse_forks(self) -> None:
        if self.path is not None and self._process != generation():
            raise ValueError(
                f"ledger {self.path.name} was opened by the process that this one was forked "
                "from, and would lose the steps of one of them: make an engine with a ledger of "
                "its own here"
            )

    def before_release(self) -> None:
        """Must be called before every release."""
        self._refuse_forks()
        if self.taken + 1 > self.reserved:
            self.reserved = self.taken + self.block
            self._write()
        self.taken += 1

    def before_epoch(self) -> None:
        """Must be called before every pass over the records, finished or not."""
        self._refuse_forks()
        self.epochs += 1
        self._write()

    def at_least(self, steps: int, epochs: int = 0) -> None:
        """Takes over counts from elsewhere where they are larger (a checkpoint)."""
        self._refuse_forks()
        if steps > self.taken or epochs > self.epochs:
            self.taken = max(self.taken, steps)
            self.reserved = max(self.reserved, steps)
            self.epochs = max(self.epochs, epochs)
            self._write()

    def close(self) -> None:
        """Gives back what was reserved and not taken: the run ended in good order."""
        self._refuse_forks()
        self.reserved = self.taken
        self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        draft = self.path.with_name(self.path.name + ".part")
        with draft.open("w") as file:
            counts = {"reserved": self.reserved, "epochs": self.epochs}
            json.dump({"schema_version": 3, **counts, "terms": self.terms}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.path)
