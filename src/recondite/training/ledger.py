"""A count of releases that a crash can only make larger.

Steps are reserved in the file, and flushed to disk, before they are taken. Whoever resumes finds
at least as many steps as may have been released.

Every engine counts under a name of its own, and its counts only grow. Counts from elsewhere, a
checkpoint's or those of a file, come with the names they were made under: put together by the
larger count of each name and then added up, they lose no release and count none twice, whichever
way a run was resumed. The channels' ledger (:mod:`recondite.channels.ledger`) does the same.
"""

from __future__ import annotations

import gc
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recondite import _validate
from recondite._files import checked, sealed, write_atomically
from recondite._forks import generation
from recondite._locks import InUse, Lock
from recondite.training import step_parameters

__all__ = ["Ledger", "LedgerError"]

SCHEMA_VERSION = 3

UNLABELLED = (
    "steps counted by recondite 0.1.0 were taken without a seed (its ledgers do not say; with one, "
    "there is no guarantee)"
)

Runs = dict[str, tuple[int, int]]


class LedgerError(RuntimeError):
    """The count cannot be kept on disk, so nothing is released: in one line, with what to do."""


class Ledger:
    """Counts steps, in memory or in a file.

    Guarantee: after a crash at any point, reopening the file gives a count that is not below the
    number of steps that were taken (and at most ``block`` above it for each time it was reopened).
    A step is counted on disk before it is taken; where that fails, it is not taken. From
    :meth:`bind` (or the first count) to :meth:`close` nobody else counts in the file, in this
    process or another; looking at a count needs no lock. A ledger that is forgotten, or whose
    process ends in any way, lets go of the file too.

    Assumptions: those of :mod:`recondite._locks` on locks and disks; where there are no locks
    (Windows) a second writer is noticed at the next write, unless both write at the same instant.
    The file's checksum finds damage and careless edits; nobody puts an older copy back on purpose.

    Args:
      path: The file; None counts in memory. Files of version 0.1.0 are read; what 0.1.0 counted
        has no name, so a checkpoint of it is added to it.
      block: Steps that are reserved at once.

    Attributes:
      terms: What determines the cost of a step (:mod:`recondite.training.step_parameters`).
      simulation: Whether noise of counted steps followed from a seed; None where 0.1.0 counted
        some and did not say.

    Raises:
      ValueError: The file is not a ledger, or not as it was written.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, block: int = 50) -> None:
        self.path = None if path is None else Path(path)
        self.block = _validate.at_least("block", block, 1)
        self.terms: step_parameters.StepParameters | None = None
        self.simulation: bool | None = False
        self._run = secrets.token_hex(8)
        self._taken = self._reserved = self._epochs = 0  # of this run
        self._others: Runs = {}
        self._process = generation()
        self._lock: Lock | None = None
        self._seen: bytes | None = None  # what the file held when it was last read or written
        self._tried: bytes | None = None  # what a write that failed may have left there
        self._failed = False  # until a write succeeds again, nothing is released
        self._look()

    @property
    def taken(self) -> int:
        """Steps taken, or that may have been taken."""
        return self._taken + sum(steps for steps, _ in self._others.values())

    @property
    def reserved(self) -> int:
        """Steps that the file counts."""
        return self._reserved + sum(steps for steps, _ in self._others.values())

    @property
    def epochs(self) -> int:
        """Passes over the records that were begun."""
        return self._epochs + sum(epochs for _, epochs in self._others.values())

    def runs(self) -> Runs:
        """Steps taken and epochs begun, by the name of the run they were counted under."""
        mine = {self._run: (self._taken, self._epochs)} if self._taken or self._epochs else {}
        return {**self._others, **mine}

    def since(self, then: Mapping[str, tuple[int, int]]) -> int:
        """Steps taken, or that may have been taken, beyond these counts by the name of the run."""
        known = self.runs().items()
        return sum(max(0, steps - then.get(name, (0, 0))[0]) for name, (steps, _) in known)

    def bind(self, terms: step_parameters.StepParameters, *, simulation: bool = False) -> None:
        """Must be called before the first release: says what a step is.

        Args:
          terms: What determines its cost.
          simulation: Whether its noise follows from a seed. Once so, the ledger stays so.

        Raises:
          ValueError: The file is in use or cannot be locked; or it has steps that were made
            otherwise, or does not say how.
        """
        self._hold()
        try:
            self._look()  # once more: nobody else changes it from here on
            if self.path is not None and (self.taken or self.epochs):
                step_parameters.check(f"ledger {self.path.name}", self.terms, terms)
        except BaseException:
            self._release()
            raise
        self.terms = terms
        self.simulation = _either(self.simulation, simulation)

    def before_release(self) -> None:
        """Must be called before every release.

        Raises:
          LedgerError: It cannot be counted on disk: it must not happen.
        """
        self._know_forks()
        if self._taken + 1 > self._reserved or self._failed:
            self._write(reserved=max(self._reserved, self._taken + self.block))
        self._taken += 1

    def before_epoch(self) -> None:
        """Must be called before every pass over the records, finished or not."""
        self._know_forks()
        self._write(epochs=self._epochs + 1)

    def take_over(self, runs: Mapping[str, tuple[int, int]], simulation: bool | None) -> None:
        """Adds counts from elsewhere; of a run that is known here, only what goes beyond.

        Args:
          runs: Steps and epochs by name, as :meth:`runs` gives them.
          simulation: Whether noise of theirs followed from a seed; None where it is not known.
        """
        self._know_forks()
        others = dict(self._others)
        for name, (steps, epochs) in runs.items():
            if name == self._run:  # a checkpoint of this very ledger: it never knows more
                continue
            known = others.get(name, (0, 0))
            others[name] = (max(known[0], steps), max(known[1], epochs))
        label = _either(self.simulation, simulation)
        if others != self._others or label != self.simulation:
            self._write(others=others, simulation=label)

    def shared(self) -> tuple[str, Runs, bool | None]:
        """What a ledger of another process that counts the same releases must know."""
        return self._run, self._others, self.simulation

    def follow(self, run: str, others: Runs, simulation: bool | None) -> None:
        """Counts, in memory, the releases that another process counts under this name.

        Both count the same releases: under two names they would be counted twice.
        """
        self._run, self._others, self.simulation = run, dict(others), simulation

    def close(self) -> None:
        """Gives back what was reserved and not taken, and the file: the run ended in good order.

        A release after this takes the file up again, if nobody changed it meanwhile.
        """
        self._know_forks()
        try:
            self._write(reserved=self._taken)
        finally:
            self._release()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        """Lets others have the file; without :meth:`close`, what was reserved stays counted."""
        if self._process == generation():
            self._release()

    def _know_forks(self) -> None:
        """In a forked process: refuses to write a file, or counts under a name of its own."""
        if self._process == generation():
            return
        if self.path is not None:
            raise ValueError(
                f"ledger {self.path.name} was opened by the process that this one was forked "
                "from, and would lose the steps of one of them: make an engine with a ledger of "
                "its own here"
            )
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Goes on under another name: one that two count under would hide the steps of one."""
        self._others = self.runs()
        self._taken = self._reserved = self._epochs = 0
        self._process, self._run = generation(), secrets.token_hex(8)

    def __setstate__(self, state: dict[str, Any]) -> None:  # of a copy
        self.__dict__.update(state)
        self._begin_anew()

    def _hold(self) -> None:
        if self.path is None or (self._lock is not None and self._lock.held):
            return
        place = self.path.with_name(self.path.name + ".lock")
        try:
            try:
                self._lock = Lock(place)
            except InUse:
                # It may be held by an engine of this process that nobody holds any more, and that
                # the collector, which breaks its cycles, has not come to yet.
                gc.collect()
                self._lock = Lock(place)
        except InUse:
            raise ValueError(
                f"ledger {self.path.name} is in use by another engine or process: wait for it to "
                "end, call close() on its ledger, or give another file"
            ) from None
        except OSError as error:
            raise ValueError(
                f"ledger {self.path.name} cannot be locked ({error.strerror}): give a file in a "
                "folder that can be written to, on a file system with locks"
            ) from None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _look(self) -> None:
        """Takes over what the file says, unless this ledger has written to it."""
        if self.path is None or self._taken or self._reserved or self._epochs:
            return
        self._seen = self._content()
        self._others = {}
        if self._seen is not None:
            self._read(self._seen)

    def _content(self) -> bytes | None:
        assert self.path is not None
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def _read(self, content: bytes) -> None:
        assert self.path is not None
        try:
            state = checked(json.loads(content))
            counts = [_validate.at_least(key, state[key], 0) for key in ("reserved", "epochs")]
            if state["schema_version"] > SCHEMA_VERSION:
                raise ValueError("a newer recondite wrote it")
            if state["schema_version"] < SCHEMA_VERSION:  # 0.1.0: one count, of nobody
                self._others = {secrets.token_hex(8): (counts[0], counts[1])}
                self.simulation = None if any(counts) else False
            else:
                self._others = named_runs(state["runs"])
                self.simulation = state["simulation"]
            self.terms = state.get("terms")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"ledger {self.path.name} is not readable ({error}): put back the file as it was "
                "written, or start a new one and add the costs of the two runs"
            ) from None

    def _write(
        self,
        *,
        reserved: int | None = None,
        epochs: int | None = None,
        others: Runs | None = None,
        simulation: bool | None = False,
    ) -> None:
        """Writes new counts, and only then makes them this ledger's.

        Raises:
          LedgerError: They are not on disk; this ledger's counts are as they were.
        """
        reserved = self._reserved if reserved is None else reserved
        epochs = self._epochs if epochs is None else epochs
        others = self._others if others is None else others
        label = _either(self.simulation, simulation)
        if self.path is not None:
            self._replace(self._body(reserved, epochs, others, label))
        self._reserved, self._epochs, self._others = reserved, epochs, others
        self.simulation = label

    def _body(self, reserved: int, epochs: int, others: Runs, label: bool | None) -> bytes:
        runs = {**others, **({self._run: (reserved, epochs)} if reserved or epochs else {})}
        body = {
            "schema_version": SCHEMA_VERSION,
            "reserved": sum(steps for steps, _ in runs.values()),
            "epochs": sum(begun for _, begun in runs.values()),
            "runs": {name: list(count) for name, count in runs.items()},
            "simulation": label,
            "terms": self.terms,
        }
        return json.dumps(sealed(body)).encode()

    def _replace(self, content: bytes) -> None:
        assert self.path is not None
        self._hold()
        self._failed = True
        try:
            found = self._content()
            if found != self._seen and (self._tried is None or found != self._tried):
                raise LedgerError(
                    f"ledger {self.path.name} is not as this engine left it: no step is taken; end "
                    "what else writes to it, and make the engine again with the file as it is now"
                )
            self._seen, self._tried = found, content
            write_atomically(self.path, content)
        except OSError as error:
            raise LedgerError(
                f"ledger {self.path.name} cannot be written ({error.strerror or error}): no step "
                "is taken until it can; make room, and go on or run the same command again"
            ) from error
        self._seen, self._tried, self._failed = content, None, False


def runs_of(state: Mapping[str, Any]) -> Runs:
    """The counts of a checkpoint by run; those of version 0.1.0 under a name of their own."""
    steps, epochs = (_validate.at_least(key, state[key], 0) for key in ("steps", "epochs"))
    runs = named_runs(state.get("runs", {secrets.token_hex(8): (steps, epochs)}))
    if steps > sum(count for count, _ in runs.values()):
        raise ValueError("checkpoint has steps of no run: load it as it was written")
    return runs


def named_runs(found: Any) -> Runs:
    """Counts by run as a file or a checkpoint has them, checked.

    Raises:
      ValueError: They are not counts.
    """
    try:
        runs = {str(name): tuple(count) for name, count in found.items()}
        return {
            name: (_validate.at_least("steps", steps, 0), _validate.at_least("epochs", epochs, 0))
            for name, (steps, epochs) in runs.items()
        }
    except (TypeError, AttributeError):
        raise ValueError("its counts by run are not readable") from None


def _either(one: bool | None, other: bool | None) -> bool | None:
    """True where one is; None where one is not known."""
    if one or other:
        return True
    return None if one is None or other is None else False
