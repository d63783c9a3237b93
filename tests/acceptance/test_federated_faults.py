"""Faults in a federation of real processes: Flower's deployment engine, TLS and node keys.

One deployment of four SuperNodes serves the broken clients together: each round ends with those
that are left. A second one has its server restarted.
"""

import json
import os
import textwrap
import threading
import time

import pytest

pytest.importorskip("flwr")

from recondite.federated.cost import spent
from recondite.federated.flower.deployment import Deployment, DeploymentError
from recondite.federated.ledger import ReleaseLedger

APP = '''
"""A tiny model whose clients break on command: node-config fault="…"."""

import os
import signal
import time

import numpy as np

import recondite as rc
from recondite.federated import defend
from recondite.federated.flower.screening import screened

import flwr
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

START = {"w": np.zeros((6, 4), np.float32), "b": np.zeros(6, np.float32)}


def faults(message, context, call_next):
    """Outermost: what a broken or hostile client would do to its reply."""
    fault = str(context.node_config.get("fault", ""))
    number = int(message.content["config"]["server-round"])
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    arrays = {k: v.numpy() for k, v in reply.content["arrays"].items()}
    if fault == "killed" and number == 2:
        mark = os.path.join(str(context.node_config["ledger"]), "killed")
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)  # counted, and not yet sent
    if fault == "slow" and number == 2:
        time.sleep(float(context.node_config["pause"]))
    if fault == "nan" and number == 1:
        arrays["w"] = np.full((6, 4), np.nan, np.float32)
    if fault == "nan" and number == 2:
        arrays["w"] = np.zeros((5, 4), np.float32)
    if fault == "nan" and number == 3:
        arrays = {}
    if fault == "nan" and number == 4:
        arrays = {k: v.numpy() for k, v in message.content["arrays"].items()}
    record = ArrayRecord({k: Array(v) for k, v in arrays.items()})
    content = RecordDict({"arrays": record, "metrics": reply.content["metrics"]})
    return Message(content, reply_to=message)


client_app = ClientApp(mods=[faults, defend(rc.Gaussian(1.0), max_norm=1.0)])


@client_app.train()
def train(message, context):
    arrays = {k: v.numpy() + np.float32(0.1) for k, v in message.content["arrays"].items()}
    record = ArrayRecord({k: Array(v) for k, v in arrays.items()})
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)


class Screening(FedAvg):
    """FedAvg behind the checks of AuditingStrategy, without an attack."""

    def aggregate_train(self, server_round, replies):
        sent = {reply.metadata.src_node_id: self.sent for reply in replies}
        good, _ = screened(replies, sent, round_number=server_round)
        return super().aggregate_train(server_round, good)

    def configure_train(self, server_round, arrays, config, grid):
        self.sent = {k: v.numpy() for k, v in arrays.items()}
        return super().configure_train(server_round, arrays, config, grid)


server_app = ServerApp()


@server_app.main()
def main(grid, context):
    nodes = int(context.run_config["nodes"])
    strategy = Screening(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1)
    while len(list(grid.get_node_ids())) < nodes:
        time.sleep(0.5)
    start = ArrayRecord({k: Array(v) for k, v in START.items()})
    strategy.start(
        grid,
        start,
        num_rounds=int(context.run_config["rounds"]),
        timeout=float(context.run_config["wait"]),
    )
    print("FEDERATION DONE", flush=True)
'''
PROJECT = """
[project]
name = "faulty"
version = "1.0.0"
description = "clients that break"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "recondite"
[tool.flwr.app.components]
serverapp = "faulty.apps:server_app"
clientapp = "faulty.apps:client_app"
[tool.flwr.app.config]
rounds = {rounds}
nodes = {nodes}
wait = {wait}
"""


def write(folder, **config):
    package = folder / "faulty"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Faults."""\n')
    (package / "apps.py").write_text(textwrap.dedent(APP).lstrip())
    (folder / "pyproject.toml").write_text(PROJECT.format(**config))
    return folder


def node_config(ledgers, faults):
    def of(index):
        return {"ledger": str(ledgers), "fault": faults[index], "pause": 60.0}

    return of


def rounds_of(ledgers, client):
    return spent(ReleaseLedger(ledgers / f"client-{client}").lines()).rounds


def test_broken_clients_do_not_stop_the_others(tmp_path):
    """Killed in a round, NaN, wrong shape, empty, zero, slow: one line each, and training ends."""
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    app = write(tmp_path / "app", rounds=4, nodes=4, wait=25.0)
    faults = ("", "killed", "slow", "nan")
    with Deployment(tmp_path / "up", 4, node_config(ledgers, faults)) as machine:
        log = list(machine.run(app))
    text = "\n".join(log)
    assert "FEDERATION DONE" in text
    left_out = [line for line in log if "is left out" in line]
    for what in ("not finite", "of shape (5, 4)", "an empty update", "a zero update"):
        assert sum(what in line for line in left_out) == 1, text
    # The sound client took part in every round, and counted each.
    assert rounds_of(ledgers, 0) == 4
    # The killed one had written its ledger before it would have sent: round 2 is counted, once.
    lines = ReleaseLedger(ledgers / "client-1").lines()
    assert sum(line["round"] == 2 for line in lines) == 1
    assert (ledgers / "killed").exists()


def test_a_restarted_server_goes_on_or_says_so_and_counts_stay(tmp_path):
    """The SuperLink is killed in a run and started again: nodes come back, a new run trains."""
    ledgers = tmp_path / "ledgers"
    ledgers.mkdir()
    app = write(tmp_path / "app", rounds=2, nodes=2, wait=30.0)
    slow = ("", "slow")
    with Deployment(tmp_path / "up", 2, node_config(ledgers, slow)) as machine:
        said = []

        def crash():
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and rounds_of_safe(ledgers, 0) < 1:
                time.sleep(0.2)
            machine.processes["superlink"].kill()

        thread = threading.Thread(target=crash, daemon=True)
        thread.start()
        with pytest.raises(DeploymentError) as stopped:
            for line in machine.run(app):
                said.append(line)
        assert len(str(stopped.value).splitlines()) == 1
        thread.join()
        machine.kill("superlink")
        machine.processes.pop("run", None)
        machine.start_server()
        again = list(machine.run(write(tmp_path / "again", rounds=1, nodes=2, wait=30.0)))
    assert any("FEDERATION DONE" in line for line in again), "\n".join(again)
    lines = ReleaseLedger(ledgers / "client-0").lines()
    keys = [line["key"] for line in lines]
    assert len(keys) == len(set(keys)) >= 2
    assert len({line["run"] for line in lines}) == 2


def rounds_of_safe(ledgers, client):
    path = ledgers / f"client-{client}" / "releases.jsonl"
    return rounds_of(ledgers, client) if path.exists() else 0


def test_a_node_without_a_registered_key_is_refused(tmp_path):
    ledgers = tmp_path / "ledgers"
    machine = Deployment(tmp_path / "up", 1, node_config(ledgers, ("",)))
    try:
        machine.start_server()
        machine.start_node(0)  # its key was never registered
        machine.processes["node-0"].wait(60)
        assert machine.processes["node-0"].returncode
    finally:
        machine.stop()
    assert not json.dumps(sorted(os.listdir(tmp_path / "up"))).count("results")
