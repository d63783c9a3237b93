"""The federated commands as a user runs them: a simulation, a deployment, and who they speak to."""

import json
import os
import signal
import subprocess
import sys
import time
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
    left = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=False)
    assert str(tmp_path) not in left.stdout, "nothing is left running"


def lines_of(folder, client):
    from recondite.federated.ledger import ReleaseLedger

    path = folder / "ledgers" / f"client-{client}"
    return ReleaseLedger(path).lines() if path.exists() else []


@pytest.mark.parametrize("place", ["sum", "server"])
def test_secure_sums_of_real_processes(tmp_path, place):
    """SecAgg+ between SuperNodes and a SuperLink: the server's database holds no update."""
    done = run(
        tmp_path,
        *("federate", "up", "--nodes", "3", "--rounds", "1", "--data", "digits", "--out", "out"),
        *("--defence", "gaussian", "--strength", "4", "--secure", "--honest", "3"),
        *("--noise-at", place, "--audit-seconds", "10", "--wait", "120"),
    )
    assert done.returncode == 0, done.stderr
    assert "the sum of 3 updates" in done.stderr
    for client in range(3):
        assert len(lines_of(tmp_path / "out", client)) == 1
    rows = [
        json.loads(line)
        for line in (tmp_path / "out" / "results" / "records.jsonl").read_text().splitlines()
    ]
    assert rows[-1]["observed"] == "sum of 3 updates"
    assert rows[-1]["reconstruction"]["images"] == 12, "records of all three, attacked as one batch"
    told = " ".join(done.stdout.split())
    if place == "sum":
        assert "3 honest clients added their shares" in told
    else:
        assert "not the server, which adds the noise" in told
        assert "models" in told


def test_a_server_cannot_switch_a_defence_off(tmp_path):
    """The app as a hostile server would submit it: its run's configuration sets the defence."""
    from recondite.federated.flower.deployment import Deployment
    from recondite.federated.flower.project import write_app
    from recondite.federated.policy import Policy
    from recondite.federated.settings import Settings

    settings = Settings(data="digits", prepare="none", clients=1, rounds=1, wait=60.0)
    app = write_app(tmp_path / "app", settings.with_values(out=str(tmp_path / "results")))
    with (app / "pyproject.toml").open("a") as file:
        file.write('[tool.flwr.app.config]\ndefence = "none"\n')
    pinned = Policy(
        "vmf", strength=500.0, data="digits", prepare="none", clients=1, ledger=str(tmp_path / "l")
    )
    with Deployment(tmp_path / "up", 1, lambda index: pinned.to_config()) as machine:
        text = "\n".join(machine.run(app))
        told = (machine.folder / "node-0.log").read_text(errors="replace")
    assert "no usable update, so the model stays as it was" in text
    assert "the server sets defence, which is this client's own" in told + text
    assert not (tmp_path / "l").exists(), "nothing was released, nothing was counted"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing_running(tmp_path, name):
    number = getattr(signal, name)
    process = started(tmp_path, "--rounds", "50", "--nodes", "2")
    until(process, lambda: lines_of(tmp_path / "out", 0))
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert f"ended by {name}" in (tmp_path / "told").read_text()
    left = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=False)
    assert str(tmp_path / "out") not in left.stdout


def test_a_killed_node_holds_nothing_up_and_comes_back(tmp_path):
    """Killed with −9 in a run: rounds go on within the time said, and the node is taken again."""
    process = started(tmp_path, "--rounds", "1000", "--nodes", "2", "--wait", "30")
    try:
        until(process, lambda: lines_of(tmp_path / "out", 1))
        table = subprocess.run(
            ["ps", "-ewwo", "pid,args"], capture_output=True, text=True, check=True
        )
        (node,) = [
            int(line.split()[0])
            for line in table.stdout.splitlines()
            if "flower-supernode" in line and str(tmp_path / "out" / "keys" / "node-1.key") in line
        ]
        os.kill(node, signal.SIGKILL)
        before = len(lines_of(tmp_path / "out", 0)), len(lines_of(tmp_path / "out", 1))
        # The other node goes on, and this one, once the SuperLink takes it, releases again.
        until(process, lambda: len(lines_of(tmp_path / "out", 0)) > before[0] + 1)
        until(process, lambda: len(lines_of(tmp_path / "out", 1)) > before[1] + 1)
    finally:
        process.terminate()
        process.wait(60)


def test_a_killed_server_goes_on_and_no_round_is_spent_twice(tmp_path):
    process = started(tmp_path, "--rounds", "3", "--nodes", "2")
    out = tmp_path / "out"
    until(process, lambda: len(lines_of(out, 0)) >= 2 or len(lines_of(out, 1)) >= 2)
    listed = ["ps", "-ewwo", "pid,args"]
    table = subprocess.run(listed, capture_output=True, text=True, check=True)
    (server,) = [
        int(line.split()[0])
        for line in table.stdout.splitlines()
        if "flower-superlink" in line and str(out / "keys" / "server.pem") in line
    ]
    os.kill(server, signal.SIGKILL)
    assert process.wait(120) == 1
    assert "--resume goes on" in (tmp_path / "told").read_text()
    again = started(tmp_path, "--rounds", "3", "--nodes", "2", "--resume")
    assert again.wait(500) == 0, (tmp_path / "told").read_text()
    for client in (0, 1):
        numbers = [line["round"] for line in lines_of(out, client)]
        assert numbers == [1, 2, 3], "each round once, and none is lost"
    assert "no usable update" not in (tmp_path / "told").read_text()


# Whatever the tests were started with, the command hears these signals.
HEARING = """
import signal
for name in ("SIGHUP", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
from recondite.cli.main import main
main()
"""


def started(folder, *options):
    """`federate up`, going on beside us; digits, and no data set to read."""
    arguments = ("--data", "digits", "--audit-seconds", "1", "--batch-size", "1", "--out", "out")
    with (folder / "told").open("w") as told:
        return subprocess.Popen(
            [sys.executable, "-c", HEARING, "federate", "up", *options, *arguments],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=told,
            stderr=subprocess.STDOUT,
        )


def until(process, happened, seconds=400):
    deadline = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_bad_input_is_one_line_and_code_2(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    done = run(tmp_path, "federate", "demo", "--out", "out")
    assert done.returncode == 2
    assert "not empty" in done.stderr
    done = run(tmp_path, "federate", "up", "--defence", "magic", "--out", "other")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_demo_of_tables_goes_without_the_auditor_and_announces_no_report(tmp_path):
    rows = [f"{i % 7},{i % 5},{i % 2}" for i in range(120)]
    (tmp_path / "p.csv").write_text("\n".join(["age,hours,rich", *rows]) + "\n")
    done = run(
        tmp_path, "federate", "demo", "--data", "p.csv#rich", "--clients", "2", "--rounds", "1",
        "--partition", "iid", "--local-steps", "1", "--out", "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("without the auditor")]
    assert len(said) == 1
    assert "--audit-seconds 0" in said[0]
    assert "nothing was rebuilt, so no report" in " ".join(done.stdout.split())
    assert not (tmp_path / "out" / "report.html").exists()
