"""A client's policy is its own: what a server sets of it is refused, and nothing leaves."""

from dataclasses import fields

import numpy as np
import pytest

from recondite.federated.flower.app import client_app, ready_client
from recondite.federated.policy import ASKED, Policy, StayOutError
from recondite.federated.settings import Settings
from recondite.federated.shares import initial_model

flwr = pytest.importorskip("flwr.app")

NODE = {
    "defence": "vmf",
    "strength": 500.0,
    "data": "digits",
    "prepare": "none",
    "clients": 2,
    "local-steps": 2,
    "learning-rate": 0.5,
    "partition-id": 0,
    "num-partitions": 2,
}
OWN = sorted({field.name for field in fields(Policy)} - set(ASKED))
PROTECTED = [*OWN, "partition_id", "num_partitions"]
# Values that would lift the defence, and for the others valid ones.
HOSTILE = {
    "defence": "none",
    "seed": 3,
    "strength": 1e12,
    "model": "os:getcwd",
    "level": "record",
    "max_norm": 1e9,
    "capacity": 1e9,
    "noise": "per_step",
    "budget_epsilon": 1e9,
    "batch_size": 1,
    "sampling": "poisson",
    "data": "mnist-5k",
    "prepare": "crop16",
    "clients": 1,
    "partition": "dirichlet",
    "alpha": 0.1,
    "records": 1,
    "partition_id": 1,
    "num_partitions": 1,
}


@pytest.fixture
def ask(message, tmp_path, monkeypatch):
    """One training message to the ready client, as a server could make it."""
    arrays = {
        name: value.numpy()
        for name, value in initial_model(Policy("none", data="digits", prepare="none"))
        .state_dict()
        .items()
    }
    calls = []
    import recondite.federated.flower.app as module

    real = module.train_locally
    monkeypatch.setattr(module, "train_locally", lambda *a: (calls.append(a), real(*a))[1])

    def send(app=client_app, node=None, run=None, sent=None, record="config"):
        pinned = {**NODE, "ledger": str(tmp_path / "ledger")} if node is None else node
        one = message(arrays)
        if record not in one.content:
            one.content[record] = flwr.ConfigRecord({})
        for name, value in (sent or {}).items():
            one.content[record][name] = value
        context = flwr.Context(7, 5, pinned, flwr.RecordDict(), dict(run or {}))
        return app(one, context)

    send.calls, send.arrays = calls, arrays
    return send


def refused(reply, said):
    """The one line of a refusal, which is in the client's log too."""
    assert reply.has_error()
    (line,) = reply.error.reason.splitlines()
    reason = line.removeprefix("recondite: ")
    assert sum(reason in entry for entry in said) == 1
    return reason


@pytest.mark.parametrize("where", ["run", "sent"])
@pytest.mark.parametrize("key", PROTECTED)
def test_a_server_that_sets_what_is_the_clients_own_gets_nothing(ask, said, tmp_path, key, where):
    value = HOSTILE.get(key, str(tmp_path / "elsewhere"))  # the rest are paths
    for name in {key, key.replace("_", "-")}:
        said.clear()
        reply = ask(**{where: {name: value}})
        assert f"sets {key.replace('_', '-')}, which is this client's own" in refused(reply, said)
    assert ask.calls == []
    assert list(tmp_path.iterdir()) == [], "no ledger was opened and no path was written"


def test_the_same_value_is_refused_too_so_that_nobody_can_guess(ask, said):
    assert "sets strength" in refused(ask(sent={"strength": 500.0}), said)


def test_another_record_of_the_message_is_no_way_in(ask, said):
    assert "sets defence" in refused(ask(sent={"defence": "none"}, record="fitins.config"), said)


