"""Processes, ports and folders of this machine that one deployment has for itself."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recondite._locks import InUse, Lock

__all__ = [
    "descendants",
    "end",
    "forward",
    "free_ports",
    "locked_folder",
    "private_folder",
    "signal_group",
]

_PROC = Path("/proc")


def _table() -> dict[int, tuple[int, str, str]]:
    """Parent, state and start of every process, where the system lists them as files."""
    found: dict[int, tuple[int, str, str]] = {}
    for path in _PROC.glob("[0-9]*/stat") if _PROC.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name, in brackets, may hold anything: what follows the last one is plain.
            words = path.read_text(errors="replace").rpartition(")")[2].split()
            found[int(path.parent.name)] = (int(words[1]), words[0], words[19])
    return found


def descendants(roots: Iterable[int]) -> dict[int, str]:
    """The processes below these, by id, each with its start: an id alone may be given again.

    Flower starts some in sessions of their own, which a signal to a process group does not reach.
    Empty where the system does not list processes under /proc.
    """
    table, found = _table(), dict[int, str]()
    below = set(roots)
    while below:
        below = {pid for pid, (parent, _, _) in table.items() if parent in below} - set(found)
        found |= {pid: table[pid][2] for pid in below}
    return found


def _living(found: dict[int, str]) -> list[int]:
    table = _table()
    return [
        pid
        for pid, start in found.items()
        if pid in table and table[pid][2] == start and table[pid][1] not in "ZX"
    ]


def end(found: dict[int, str], deadline: float) -> None:
    """Ends processes that :func:`descendants` found: asks, and insists after the deadline."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _living(found):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while _living(found) and time.monotonic() < deadline:
            time.sleep(0.05)
        deadline = time.monotonic() + 5.0


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Signals a process that leads a group, and the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def forward(stream: Any, lines: queue.Queue[str | None]) -> None:
    """Puts the lines of a stream into a queue, and None at its end; for a thread of its own."""
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses now."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def private_folder(folder: Path) -> Path:
    """Makes a folder that its owner only can read, also where it was there before."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def locked_folder(folder: Path) -> Lock:
    """Holds a folder for one deployment at a time; the lock ends with the process."""
    try:
        return Lock(folder / ".lock")
    except InUse:
        raise ValueError(f"{folder} is used by another deployment: choose another") from None
