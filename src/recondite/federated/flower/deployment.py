"""Flower's deployment engine on this machine: one SuperLink, several SuperNodes, real transport."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recondite import _validate
from recondite.federated.flower import QUIET, flower
from recondite.federated.flower.certificates import Credentials, issue, kept
from recondite.federated.flower.processes import (
    descendants,
    end,
    forward,
    free_ports,
    locked_folder,
    private_folder,
    signal_group,
)
from recondite.federated.flower.project import toml_lines

__all__ = ["Deployment", "DeploymentError", "Ended"]

# A SuperLink holds a node that died for alive until two heartbeats of 30 s are missing, and
# refuses it until then.
_RETRIES = (5.0, 10.0, 20.0, 40.0, 60.0, 60.0)
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class DeploymentError(RuntimeError):
    """A part of the federation did not start or stopped early; one line, with its log."""


class Ended(BaseException):  # like KeyboardInterrupt, it must not be caught as an error
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass
class Deployment:
    """The processes of a federation on loopback, with TLS and node authentication.

    Every process is ours and is ended by its id. Nothing listens beyond 127.0.0.1. Inside a
    ``with`` statement SIGINT, SIGTERM and SIGHUP end everything that was started. The folder and
    what is written to it can be read by their owner only, and it serves one deployment at a time.

    Attributes:
      folder: For keys, certificates, logs, Flower's own files and the app.
      nodes: SuperNodes.
      node_config: What is pinned on each node, beside its partition.
      port: First of the ports used; 0 finds free ones.
      days: How long the certificates are valid.
      keep: Whether nodes keep the keys of an earlier deployment in this folder, and so stay the
        clients that its ledgers know.
      tell: Called with one line whenever something happens.
    """

    folder: Path
    nodes: int
    node_config: Callable[[int], Mapping[str, Any]] = lambda index: {}
    port: int = 0
    days: int = 30
    keep: bool = False
    tell: Callable[[str], None] = lambda line: None
    processes: dict[str, subprocess.Popen[Any]] = field(default_factory=dict)
    _held: bool = field(default=False, init=False)
    _pending: int | None = field(default=None, init=False)
    _handlers: dict[int, Any] = field(default_factory=dict, init=False)
    _revived: dict[int, tuple[int, float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        flower()
        _validate.at_least("nodes", self.nodes, 1)
        self.folder = Path(self.folder).resolve()
        private_folder(self.folder)
        self._lock = locked_folder(self.folder)
        count = self.nodes + 1
        self.ports = [self.port + i for i in range(count)] if self.port else free_ports(count)
        keys = self.folder / "keys"
        self.credentials: Credentials = (
            kept(keys, self.nodes) if self.keep else issue(keys, self.nodes, days=self.days)
        )
        for older in self.folder.glob("superlink.db*"):
            older.chmod(0o600)
        home = self.folder / "flower"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "{self.address}"\nroot-certificates = "{self.credentials.authority}"\n'
        )

    @property
    def address(self) -> str:
        """Of the SuperLink."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def environment(self) -> dict[str, str]:
        """Of every process: quiet on the network, one thread, our own Flower home."""
        beside = Path(sys.executable).parent
        return {
            **os.environ,
            **QUIET,
            "FLWR_HOME": str(self.folder / "flower"),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self) -> None:
        """Starts the SuperLink, registers the nodes' keys, and starts the SuperNodes."""
        self.start_server()
        self.register()
        if self.keep:
            self.forget_nodes()
        for index in range(self.nodes):
            self.start_node(index)

    def start_server(self, wait: float = 60.0) -> None:
        """Starts the SuperLink and waits until it answers."""
        keys = self.credentials
        self._spawn(
            "superlink",
            "flower-superlink",
            *("--host", "127.0.0.1", "--port", str(self.ports[0])),
            *("--ssl-certfile", str(keys.certificate), "--ssl-keyfile", str(keys.key)),
            *("--ssl-ca-certfile", str(keys.authority), "--enable-supernode-auth"),
            *("--database", str(self.folder / "superlink.db")),
            "--disable-runtime-dependency-installation",
        )
        self._await_port(self.ports[0], "superlink", wait)
        self.tell(f"SuperLink at {self.address}, TLS, nodes authenticated by their keys")
        self.tell(f"certificates are valid until {keys.until:%Y-%m-%d} (--days)")

    def register(self) -> None:
        """Tells the SuperLink the public keys of the nodes: others are refused."""
        for path in self.credentials.nodes:
            public = str(path.with_suffix(".pub"))
            done = self.flwr("supernode", "register", public, "here")
            known = self.keep and "already in use" in done.stdout + done.stderr
            if done.returncode and not known:
                raise DeploymentError(f"a node's key was not accepted: {_last_line(done)}")

    def forget_nodes(self, wait: float = 90.0) -> None:
        """Waits until the SuperLink has noticed that the nodes of an earlier deployment are gone.

        Until then it sends their rounds into the void and refuses those that we start.
        """
        deadline = time.monotonic() + wait
        told = False
        while time.monotonic() < deadline and self._held_online():
            if not told:
                self.tell("waiting until the SuperLink notices that the earlier nodes are gone")
                told = True
            time.sleep(2.0)

    def _held_online(self) -> bool:
        done = self.flwr("supernode", "list", "here", "--format", "json")
        try:
            nodes = json.loads(done.stdout)["nodes"]
        except (ValueError, KeyError, TypeError):
            raise DeploymentError(f"the SuperLink lists no nodes: {_last_line(done)}") from None
        return any(node.get("status") == "online" for node in nodes)

    def start_node(self, index: int) -> None:
        """Starts one SuperNode, with what is pinned on it in a file of its own."""
        keys = self.credentials
        config = {**self.node_config(index), "partition-id": index, "num-partitions": self.nodes}
        pinned = self.folder / f"node-{index}.toml"
        pinned.write_text(toml_lines(config))
        pinned.chmod(0o600)
        self._spawn(
            f"node-{index}",
            "flower-supernode",
            *("--superlink", self.address, "--root-certificates", str(keys.authority)),
            *("--auth-supernode-private-key", str(keys.nodes[index])),
            *("--host", "127.0.0.1", "--port", str(self.ports[index + 1])),
            *("--ssl-certfile", str(keys.certificate), "--ssl-keyfile", str(keys.key)),
            *("--ssl-ca-certfile", str(keys.authority), "--node-config", str(pinned)),
        )
        self.tell(f"SuperNode {index} started")

    def flwr(self, *arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Runs one of Flower's own commands to its end."""
        return subprocess.run(
            [_program("flwr"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def run(self, app: Path) -> Iterator[str]:
        """Runs an app and yields its log, line by line; ends when the run does."""
        command = [_program("flwr"), "run", str(app), "here", "--stream"]
        with self._undisturbed():
            process = subprocess.Popen(
                command,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            self.processes["run"] = process
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=forward, args=(process.stdout, lines), daemon=True).start()
        while True:
            # Looked after every second: a run that waits for a dead process says nothing.
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=1.0)
                if line is None:
                    break
                yield line
            self.check_alive()
            self.revive()
        if process.wait():
            raise DeploymentError(f"flwr run ended with code {process.returncode}")

    def check_alive(self) -> None:
        """Refuses to go on without a server."""
        server = self.processes.get("superlink")
        if server is not None and server.poll() is not None:
            raise DeploymentError(f"superlink stopped with code {server.returncode}")

    def revive(self) -> None:
        """Starts SuperNodes again that stopped, until the SuperLink accepts them."""
        for index in range(self.nodes):
            process = self.processes.get(f"node-{index}")
            if process is None or process.poll() is None:
                continue
            tries, due = self._revived.get(index, (0, 0.0))
            if tries >= len(_RETRIES):
                continue
            if not due:
                self._revived[index] = (tries, time.monotonic() + _RETRIES[tries])
                what = f"SuperNode {index} stopped with code {process.returncode}"
                self.tell(f"{what}: starting it again in {_RETRIES[tries]:g} s")
            elif time.monotonic() >= due:
                signal_group(process, signal.SIGKILL)  # children that outlived it
                self._revived[index] = (tries + 1, 0.0)
                self.start_node(index)

    def kill(self, name: str) -> None:
        """Ends one process and its children at once, as a crash would."""
        process = self.processes.pop(name)
        below = descendants([process.pid])
        signal_group(process, signal.SIGKILL)
        process.wait()
        end(below, 0.0)

    def stop(self, grace: float = 10.0) -> None:
        """Ends everything: asks first, insists after ``grace`` seconds."""
        self._held = True  # a second signal must not leave half of them behind
        below = descendants(process.pid for process in self.processes.values())
        for process in self.processes.values():
            signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + grace
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            # Children of a SuperNode may outlive it: the whole group goes.
            signal_group(process, signal.SIGKILL)
            process.wait()
        end(below | descendants(below), deadline)
        self.processes.clear()
        self._lock.release()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    def __enter__(self) -> Deployment:
        try:
            self._listen()
            self.start()
        except BaseException:  # Ctrl-C too: what was started must not stay behind
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _listen(self) -> None:
        """Signals that end this process raise, so that what was started is stopped first."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            # One that is ignored stays so: that is what nohup is for.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        del frame
        if self._held:
            self._pending = number
            return
        raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """A signal waits until a process that is being started is known."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending is not None:
            number, self._pending = self._pending, None
            self._on_signal(number, None)

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        with self._undisturbed(), (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [_program(program), *arguments],
                env=self.environment,  # and in the caller's folder: data may be named from there
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                umask=0o077,  # Flower's database holds what clients sent
            )

    def _await_port(self, port: int, name: str, wait: float) -> None:
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            if self.processes[name].poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return
            time.sleep(0.2)
        raise DeploymentError(f"{name} did not start: see {self.folder / (name + '.log')}")


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ValueError(f"{name} is not installed: pip install 'recondite[federated]'")
    return found


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"code {done.returncode}"