def test_what_a_server_may_choose_it_chooses_within_the_limits(ask, said):
    reply = ask(run={"learning-rate": 0.4}, sent={"learning-rate": 0.25, "local-steps": 1})
    assert not reply.has_error()
    ((_, _, policy, _),) = ask.calls
    assert (policy.learning_rate, policy.local_steps, policy.defence) == (0.25, 1, "vmf")
    for asked, wanted in (
        ({"local-steps": 3}, "local-steps = 3, above this client's limit of 2"),
        ({"learning_rate": 0.6}, "learning-rate = 0.6, above this client's limit of 0.5"),
        ({"learning-rate": float("nan")}, "learning-rate is unusable"),
        ({"learning-rate": -0.1}, "learning-rate is unusable"),
        ({"local-steps": "many"}, "local-steps is unusable"),
        ({"local-steps": [1, 2]}, "local-steps is unusable"),
        ({"local-steps": 0}, "local-steps is unusable"),
    ):
        said.clear()
        assert wanted in refused(ask(sent=asked), said)
    assert len(ask.calls) == 1


def test_all_else_is_not_read(ask):
    other = {"server.defence": "none", "rounds": 7, "out": "/nowhere", "plan": 1, "x": "y"}
    assert not ask(run=other, sent=other).has_error()


def test_a_node_that_pins_no_defence_does_not_train(ask, said):
    bare = {key: NODE[key] for key in ("partition-id", "num-partitions")}
    assert "no defence is pinned" in refused(ask(node=bare), said)
    said.clear()
    assert "no ledger is pinned" in refused(ask(node=NODE), said)
    assert ask.calls == []


def test_a_policy_that_cannot_be_used_keeps_its_values_at_home(ask, said):
    node = {**NODE, "ledger": "secret-place", "strenght": 5.0}
    reply = ask(node=node)
    assert "strenght" not in reply.error.reason
    assert any("strenght of the node's configuration is no part of a policy" in s for s in said)
    reply = ask(node={**NODE, "ledger": "secret-place", "defence": "magic"})
    assert "magic" not in reply.error.reason
    assert ask.calls == []


def test_none_is_a_defence_that_a_node_can_pin_and_the_log_says_so(ask, said):
    reply = ask(node={**NODE, "defence": "none"})
    assert not reply.has_error()
    assert any("leaves as it is" in line for line in said)


def test_a_simulation_pins_its_policies_in_its_app_and_the_node_wins(ask, said, tmp_path):
    bare = {key: NODE[key] for key in ("partition-id", "num-partitions")}
    own = Policy("vmf", strength=500.0, data="digits", prepare="none", clients=2)
    two = ready_client(own, own.with_values(strength=5.0))
    assert not ask(two, node=bare, sent={"plan": 1}).has_error()
    assert ask.calls[-1][2].strength == 5.0
    assert "plan must be" in refused(ask(two, node=bare, sent={"plan": 2}), said)
    said.clear()
    assert "sets defence" in refused(ask(two, node=bare, sent={"plan": 0, "defence": "none"}), said)
    ask(two, node={**bare, "strength": 2.0, "ledger": str(tmp_path)}, sent={"plan": 0})
    assert ask.calls[-1][2].strength == 2.0


def test_what_leaves_is_a_direction_of_the_pinned_length(ask):
    reply = ask()
    moved = [
        (array.numpy() - ask.arrays[name]).ravel()
        for name, array in reply.content["arrays"].items()
    ]
    assert np.linalg.norm(np.concatenate(moved)) == pytest.approx(1.0, rel=1e-3)
    assert dict(reply.content["metrics"]) == {"num-examples": 1}


def test_a_policy_needs_no_framework():
    policy = Policy("gaussian", strength=1.0, local_steps=4)
    assert policy.under({"local-steps": 2, "momentum": 0.9}).local_steps == 2
    with pytest.raises(StayOutError, match="sets seed"):
        policy.under({}, {"seed": 0})
    with pytest.raises(ValueError, match="defence must be pinned"):
        Policy()
    with pytest.raises(ValueError, match="defence must be"):
        Policy("magic")


def test_a_server_sends_its_clients_what_they_read_and_no_more():
    settings = Settings(defence="vmf", strength=5.0, learning_rate=0.2, local_steps=3)
    assert settings.asked() == {"learning-rate": 0.2, "local-steps": 3}
    pinned = settings.policy()
    assert type(pinned) is Policy
    assert pinned.under(settings.asked()) == pinned
