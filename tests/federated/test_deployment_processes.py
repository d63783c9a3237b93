"""Whatever ends a deployment ends its processes; the processes here are not Flower's."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from recondite.cli.main import run
from recondite.federated.flower.deployment import Deployment
from recondite.federated.flower.processes import descendants

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

# Two processes, one with a child in a session of its own, as Flower's have.
SCRIPT = """
import sys, time
import recondite.federated.flower.deployment as module

module._program = lambda name: sys.executable
CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); time.sleep(600)"

class Sleeping(module.Deployment):
    def start(self):
        self._spawn("superlink", "sleep", "-c", "import time; time.sleep(600)")
        self._spawn("node-0", "sleep", "-c", CHILD)

try:
    with Sleeping(sys.argv[1], 1) as machine:
        print(*(process.pid for process in machine.processes.values()), flush=True)
        time.sleep(600)
except module.Ended as ended:
    sys.exit(128 + ended.number)
except KeyboardInterrupt:
    sys.exit(130)
"""  # noqa: E501


def living(found):
    from recondite.federated.flower.processes import _living

    return _living(found)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self"), reason="looks at processes as Linux lists them"
)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_nothing_running(tmp_path, name):
    number = getattr(signal, name)
    # Whatever the tests were started with, the process hears this signal.
    heard = f"import signal; signal.signal(signal.{name}, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", heard + SCRIPT, str(tmp_path / "up")], stdout=subprocess.PIPE
    )
    try:
        assert len(process.stdout.readline().split()) == 2
        while len(found := descendants([process.pid])) < 3:  # the child too
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        process.send_signal(number)  # an impatient person must not interrupt the ending
        assert process.wait(60) == 128 + number
        assert living(found) == []
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_node_that_stopped_is_started_again_and_a_lost_one_is_left(tmp_path, monkeypatch):
    import recondite.federated.flower.deployment as module

    monkeypatch.setattr(module, "_RETRIES", (0.0, 0.0))
    monkeypatch.setattr(module, "_program", lambda name: sys.executable)
    told = []
    machine = Deployment(tmp_path, 1, tell=told.append)
    started = []

    def start_node(index):
        started.append(index)
        machine._spawn(f"node-{index}", "node", "-c", "raise SystemExit(3)")

    monkeypatch.setattr(machine, "start_node", start_node)
    try:
        start_node(0)
        for _ in range(8):
            machine.processes["node-0"].wait(60)
            machine.revive()
    finally:
        machine.stop()
    assert len(started) == 3
    assert told == ["SuperNode 0 stopped with code 3: starting it again in 0 s"] * 2


def test_a_resumed_server_is_given_no_round_before_it_forgot_the_earlier_nodes(
    tmp_path, monkeypatch
):
    """It holds them for alive, and would send their rounds to nobody."""
    import recondite.federated.flower.deployment as module

    states, told = ["online", "online", "offline"], []
    # The module's own clock: threads that other tests left behind sleep by the real one.
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: told.append("slept"))
    monkeypatch.setattr(module, "time", clock)
    machine = Deployment(tmp_path, 1, tell=told.append)

    def flwr(*arguments):
        assert arguments == ("supernode", "list", "here", "--format", "json")
        listed = json.dumps({"nodes": [{"status": "offline"}, {"status": states.pop(0)}]})
        return subprocess.CompletedProcess(arguments, 0, listed, "")

    monkeypatch.setattr(machine, "flwr", flwr)
    try:
        machine.forget_nodes()
        assert states == []
        line = "waiting until the SuperLink notices that the earlier nodes are gone"
        assert told == [line, "slept", "slept"]
        failed = subprocess.CompletedProcess((), 1, "no connection", "")
        monkeypatch.setattr(machine, "flwr", lambda *arguments: failed)
        with pytest.raises(module.DeploymentError, match="lists no nodes: no connection"):
            machine.forget_nodes()
    finally:
        monkeypatch.undo()
        machine.stop()


def test_a_folder_is_its_owners_and_serves_one_deployment(tmp_path):
    folder = tmp_path / "up"
    folder.mkdir(mode=0o755)
    (folder / "superlink.db").touch(mode=0o644)
    first = Deployment(folder, 1)
    try:
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "superlink.db").stat().st_mode & 0o077 == 0
        with pytest.raises(ValueError, match="used by another deployment"):
            Deployment(folder, 1)
    finally:
        first.stop()
    Deployment(folder, 1).stop()


def test_what_processes_write_is_their_owners(tmp_path, monkeypatch):
    import recondite.federated.flower.deployment as module

    monkeypatch.setattr(module, "_program", lambda name: sys.executable)
    machine = Deployment(tmp_path / "up", 1)
    database = str(tmp_path / "up" / "superlink.db")
    try:
        machine._spawn("superlink", "x", "-c", f"open({database!r}, 'w').close()")
        machine.processes["superlink"].wait(60)
    finally:
        machine.stop()
    assert (tmp_path / "up" / "superlink.db").stat().st_mode & 0o077 == 0


def test_processes_find_data_that_is_named_from_the_callers_folder(tmp_path, monkeypatch):
    import recondite.federated.flower.deployment as module

    monkeypatch.setattr(module, "_program", lambda name: sys.executable)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age,rich\n31,1\n")
    machine = Deployment("up", 1)
    try:
        machine._spawn("node-0", "x", "-c", "open('people.csv').close()")
        assert machine.processes["node-0"].wait(60) == 0
    finally:
        machine.stop()


@pytest.mark.parametrize("bad", [("--model", "nosuch"), ("--data", "nosuch"), ("--days", "0")])
def test_a_used_folder_does_not_lend_its_results_to_a_run_that_cannot_start(
    tmp_path, capsys, monkeypatch, bad
):
    results = tmp_path / "results"
    results.mkdir()
    (results / "rounds.csv").write_text("round,accuracy,defence\n1,0.5,old\n")
    code = run(["federate", "up", *bad, "--nodes", "1", "--out", str(tmp_path)])
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert len(said.err.strip().splitlines()) == 1


def test_a_run_that_ends_early_does_not_show_the_table_of_the_last_one(
    tmp_path, capsys, monkeypatch
):
    import recondite.federated.flower.deployment as module

    results = tmp_path / "results"
    results.mkdir()
    (results / "rounds.csv").write_text("round,accuracy,defence\n1,0.5,old\n")
    pinned = {}

    def start(self):
        pinned.update(self.node_config(0))

    monkeypatch.setattr(module.Deployment, "start", start)
    monkeypatch.setattr(module.Deployment, "run", lambda self, app: iter(()))
    options = ("--data", "digits", "--nodes", "1", "--strength", "50", "--out", str(tmp_path))
    code = run(["federate", "up", *options])
    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    assert "did not finish" in said.err
    assert (tmp_path / "results-1" / "rounds.csv").exists()
    assert not results.exists()
    # The whole policy is pinned on the node.
    assert (pinned["defence"], pinned["strength"], pinned["data"]) == ("vmf", 50.0, "digits")
    assert pinned["ledger"] == str(tmp_path / "ledgers")
