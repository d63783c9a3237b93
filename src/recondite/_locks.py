"""Files with one writer at a time: locks, and lines that are appended whole or not at all.

Assumptions. Locks are those of ``flock``: on NFS they hold between machines where the server
supports locks, and where it does not, taking one fails. On Windows there are no such locks: a
second writer is then the user's to avoid. A disk keeps what ``fsync`` says it keeps.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

from recondite._files import sync_folder
from recondite._forks import generation

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["InUse", "Lock", "Log"]

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would change line ends


class InUse(OSError):  # noqa: N818  (it is a state, and no mistake)
    """Another process, or another object of this one, holds the lock."""


class _Held:
    """A descriptor with a lock on it, which a forked process does not keep."""

    def __init__(self) -> None:
        self._handle = -1
        self._process = generation()
        _open.add(self)

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the one that opened the file."""
        return self._process != generation()

    def _let_go(self) -> None:
        """Closes the descriptor and nothing else: the lock of the parent stays."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or sent to another process")


_open: weakref.WeakSet[_Held] = weakref.WeakSet()


def _after_fork() -> None:
    # A child that kept the descriptor would keep the lock when its parent is gone.
    for held in list(_open):
        held._let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _flock(handle: int, path: Path, *, wait: bool = False) -> None:
    """Takes the lock of an open file.

    Raises:
      InUse: It is held; never with ``wait``.
      OSError: The file system has no locks.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise InUse(error.errno, "in use", str(path)) from None


def _unlock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)


class Lock(_Held):
    """Keeps every other holder out, in this process and in others, until it is released.

    It locks a file of its own beside the one it stands for, for that one is replaced. Guarantee:
    of all that ask, one has it; it is free again when the holder releases it, is forgotten, exits
    or is killed. A process forked by Python does not hold it.

    Args:
      path: The lock file; made here, and removed on release.
      wait: Whether to wait until it is free.

    Raises:
      InUse: Somebody has it; never with ``wait``.
      OSError: There can be no lock here.
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: bool = False) -> None:
        super().__init__()
        self.path = Path(path).absolute()
        self._wait = wait
        try:
            self._take()
        except InUse:
            mine = [held for held in _open if isinstance(held, Lock) and held is not self]
            if not any(held.path == self.path and held._handle >= 0 for held in mine):
                raise
            # A holder of this process that nobody refers to any more may wait for collection.
            del mine
            gc.collect()
            self._take()

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._handle >= 0 and not self.forked

    def _take(self) -> None:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _flock(handle, self.path, wait=self._wait)
                # Another holder may have removed the file between the two lines above.
                current = os.path.samestat(os.fstat(handle), os.stat(self.path))
            except FileNotFoundError:
                current = False
            except BaseException:
                os.close(handle)
                raise
            if current:
                self._handle = handle
                return
            os.close(handle)

    def release(self) -> None:
        """Lets others have it; does nothing where this process does not hold it."""
        if not self.held:
            self._let_go()
            return
        with contextlib.suppress(OSError):
            self.path.unlink()
        with contextlib.suppress(OSError):
            _unlock(self._handle)
        self._let_go()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.release()


class Log(_Held):
    """An append-only file of lines.

    Guarantee: once :meth:`append` returns, the line outlives the process, however that ends, and
    with ``durable`` the machine. A line that a crash cut short is cut off before the next one is
    written and never read: what it announced had not happened. A write that failed leaves no line.

    Args:
      path: The file, made if missing.
      alone: Whether no other process may write as long as this one has the file open. If not,
        writers take turns line by line, forked ones too.
      mode: The rights of a new file.

    Raises:
      InUse: ``alone``, and somebody has it open.
      OSError: It cannot be opened.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, alone: bool = False, mode: int = 0o666
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self._alone = alone
        self._mode = mode
        self._read_to = 0
        self._turn = threading.Lock()
        self._closed = False
        new = not self.path.exists()
        handle = self._opened()
        if alone:
            try:
                _flock(handle, self.path)
            except OSError:
                self._let_go()
                raise
            self._repair(handle)
        if new:
            sync_folder(self.path.parent)

    def _opened(self) -> int:
        if self._closed:
            raise OSError(0, "it is closed")
        if self.forked:
            if self._alone:
                raise OSError(0, "it was opened by the process that this one was forked from")
            # A lock belongs to the open file: one shared with the parent would not exclude it.
            self._let_go()
            self._process, self._turn = generation(), threading.Lock()
        if self._handle < 0:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _BINARY
            self._handle = os.open(self.path, flags, self._mode)
        return self._handle

    def append(self, line: bytes, *, durable: bool = True) -> None:
        """Adds a line (without its newline).

        Raises:
          OSError: It could not be written, and is not in the file.
        """
        handle = self._opened()
        with self._turn:
            if not self._alone:
                _flock(handle, self.path, wait=True)
            try:
                self._write(handle, line + b"\n", durable)
            finally:
                if not self._alone:
                    _unlock(handle)

    def _write(self, handle: int, content: bytes, durable: bool) -> None:
        end = self._repair(handle)
        try:
            rest = content
            while rest:
                rest = rest[os.write(handle, rest) :]
            if durable:
                os.fsync(handle)
        except BaseException:
            with contextlib.suppress(OSError):  # else the next writer cuts it off
                os.ftruncate(handle, end)
            raise

    def read(self, limit: int | None = None) -> list[bytes]:
        """The complete lines since the last call, ``limit`` at most, without their newlines."""
        handle = self._opened()
        size = os.fstat(handle).st_size
        if size <= self._read_to:
            return []
        content = os.pread(handle, size - self._read_to, self._read_to)
        lines = content.split(b"\n")[:-1][:limit]
        self._read_to += sum(len(line) + 1 for line in lines)
        return lines

    def close(self) -> None:
        """Lets go of the file, and of the lock with it; nothing is read or written after."""
        self._closed = True
        self._let_go()

    def _repair(self, handle: int) -> int:
        """Cuts off a line that was not finished; returns where the file ends."""
        size = keep = os.fstat(handle).st_size
        step = 1  # the last byte is nearly always a newline
        while keep > 0:
            start = max(0, keep - step)
            newline = os.pread(handle, keep - start, start).rfind(b"\n")
            if newline >= 0:
                keep = start + newline + 1
                break
            keep, step = start, 65536
        if keep < size:
            os.ftruncate(handle, keep)
        return keep

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._let_go()
