"""A server's limits: no client owns the average, and no lost client holds a round up."""

import numpy as np
import pytest

from recondite.federated import Limits, ScreeningStrategy
from recondite.federated.flower.app import _Client
from recondite.federated.flower.server import federate
from recondite.federated.flower.simulation import HereGrid
from recondite.federated.flower.strategy import BoundedFedAvg
from recondite.federated.settings import Settings
from recondite.federated.shares import initial_model

flwr = pytest.importorskip("flwr.app")


def federation(attack, **changes):
    """Two honest clients and one that does what ``attack`` does to its reply: how far all moved."""
    from flwr.clientapp import ClientApp

    settings = Settings(
        data="digits", prepare="none", clients=3, rounds=1, seed=0, learning_rate=0.1
    ).with_values(**changes)
    client = _Client((settings.policy(),))

    def hostile(message, context, call_next):
        reply = call_next(message, context)
        return attack(reply) if context.node_config["partition-id"] == 2 else reply

    app = ClientApp(mods=[hostile, client.defended])
    app.train()(client.train)
    model, _ = federate(HereGrid(app, 3), settings)
    before = initial_model(settings).state_dict()
    moved = [(v - before[k]).numpy().ravel() for k, v in model.state_dict().items()]
    return np.concatenate(moved)


def claims(count):
    def attack(reply):
        reply.content["metrics"]["num-examples"] = count
        return reply

    return attack


def sends(value):
    def attack(reply):
        for name, array in reply.content["arrays"].items():
            found = np.full_like(array.numpy(), value)
            reply.content["arrays"][name] = flwr.Array(found)
        return reply

    return attack


def same(reply):
    return reply


def test_a_claimed_number_of_examples_does_not_weigh():
    honest = federation(same)
    for count in (10**15, 1.0, 3e38):
        np.testing.assert_allclose(federation(claims(count)), honest, atol=1e-7)


@pytest.mark.parametrize("value", [3e38, -3e38, np.nan, np.inf, 1e6])
@pytest.mark.parametrize("audit", [0, 1])
def test_an_update_that_is_not_finite_or_too_large_is_left_out(value, audit, said, tmp_path):
    changes = {"audit_every": audit, "audit_seconds": 0.1, "attack_steps": 1}
    moved = federation(sends(value), out=str(tmp_path / "out"), **changes)
    assert np.isfinite(moved).all()
    assert np.linalg.norm(moved) < 1.0
    wanted = "above max_update" if np.isfinite(value) else "not finite"
    assert sum("node 3 is left out" in line and wanted in line for line in said) == 1


def test_the_limit_follows_from_the_defence_and_honest_noise_is_within(said):
    for changes in (
        {"defence": "vmf", "strength": 500.0, "max_norm": 0.1},
        {"defence": "gaussian", "strength": 2.0, "max_norm": 0.1},
        {"defence": "clip", "max_norm": 1e-3},
    ):
        federation(same, **changes)
        assert not any("left out" in line for line in said)
    # A direction has the length max_norm: one that is ten times as long is not averaged.
    federation(sends(1.0), defence="vmf", strength=500.0, max_norm=0.1)
    assert sum("above max_update = 0.101" in line for line in said) == 1


def test_a_server_can_set_its_own_limits(said):
    federation(same, max_update=1e-6)
    assert sum("above max_update = 1e-06" in line for line in said) == 3
    weighed = federation(claims(10**15), max_weight=1e15)
    assert np.linalg.norm(weighed - federation(same)) > 1e-3
    with pytest.raises(ValueError, match="max_weight must be above 0"):
        Limits(max_weight=0)


class Grid:
    """Nodes that come and go, as the rounds ask."""

    def __init__(self, *there):
        self.there, self.asked = list(there), 0

    def get_node_ids(self):
        self.asked += 1
        return self.there.pop(0) if len(self.there) > 1 else self.there[0]


def nodes_of(strategy, number, grid):
    arrays = flwr.ArrayRecord({"w": flwr.Array(np.ones(2, np.float32))})
    messages = strategy.configure_train(number, arrays, flwr.ConfigRecord({}), grid)
    return sorted(message.metadata.dst_node_id for message in messages)


def test_a_round_takes_the_clients_that_are_there(identity, said):
    assert nodes_of(BoundedFedAvg(2, wait=60.0), 1, Grid([1, 2])) == [1, 2]
    strategy = ScreeningStrategy(BoundedFedAvg(2, wait=0.05))
    assert nodes_of(strategy, 1, Grid([1])) == [1]
    assert any("1 of 2 clients are there" in line for line in said)
    grid = Grid([2])
    assert nodes_of(strategy, 2, grid) == [2]
    assert grid.asked == 1, "only the first round waits for all"
    # One that is gone between two looks does not make Flower wait either.
    assert nodes_of(strategy, 2, Grid([1, 2], [1])) == [1, 2]
    with pytest.raises(RuntimeError, match="no client is there after 0.05 s"):
        nodes_of(strategy, 3, Grid([]))
    assert len(nodes_of(BoundedFedAvg(4, fraction=0.5, wait=0.05), 1, Grid([1, 2, 3, 4]))) == 2
