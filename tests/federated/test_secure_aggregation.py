"""Beside Flower's SecAgg+: the defence comes after its mod, and the server sees sums only."""

import json
import math

import numpy as np
import pytest

import recondite as rc
from recondite.federated import Auditor, defend, spent
from recondite.federated.flower.app import ready_client
from recondite.federated.flower.server import federate
from recondite.federated.flower.simulation import HereGrid
from recondite.federated.ledger import ReleaseLedger
from recondite.federated.settings import Settings
from recondite.federated.shares import initial_model

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


def federation_of(tmp_path, **changes):
    values = {
        "data": "digits",
        "prepare": "none",
        "clients": 3,
        "rounds": 2,
        "defence": "gaussian",
        "strength": 4.0,
        "learning_rate": 0.5,
        "secure": 1,
        "ledger": str(tmp_path / "ledgers"),
        "out": str(tmp_path / "out"),
        "server_ledger": str(tmp_path / "server"),
        "wait": 5.0,
    }
    return Settings(**{**values, **changes})


def run(settings):
    """A federation in this process; what its grid carried, and what came of it."""
    grid = HereGrid(ready_client(settings.policy()), settings.clients)
    carried, answered = [], grid._answered

    def watched(message):
        reply = answered(message)
        carried.append((message, reply))
        return reply

    grid._answered = watched
    model, rows = federate(grid, settings)
    return grid, carried, model, rows


def client_costs(settings, which=(0, 1, 2)):
    return [spent(ReleaseLedger(f"{settings.ledger}/client-{i}").lines()) for i in which]


def weights_in(carried):
    return [a for _, reply in carried for a in reply.content.array_records.values() if len(a)]


@pytest.mark.parametrize("place", ["client", "sum", "server"])
def test_a_federation_in_secure_sums(tmp_path, place):
    """Bounds so small that updates vanish beside the noise: what the model moves by is noise."""
    sigma, bound = 30.0, 1e-3
    settings = federation_of(
        tmp_path, noise_at=place, honest=3, rounds=1, strength=sigma, max_norm=bound, seed=0
    )
    start = {k: v.numpy().copy() for k, v in initial_model(settings).state_dict().items()}
    _, carried, model, rows = run(settings)
    assert not [reply.error.reason for _, reply in carried if reply.has_error()]
    assert weights_in(carried) == [], "no reply carries an array outside the masks"
    assert len(carried) == 3 * 4, "clients, stages"
    assert [row["round"] for row in rows] == [0, 1]
    after = {k: v.numpy() for k, v in model.state_dict().items()}
    noise = np.std(np.concatenate([(after[k] - start[k]).ravel() for k in start]))
    # Three noises of the clients' own, or one on the sum; the average is a third of it.
    wanted = sigma * bound / 3 * (math.sqrt(3) if place == "client" else 1.0)
    assert noise == pytest.approx(wanted, rel=0.05)
    costs = client_costs(settings)
    assert [cost.rounds for cost in costs] == [1, 1, 1]
    tight = rc.epsilon(rc.Gaussian(sigma), rc.Shuffled(1, 1, 1), 1e-5)
    if place == "client":
        assert costs[0].epsilon == pytest.approx(tight)
        assert "every message" in costs[0].against
    elif place == "sum":
        assert tight < costs[0].epsilon < 1.3 * tight
        assert "sees sums only, where 3 honest clients" in costs[0].against
    else:
        assert costs[0].epsilon == math.inf, "nothing protects them from the server"
        central = spent(ReleaseLedger(settings.server_ledger).lines())
        assert central.epsilon == pytest.approx(tight)
        assert "not the server" in central.against
        assert rows[-1]["epsilon"] == pytest.approx(tight)


def test_central_noise_without_secure_sums(tmp_path):
    settings = federation_of(tmp_path, noise_at="server", secure=0)
    run(settings)
    central = spent(ReleaseLedger(settings.server_ledger).lines())
    tight = rc.epsilon(rc.Gaussian(4.0), rc.Shuffled(2, 1, 1), 1e-5)
    assert central.epsilon == pytest.approx(tight)


def test_a_client_answers_nothing_outside_the_protocol(tmp_path):
    settings = federation_of(tmp_path, noise_at="sum", rounds=1)
    grid = HereGrid(ready_client(settings.policy()), 3)
    federate(grid, settings.with_values(secure=0, noise_at="client"))
    assert not (tmp_path / "ledgers").exists()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"honest": 2}, "threshold must be at least 3"),
        ({"strength": 40.0}, "clipping_range must be"),
    ],
)
def test_a_server_that_asks_for_less_than_is_pinned_gets_nothing(tmp_path, changed, why):
    settings = federation_of(tmp_path, noise_at="sum", honest=3, rounds=1)
    grid = HereGrid(ready_client(settings.policy()), 3)
    said = []
    answered = grid._answered
    grid._answered = lambda m: (said.append(r := answered(m)), r)[1]
    federate(grid, settings.with_values(**changed))
    assert said
    assert all(reply.has_error() and why in reply.error.reason for reply in said)
    assert not list(tmp_path.rglob("outbox"))


