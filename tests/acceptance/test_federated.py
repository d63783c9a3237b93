"""The federated commands as a user runs them: a simulation, a deployment, and who they speak to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("ray")

COMMAND = str(Path(sys.executable).parent / "recondite")

# Loaded by every Python process below: notes each address that is connected to.
WATCH = """
import os, socket
_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex
def _note(address):
    with open(os.environ["CONNECTIONS"], "a") as file:
        file.write(f"{address!r}\\n")
def connect(self, address):
    _note(address)
    return _connect(self, address)
def connect_ex(self, address):
    _note(address)
    return _connect_ex(self, address)
socket.socket.connect, socket.socket.connect_ex = connect, connect_ex
"""


def run(folder, *arguments, timeout=560, **environment):
    return subprocess.run(
        [COMMAND, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def watched(folder):
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(WATCH)
    # The caller has it switched on: the commands themselves must switch it off.
    return {
        "PYTHONPATH": str(folder / "site"),
        "CONNECTIONS": str(folder / "connections.txt"),
        "FLWR_TELEMETRY_ENABLED": "1",
    }


def strangers(folder):
    path = folder / "connections.txt"
    found = set(path.read_text().splitlines()) if path.exists() else set()
    here = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
    return {line for line in found if line.startswith("(") and not any(a in line for a in here)}


def test_the_demonstration(tmp_path):
    done = run(
        tmp_path,
        *("federate", "demo", "--rounds", "1", "--local-steps", "1", "--out", "out", "--json"),
        **watched(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rounds"]
    assert [(row["partition"], row["protects"]) for row in rows] == [
        ("iid", "nothing"),
        ("iid", "client"),
        ("dirichlet", "nothing"),
        ("dirichlet", "client"),
    ]
    for row in rows:
        assert (row["ssim"] > 0.6) == (row["protects"] == "nothing")
        assert (row["epsilon"] is None) == (row["protects"] == "nothing")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "VMF κ = 500" in page
    assert not [line for line in strangers(tmp_path) if "flower" in line or "ray" in line]


def test_a_deployment_on_loopback(tmp_path):
    done = run(
        tmp_path,
        *("federate", "up", "--nodes", "2", "--rounds", "1", "--batch-size", "1", "--out", "out"),
        **watched(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "nodes authenticated by their keys" in done.stderr
    assert "Released by each client" in done.stdout
    assert "71.95" in done.stdout, "ε of one release of VMF κ = 500 by each client"
    assert strangers(tmp_path) == set()
    rows = [
        json.loads(line)
        for line in (tmp_path / "out" / "results" / "records.jsonl").read_text().splitlines()
    ]
    assert rows[-1]["ground_truth"] is False
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False)
    assert str(tmp_path) not in left.stdout, "nothing is left running"


def test_bad_input_is_one_line_and_code_2(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    done = run(tmp_path, "federate", "demo", "--out", "out")
    assert done.returncode == 2
    assert "not empty" in done.stderr
    done = run(tmp_path, "federate", "up", "--defence", "magic", "--out", "other")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
