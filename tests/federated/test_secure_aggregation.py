"""Beside Flower's SecAgg+: the defence comes after its mod, and the server sees sums only."""

import numpy as np
import pytest

import recondite as rc
from recondite.federated import Auditor, defend, spent
from recondite.federated.in_process import HereGrid
from recondite.federated.ledger import ReleaseLedger

flwr = pytest.importorskip("flwr.app")

CLIENTS = 3


def federation(mods, seen):
    from flwr.client import NumPyClient
    from flwr.clientapp import ClientApp
    from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

    class Client(NumPyClient):
        def fit(self, parameters, config):
            return [p + 1.0 for p in parameters], 55, {"loss": 1.5}

    class Watching(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            for _, result in results:
                seen.append((result.num_examples, parameters_to_ndarrays(result.parameters)))
            return super().aggregate_fit(server_round, results, failures)

    grid = HereGrid(ClientApp(lambda context: Client().to_client(), mods=mods), CLIENTS)
    strategy = Watching(
        fraction_evaluate=0.0,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        initial_parameters=ndarrays_to_parameters([np.zeros((5, 20), np.float32)]),
    )
    context = LegacyContext(
        context=flwr.Context(grid.run_id, 1, {}, flwr.RecordDict(), {}),
        config=ServerConfig(num_rounds=1),
        strategy=strategy,
    )
    secure = SecAggPlusWorkflow(CLIENTS, 2, max_weight=100)
    DefaultWorkflow(fit_workflow=secure)(grid, context)


def test_the_server_sees_the_sum_of_noised_updates_only(tmp_path):
    from flwr.client.mod import secaggplus_mod

    seen = []
    mod = defend(rc.VonMisesFisher(1e5), max_norm=1.0, ledger=tmp_path)
    federation([secaggplus_mod, mod], seen)
    assert len(seen) == CLIENTS
    assert {count for count, _ in seen} == {1}, "the number of examples is a constant"
    average = seen[0][1][0]
    assert all(np.array_equal(average, arrays[0]) for _, arrays in seen), "one sum, no client's own"
    # Three directions near (1, …, 1)/10, averaged, within the protocol's rounding.
    assert average == pytest.approx(0.1, abs=0.02)
    for client in range(CLIENTS):
        assert spent(ReleaseLedger(tmp_path / f"client-{client}").lines()).rounds == 1


def test_the_other_order_is_refused_and_nothing_is_released(tmp_path):
    from flwr.client.mod import secaggplus_mod

    seen = []
    mod = defend(rc.VonMisesFisher(10.0), max_norm=1.0, ledger=tmp_path)
    federation([mod, secaggplus_mod], seen)
    assert seen == []
    assert not list(tmp_path.rglob("outbox"))


def test_an_auditor_is_told_that_it_sees_a_sum(tmp_path):
    from recondite.models import build

    model = build("mlp", (1, 4, 4), seed=0)
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    after = {k: v + 0.1 for k, v in before.items()}
    watcher = Auditor(
        model, shape=(1, 4, 4), out=tmp_path, learning_rate=0.1, batch_size=3, attack_steps=5
    )
    watcher.observe(1, "all", before, after, "sum of 3 updates")
    rows = watcher.finish(report=False)
    assert rows[0]["observed"] == "sum of 3 updates"
    assert rows[0]["reconstruction"]["images"] == 3
