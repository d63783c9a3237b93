"""The ledger of a protected set: how often each record was used, and what that can tell of it.

With a file, every use is in it before it happens.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate as check
from recondite._files import checked, sealed
from recondite._forks import generation
from recondite._locks import Log
from recondite.channels._items import place_of
from recondite.channels.secret import NoiseDraw

if TYPE_CHECKING:
    from recondite.channels.base import Channel

__all__ = ["BudgetSpentError", "Counted", "Journal", "RecordLedger", "law_of"]

_FORMAT = "recondite-ledger 1"


class Journal:
    """Lines of JSON, appended and read back, by several processes if need be.

    Guarantee: that of :class:`recondite._locks.Log`; a line that was damaged later, or edited
    without its checksum, is refused. Lines of version 0.1.0 have no checksum and are taken as
    they are.

    Args:
      path: The file, created if missing, for its owner only: it tells which records were used.
      records: How many records the set has.
    """

    def __init__(self, path: Any, records: int) -> None:
        self._path = Path(path)
        self._lines = 0
        try:
            self._log = Log(self._path, mode=0o600)
            new = self._path.stat().st_size == 0
        except OSError as error:
            raise ValueError(f"ledger {path} cannot be written: {error.strerror}") from None
        if new:
            self.write({"format": _FORMAT, "records": records}, durable=True)
        try:
            first = self.read(1)[0]
            if first["format"] != _FORMAT:
                raise ValueError
        except (ValueError, LookupError):
            raise ValueError(f"ledger {path} is not a file written by recondite") from None
        if first["records"] != records:
            raise ValueError(
                f"ledger {path} is of {first['records']} records, these are {records}: "
                "give each set its own"
            )

    def write(self, line: dict[str, Any], *, durable: bool = False) -> None:
        """Appends a line, whole or not at all."""
        try:
            text = json.dumps(sealed(line), separators=(",", ":"))
            self._log.append(text.encode(), durable=durable)
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"ledger {self._path} cannot be written: {reason}") from None

    def read(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the complete lines since the last call, ``limit`` at most.

        Raises:
          ValueError: One of them is damaged: uses may be missing.
        """
        found = []
        for line in self._log.read(limit):
            self._lines += 1
            try:
                found.append(checked(json.loads(line)))
            except (ValueError, AttributeError):
                raise ValueError(
                    f"ledger {self._path} is damaged in line {self._lines}, and uses may be "
                    "missing: put back the file as it was written, or start a new one and add "
                    "what both tell"
                ) from None
        return found


Counts = NDArray[np.int64]

_MANY = 1 << 40  # uses that nobody reaches


class BudgetSpentError(ValueError, RuntimeError):  # 0.1.0 had one of each
    """One release more would spend more than a budget: ``total_information``, ``max_epsilon``."""


class Counted(int):
    """The index of a record whose use the ledger already holds."""

    served_before = 0  # on the first index of a batch: how many records were served before it


@dataclass(eq=False)
class _Uses:
    """The uses of one channel: distinct draws of all records, and counts for each record.

    Each run that serves records counts under a name of its own, and counts only grow: put
    together by their maximum, states and journals of any age, in any order, lose no use and
    count none twice.
    """

    capacity_nats: float
    draws: set[str] = field(default_factory=set)
    served: dict[str, Counts] = field(default_factory=dict)

    def most(self) -> int:
        """The number of uses of the record that was used most."""
        served = int(np.sum(list(self.served.values()), axis=0).max()) if self.served else 0
        return len(self.draws) + served


