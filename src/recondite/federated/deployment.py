"""Flower's deployment engine on this machine: one SuperLink, several SuperNodes, real transport."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recondite import _validate
from recondite.federated.certificates import Credentials, issue
from recondite.federated.flower import QUIET, flower
from recondite.federated.settings import Settings

__all__ = ["Deployment", "DeploymentError", "write_app"]

_APP = '''"""The ready app of recondite, as Flower loads it."""

from recondite.federated.app import client_app, server_app

__all__ = ["client_app", "server_app"]
'''
_PROJECT = """[project]
name = "recondite-federation"
version = "1.0.0"
description = "Federated training with a defence on the client and an auditor on the server"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "recondite"

[tool.flwr.app.components]
serverapp = "federation.apps:server_app"
clientapp = "federation.apps:client_app"

[tool.flwr.app.config]
"""


class DeploymentError(RuntimeError):
    """A part of the federation did not start or stopped early; one line, with its log."""


def write_app(folder: str | os.PathLike[str], settings: Settings) -> Path:
    """Writes the ready app as a Flower project with these settings."""
    place = Path(folder)
    package = place / "federation"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text('"""A federation."""\n')
    (package / "apps.py").write_text(_APP)
    lines = [f"{name} = {_toml(value)}\n" for name, value in settings.to_config().items()]
    (place / "pyproject.toml").write_text(_PROJECT + "".join(lines))
    return place


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


@dataclass
class Deployment:
    """The processes of a federation on loopback, with TLS and node authentication.

    Every process is ours and is ended by its id. Nothing listens beyond 127.0.0.1.

    Attributes:
      folder: For keys, certificates, logs, Flower's own files and the app.
      nodes: SuperNodes.
      node_config: Settings of each node, beside its partition.
      port: First of the ports used; 0 finds free ones.
      tell: Called with one line whenever something happens.
    """

    folder: Path
    nodes: int
    node_config: Callable[[int], Mapping[str, Any]] = lambda index: {}
    port: int = 0
    tell: Callable[[str], None] = lambda line: None
    processes: dict[str, subprocess.Popen[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        flower()
        _validate.at_least("nodes", self.nodes, 1)
        self.folder = Path(self.folder).resolve()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        count = self.nodes + 1
        self.ports = [self.port + i for i in range(count)] if self.port else _free_ports(count)
        self.credentials: Credentials = issue(self.folder / "keys", self.nodes)
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

    def register(self) -> None:
        """Tells the SuperLink the public keys of the nodes: others are refused."""
        for path in self.credentials.nodes:
            public = str(path.with_suffix(".pub"))
            done = self.flwr("supernode", "register", public, "here")
            if done.returncode:
                raise DeploymentError(f"a node's key was not accepted: {_last_line(done)}")

    def start_node(self, index: int) -> None:
        """Starts one SuperNode."""
        keys = self.credentials
        config = {**self.node_config(index), "partition-id": index, "num-partitions": self.nodes}
        text = " ".join(f"{key}={_toml(value)}" for key, value in config.items())
        self._spawn(
            f"node-{index}",
            "flower-supernode",
            *("--superlink", self.address, "--root-certificates", str(keys.authority)),
            *("--auth-supernode-private-key", str(keys.nodes[index])),
            *("--host", "127.0.0.1", "--port", str(self.ports[index + 1])),
            *("--ssl-certfile", str(keys.certificate), "--ssl-keyfile", str(keys.key)),
            *("--ssl-ca-certfile", str(keys.authority), "--node-config", text),
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
        process = subprocess.Popen(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes["run"] = process
        assert process.stdout is not None
        for line in process.stdout:
            yield line.rstrip("\n")
            self.check_alive()
        if process.wait():
            raise DeploymentError(f"flwr run ended with code {process.returncode}")

    def check_alive(self) -> None:
        """Refuses to go on without a server."""
        server = self.processes.get("superlink")
        if server is not None and server.poll() is not None:
            raise DeploymentError(f"superlink stopped with code {server.returncode}")

    def kill(self, name: str) -> None:
        """Ends one process and its children at once, as a crash would."""
        process = self.processes.pop(name)
        _signal(process, signal.SIGKILL)
        process.wait()

    def stop(self, grace: float = 10.0) -> None:
        """Ends everything: asks first, insists after ``grace`` seconds."""
        for process in self.processes.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + grace
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            # Children of a SuperNode may outlive it: the whole group goes.
            _signal(process, signal.SIGKILL)
            process.wait()
        self.processes.clear()

    def log_of(self, name: str) -> str:
        """What a process said."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def __enter__(self) -> Deployment:
        try:
            self.start()
        except BaseException:  # Ctrl-C too: what was started must not stay behind
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [_program(program), *arguments],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
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


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"code {done.returncode}"