def test_noise_in_shares_is_not_sent_twice(tmp_path, message, context, app):
    mod = defend(rc.Gaussian(4.0), max_norm=1.0, honest=3, ledger=tmp_path)
    assert "wrap it in secured" in mod(message(), context(), app()).error.reason
    assert not mod.answer(message(), context(), app()).has_error()
    again = mod.answer(message(), context(), app())
    assert "not sent twice" in again.error.reason


def test_a_lost_client_does_not_end_the_sum(tmp_path):
    """Gone before its keys, before its update: the rest is summed while enough are left."""
    settings = federation_of(tmp_path, noise_at="sum", honest=2, rounds=3)
    grid = HereGrid(ready_client(settings.policy()), 3)
    answered, lost = grid._answered, {1: "setup", 2: "share_keys", 3: "collect_masked_vectors"}

    def losing(message):
        from recondite.federated.flower.replies import error_reply, server_round

        stage = message.content["secaggplus_configs"]["stage"]
        number = server_round(message) or int(message.metadata.group_id)
        if message.metadata.dst_node_id == 2 and lost[number] == stage:
            return error_reply(message, "gone")
        return answered(message)

    grid._answered = losing
    _, rows = federate(grid, settings)
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert [cost.rounds for cost in client_costs(settings, (0, 2))] == [3, 3]


def test_the_auditor_attacks_the_sum(tmp_path):
    settings = federation_of(
        tmp_path,
        defence="none",
        strength=0.0,
        rounds=1,
        batch_size=2,
        audit_every=1,
        audit_seconds=60.0,  # a busy machine; five steps take far less
        attack_steps=5,
        truth=str(tmp_path / "truth"),
        seed=0,
    )
    run(settings)
    rows = [json.loads(text) for text in (tmp_path / "out" / "records.jsonl").open()]
    assert rows[-1]["observed"] == "sum of 3 updates"
    assert rows[-1]["client"] == "all"
    assert rows[-1]["ground_truth"]
    assert rows[-1]["reconstruction"]["images"] == 6, "the records of all three clients"


def test_settings_that_promise_too_much_are_refused(tmp_path):
    with pytest.raises(ValueError, match="noise_at sum needs secure"):
        federation_of(tmp_path, noise_at="sum", secure=0)
    with pytest.raises(ValueError, match="vmf noise cannot be added in shares"):
        federation_of(tmp_path, noise_at="sum", defence="vmf")
    with pytest.raises(ValueError, match="level client"):
        federation_of(tmp_path, noise_at="sum", level="record")
    with pytest.raises(ValueError, match="clients must be at least honest"):
        federation_of(tmp_path, honest=4)
    with pytest.raises(ValueError, match="needs server_ledger"):
        settings = federation_of(tmp_path, noise_at="server", server_ledger="")
        federate(HereGrid(ready_client(settings.policy()), 3), settings)


def test_masks_follow_from_all_of_a_seed():
    from recondite.federated.flower.secure import MODULUS, masks

    shapes = [(1,), (30, 40), ()]
    one = masks(b"a" * 32, MODULUS, shapes)
    assert [mask.shape for mask in one] == shapes
    again = masks(b"a" * 32, MODULUS, shapes)
    assert all(np.array_equal(*pair) for pair in zip(one, again, strict=True))
    # Flower folds a seed into 32 bits: these two would be the same there.
    other = masks(b"b" * 4 + b"b" * 4 + b"a" * 24, MODULUS, shapes)
    assert not np.array_equal(one[1], other[1])
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    folded = [
        pseudo_rand_gen(seed, MODULUS, [(4,)])[0] for seed in (b"a" * 32, b"b" * 8 + b"a" * 24)
    ]
    assert np.array_equal(*folded), "when this fails, Flower has mended it"
    flat = masks(b"c" * 32, MODULUS, [(100_000,)])[0] / MODULUS
    assert flat.mean() == pytest.approx(0.5, abs=0.01)
    with pytest.raises(ValueError, match="modulus"):
        masks(b"a" * 32, 1 << 20, shapes)


def test_a_training_message_that_flowers_mod_would_not_mask_is_refused(message, context, app):
    from recondite.federated.flower.secure import secured

    mod = secured(defend(rc.Gaussian(4.0), max_norm=1.0, honest=3))
    for kind in ("train", "train.other"):
        sent = message(kind=kind)
        sent.content["secaggplus_configs"] = flwr.ConfigRecord({"stage": "collect_masked_vectors"})
        train = app()
        assert mod(sent, context(), train).has_error()
        assert train.calls == []