def law_of(channel: Channel) -> str:
    """Returns a name for a channel that survives fitting it again with other rounding.

    Uses with the same name are added up as draws of the same noise. The name rests on six digits
    of the capacity, of the growth of the information, and of the noise in two directions.
    """
    slopes = (0.7, 1.3)
    probes = [np.cos(slope * np.arange(channel.dim)) for slope in slopes]
    figures = [channel.capacity_nats, channel.information(10**6, "per_step")]
    figures += [float(np.sum(channel.noise.shape(probe[None]) ** 2)) for probe in probes]
    text = " ".join([channel.name, str(channel.dim), *(f"{figure:.6g}" for figure in figures)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class RecordLedger:
    """Counts the uses of every record, before they happen.

    Guarantee: :meth:`nats` bounds what all uses that the ledger knows of tell of any one record,
    in the sense and under the assumptions of :class:`Channel`. k uses of one channel count as
    ``information(k, "per_step")``; those of other channels are added at their capacity each,
    which bounds any combination. It is the most over all records, by the number of uses; it does
    not know that two records are near-copies. Nothing in a ledger leads to noise or a secret.

    Processes that serve the same records side by side each have a ledger: give them the same
    ``path``, or add up their states with :meth:`load_state_dict`.

    Args:
      channel: The channel.
      records: How many records the protected set has.
      total: The most nats that may be told of a record, or None.
      path: A file to which every use is written before it happens.
    """

    def __init__(
        self, channel: Channel, records: int, *, total: float | None = None, path: Any = None
    ) -> None:
        self.channel = channel
        self.records = records
        self.total = None if total is None else check.positive("total_information", total)
        self.law = law_of(channel)
        self.message: str | None = None
        self.simulation = False
        self._run = secrets.token_hex(8)
        self._laws = {self.law: _Uses(channel.capacity_nats)}
        self._served: Counts = np.zeros(records, dtype=np.int64)  # by this channel, by all runs
        self._served_before = 0
        self._allowed: int | None = None
        self._journal = None if path is None else Journal(path, records)
        self._written: set[str] = set()  # draws that the journal holds
        self._process = generation()
        self._catch_up()

    @property
    def uses(self) -> int:
        """How often the record that was used most was used, by all channels."""
        self._catch_up()
        return sum(uses.most() for uses in self._laws.values())

    @property
    def nats(self) -> float:
        """What the uses tell of one record at most, in nats."""
        self._catch_up()
        return self._nats(self._laws[self.law].most())

    def _nats(self, uses: int) -> float:
        mine = self.channel.information(uses, "once" if uses == 1 else "per_step")
        return mine + sum(
            other.most() * other.capacity_nats
            for law, other in self._laws.items()
            if law != self.law
        )

    @property
    def foreign(self) -> bool:
        """Whether it counts uses of another channel, of which it knows the capacity only."""
        self._catch_up()
        return any(law != self.law and uses.most() for law, uses in self._laws.items())

    def simulate(self) -> None:
        """Notes, for good, that noise of records counted here follows from a seed."""
        if not self.simulation and self._journal is not None:
            self._journal.write({"simulation": True}, durable=True)
        self.simulation = True

    def draw(self, *draws: NoiseDraw) -> None:
        """Counts draws of `once` noise for all records; those it knows already are free.

        Raises:
          BudgetSpentError: Where they would exceed the budget.
        """
        for draw in draws:
            self._of(draw.law, draw.capacity_nats).draws.add(draw.name)
        self._changed()
        if self.total is not None and self.nats > self.total:
            raise BudgetSpentError(
                f"total_information={self.total:g} does not allow this draw: with it {self.uses} "
                f"use(s) of a record tell up to {self.nats:.6g} nats"
            )
        for draw in draws:
            if self._journal is not None and draw.name not in self._written:
                self._journal.write(
                    {"draw": draw.name, "law": draw.law, "capacity_nats": draw.capacity_nats},
                    durable=True,
                )
                self._written.add(draw.name)

    def within_budget(self) -> bool:
        """Whether what is counted fits the budget; where not, says so once."""
        if self.total is None or self.nats <= self.total:
            return True
        self._stop()
        return False

    def serve(self, indices: Iterable[Any]) -> list[Counted] | None:
        """Counts one use for each index; None, and nothing counted, beyond the budget."""
        self._know_forks()
        batch = [place_of(index, self.records) for index in indices]
        if self.total is not None:
            self._catch_up()
        places, counts = np.unique(np.array(batch, dtype=np.int64), return_counts=True)
        after = self._served[places] + counts
        if self.total is not None and after.max(initial=0) > self._limit():
            self._stop()
            return None
        if self._journal is not None:
            law = {"law": self.law, "capacity_nats": self.channel.capacity_nats}
            self._journal.write({"served": batch, "run": self._run, **law})
        self._of_run(self._laws[self.law], self._run)[places] += counts
        self._served[places] = after
        counted = [*map(Counted, batch)]
        for first in counted[:1]:
            first.served_before = self._served_before
        self._served_before += len(batch)
        return counted

    def _know_forks(self) -> None:
        """In a forked process: refuses to serve, or counts under a name of its own."""
        if generation() == self._process:
            return
        if self._journal is None:
            raise ValueError(
                "these records are served in a forked process, whose uses their ledger would not "
                "know of: protect them there, or give protect() a ledger file that both write to"
            )
        self._process, self._run = generation(), secrets.token_hex(8)

    def _stop(self) -> None:
        if self.message is None:
            self.message = (
                f"total_information={self.total:g} is spent: {self.uses} use(s) of a record tell "
                f"up to {self.nats:.6g} nats, and another batch would exceed it"
            )
            warnings.warn(self.message, stacklevel=4)

    def _limit(self) -> int:
        """Returns how often this channel may serve a record within the budget."""
        if self._allowed is None:
            assert self.total is not None
            drawn = len(self._laws[self.law].draws)
            low, high = 0, 1
            while high < _MANY and self._nats(drawn + high) <= self.total:
                low, high = high, 2 * high
            while high - low > 1 and high < _MANY:
                middle = (low + high) // 2
                fits = self._nats(drawn + middle) <= self.total
                low, high = (middle, high) if fits else (low, middle)
            self._allowed = high if high >= _MANY else low
        return self._allowed

    def state_dict(self) -> dict[str, Any]:
        """Returns all that was counted, ready for JSON and for ``torch.save``."""
        self._catch_up()
        laws = {
            law: {
                "capacity_nats": uses.capacity_nats,
                "draws": sorted(uses.draws),
                "served": {run: counts.tolist() for run, counts in uses.served.items()},
            }
            for law, uses in self._laws.items()
        }
        label = {"simulation": self.simulation}
        return {"version": 1, "records": self.records, "laws": laws, **label}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Adds what another ledger of the same records counted; nothing is ever forgotten."""
        try:
            version, records, laws = state["version"], state["records"], state["laws"]
        except (KeyError, TypeError):
            raise ValueError("state is not one of a ledger: version, records, laws") from None
        if version != 1:
            raise ValueError(f"state is of version {version}, which this recondite does not know")
        if records != self.records:
            raise ValueError(f"state is of {records} records, these are {self.records}")
        if state.get("simulation"):
            self.simulate()
        for law, entry in laws.items():
            uses = self._of(law, entry["capacity_nats"])
            uses.draws.update(entry["draws"])
            for run, counts in entry["served"].items():
                mine = self._of_run(uses, run)
                np.maximum(mine, np.asarray(counts, dtype=np.int64), out=mine)
        self._changed()

    def _catch_up(self) -> None:
        """Reads what this and other runs wrote to the journal since."""
        lines = [] if self._journal is None else self._journal.read()
        if any("simulation" in line for line in lines):
            self.simulation = True
        others = [line for line in lines if "law" in line and line.get("run") != self._run]
        for line in others:
            uses = self._of(line["law"], line["capacity_nats"])
            if "draw" in line:
                uses.draws.add(line["draw"])
                self._written.add(line["draw"])
            else:
                np.add.at(self._of_run(uses, line["run"]), line["served"], 1)
        if others:
            self._changed()

    def _of(self, law: str, capacity: float) -> _Uses:
        uses = self._laws.setdefault(law, _Uses(capacity))
        uses.capacity_nats = max(uses.capacity_nats, capacity)
        return uses

    def _of_run(self, uses: _Uses, run: str) -> Counts:
        return uses.served.setdefault(run, np.zeros(self.records, dtype=np.int64))

    def _changed(self) -> None:
        served = list(self._laws[self.law].served.values())
        self._served = np.sum(served, axis=0) if served else self._served * 0
        self._served_before = int(self._served.sum())
        self._allowed = None
