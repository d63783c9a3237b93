"""Record-level training and data channels behind the mod; Γ_client over rounds and steps."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite.federated import Budget, defend, spent, trained_with
from recondite.federated.ledger import ReleaseLedger

flwr = pytest.importorskip("flwr.app")

RECORDS = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(20) % 3


def model_of(message):
    model = torch.nn.Linear(6, 3)
    state = {k: torch.from_numpy(v.numpy().copy()) for k, v in message.content["arrays"].items()}
    model.load_state_dict(state)
    return model


def weights():
    return {"weight": np.zeros((3, 6), np.float32), "bias": np.zeros(3, np.float32)}


def answer(message, model):
    content = flwr.RecordDict(
        {
            "arrays": flwr.ArrayRecord(model.state_dict()),
            "metrics": flwr.MetricRecord({"num-examples": 20, "loss": 1.0}),
        }
    )
    return flwr.Message(content, reply_to=message)


def private_app(steps=4, sampling="poisson", tell=True):
    def train(message, context):
        model = model_of(message)
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        engine = rc.PrivacyEngine()
        _, _, loader = engine.make_private(
            module=model,
            optimizer=optimizer,
            data_loader=DataLoader(TensorDataset(RECORDS, LABELS), batch_size=5),
            mechanism=rc.Gaussian(2.0),
            sampling=sampling,
        )
        for done, (images, labels) in enumerate(loader):
            if done == steps:
                break
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if tell:
            trained_with(engine, model)
        return answer(message, model)

    return train


def plain_app(epochs=1, seen=None, direct=False):
    data = DataLoader(TensorDataset(RECORDS, LABELS), batch_size=5, shuffle=True)

    def train(message, context):
        model = model_of(message)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(epochs):
            batches = [(RECORDS, LABELS)] if direct else data
            for images, labels in batches:
                if seen is not None:
                    seen.append(images)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images), labels).backward()
                optimizer.step()
        return answer(message, model)

    return train


def test_steps_of_a_private_engine_are_counted_and_composed(message, context, tmp_path):
    mod = defend(ledger=tmp_path)
    for number in (1, 2, 3):
        reply = mod(message(weights(), number=number), context(), private_app())
        assert dict(reply.content["metrics"]) == {"num-examples": 1}
    cost = spent(ReleaseLedger(tmp_path).lines(), 1e-4)
    assert (cost.level, cost.steps, cost.rounds) == ("record", 12, 3)
    assert cost.protects == "a record of the client"
    mechanism = rc.Gaussian(2.0)
    assert cost.epsilon == pytest.approx(rc.epsilon(mechanism, rc.Poisson(5 / 20, 12), 1e-4))
    assert cost.neighbouring == "add-or-remove-one"


def test_a_part_of_a_shuffled_pass_counts_as_a_whole_one(message, context, tmp_path):
    mod = defend(ledger=tmp_path)
    for number in (1, 2):
        mod(message(weights(), number=number), context(), private_app(2, "shuffled"))
    cost = spent(ReleaseLedger(tmp_path).lines(), 1e-4)
    assert cost.epsilon == pytest.approx(rc.epsilon(rc.Gaussian(2.0), rc.Shuffled(2, 5, 20), 1e-4))


def test_an_app_that_does_not_tell_how_it_trained_stays_out(message, context, tmp_path):
    mod = defend(ledger=tmp_path)
    reply = mod(message(weights()), context(), private_app(tell=False))
    assert "trained_with" in reply.error.reason
    assert ReleaseLedger(tmp_path).lines() == []


def test_a_record_level_budget_is_kept_before_and_after_training(message, context, tmp_path):
    one = rc.epsilon(rc.Gaussian(2.0), rc.Poisson(0.25, 4), 1e-5)
    mod = defend(ledger=tmp_path, budget=Budget(epsilon=one * 1.01))
    assert not mod(message(weights()), context(), private_app()).has_error()
    refused = mod(message(weights(), number=2), context(), private_app())
    assert "budget of epsilon" in refused.error.reason
    tight = defend(ledger=tmp_path / "other", budget=Budget(epsilon=one * 0.99))
    assert "budget of epsilon" in tight(message(weights()), context(), private_app()).error.reason


def test_only_trained_parameters_leave(message, context):
    arrays = {**weights(), "extra.running_mean": np.zeros(2, np.float32)}

    def train(sent, given):
        small = message({k: v for k, v in arrays.items() if "extra" not in k})
        model = model_of(small)
        reply = private_app()(small, given)
        content = {k: v for k, v in reply.content["arrays"].items()}
        content["extra.running_mean"] = flwr.Array(np.ones(2, np.float32))
        del model
        return flwr.Message(flwr.RecordDict({"arrays": flwr.ArrayRecord(content)}), reply_to=sent)

    reply = defend()(message(arrays), context(), train)
    assert reply.content["arrays"]["extra.running_mean"].numpy().tolist() == [0, 0]


@pytest.fixture(scope="module")
def channel():
    return rc.NaturalChannel.fit(RECORDS.numpy(), capacity=3.0)


def test_loaders_serve_noisy_copies_and_once_noise_stays_at_its_capacity(
    message, context, tmp_path, channel
):
    seen = []
    for number in (1, 2, 3):
        mod = defend(channel=channel, ledger=tmp_path)  # a restart each round
        mod(message(weights(), number=number), context(), plain_app(epochs=2, seen=seen))
    rows = {tuple(row.tolist()) for batch in seen for row in batch}
    assert len(rows) == 20, "one noisy copy a record, whatever the round, epoch or order"
    assert not rows & {tuple(row.tolist()) for row in RECORDS}
    cost = spent(ReleaseLedger(tmp_path).lines())
    assert cost.level == "channel"
    assert cost.gamma["client"] == pytest.approx(3.0)
    assert cost.gamma["server"] == cost.gamma["prior"] == "not bounded"
    assert cost.channel["data_set"] == pytest.approx(60.0)
    assert cost.epsilon is None
    assert cost.capacity is None, "nothing is claimed where nothing is known"


def test_fresh_noise_accumulates_over_rounds_and_local_steps(message, context, tmp_path, channel):
    mod = defend(channel=channel, noise="per_step", ledger=tmp_path)
    for number in (1, 2, 3):
        mod(message(weights(), number=number), context(), plain_app(epochs=2))
    cost = spent(ReleaseLedger(tmp_path).lines())
    assert cost.channel["uses"] == 6
    assert cost.gamma["client"] == pytest.approx(channel.information(6, "per_step"))
    assert 3.0 < cost.gamma["client"] < 18.0, "less than Eq. (9)'s sum of six capacities"


def test_an_app_that_goes_around_its_loaders_stays_out(message, context, tmp_path, channel):
    mod = defend(channel=channel, ledger=tmp_path)
    assert mod(message(weights()), context(), plain_app(direct=True)).has_error()
    assert ReleaseLedger(tmp_path).lines() == []


def test_an_app_that_reads_its_loaders_in_a_thread_stays_out(message, context, tmp_path, channel):
    app = plain_app()

    def training(*given):
        threads = ThreadPoolExecutor(1)
        loader = DataLoader(TensorDataset(RECORDS, LABELS), batch_size=20)
        threads.submit(lambda: next(iter(loader))).result()
        return app(*given)

    mod = defend(channel=channel, ledger=tmp_path)
    assert mod(message(weights()), context(), training).has_error()
    assert ReleaseLedger(tmp_path).lines() == []


def test_a_channel_without_a_place_for_its_secret_stays_out(message, context, channel):
    reply = defend(channel=channel)(message(weights()), context(), plain_app())
    assert "needs a ledger folder" in reply.error.reason


def test_loaders_outside_a_round_are_untouched(message, context, tmp_path, channel):
    loader = DataLoader(TensorDataset(RECORDS, LABELS), batch_size=20)
    defend(channel=channel, ledger=tmp_path)(message(weights()), context(), plain_app())
    assert torch.equal(next(iter(loader))[0], RECORDS)


def test_a_channels_budget(message, context, tmp_path, channel):
    mod = defend(channel=channel, ledger=tmp_path, budget=Budget(information=2.0))
    reply = mod(message(weights()), context(), plain_app())
    assert "budget of information is spent: total_information=2 is less" in reply.error.reason
    assert ReleaseLedger(tmp_path).lines() == []
    enough = defend(channel=channel, ledger=tmp_path, budget=Budget(information=3.5))
    assert not enough(message(weights()), context(), plain_app()).has_error()
    # The same noisy copies tell no more in another round; fresh ones would, and are not served.
    seen, limit = [], Budget(information=3.5)
    enough(message(weights(), number=2), context(), plain_app(seen=seen))
    assert sum(map(len, seen)) == 20
    fresh = defend(channel=channel, noise="per_step", ledger=tmp_path, budget=limit)
    fresh(message(weights(), number=3), context(), plain_app(seen=seen))
    assert sum(map(len, seen)) == 20
    assert spent(ReleaseLedger(tmp_path).lines()).information == pytest.approx(3.0)


def test_two_defences_add_up_and_claim_no_epsilon(message, context, tmp_path, channel):
    defend(channel=channel, ledger=tmp_path)(message(weights()), context(), plain_app())
    defend(rc.Gaussian(2.0), max_norm=1.0, ledger=tmp_path)(
        message(weights(), number=2), context(), plain_app()
    )
    cost = spent(ReleaseLedger(tmp_path).lines())
    update = rc.Gaussian(2.0, dim=21, max_batch_size=1).mutual_information()
    assert cost.information == pytest.approx(3.0 + update)
    assert (cost.level, cost.epsilon, cost.capacity) == ("channel", None, None)


def test_an_engine_that_goes_on_is_counted_from_where_it_was(message, context, tmp_path):
    kept = {}

    def train(sent, given):
        model = model_of(sent) if not kept else kept["model"]
        if not kept:
            model.train()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            engine = rc.PrivacyEngine()
            data = DataLoader(TensorDataset(RECORDS, LABELS), batch_size=5)
            _, _, loader = engine.make_private(
                module=model, optimizer=optimizer, data_loader=data, mechanism=rc.Gaussian(2.0)
            )
            kept.update(model=model, optimizer=optimizer, engine=engine, loader=loader)
        for images, labels in kept["loader"]:
            kept["optimizer"].zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            kept["optimizer"].step()
        trained_with(kept["engine"], model)
        return answer(sent, model)

    mod = defend(ledger=tmp_path)
    for number in (1, 2):
        mod(message(weights(), number=number), context(), train)
    # A round that stays out releases nothing; what goes on from it releases its steps too.
    tight = defend(ledger=tmp_path, budget=Budget(rounds=2))
    object.__setattr__(tight, "_planned", lambda book, before: {})
    assert tight(message(weights(), number=3), context(), train).has_error()
    mod(message(weights(), number=4), context(), train)
    assert [line["schedule"]["steps"] for line in ReleaseLedger(tmp_path).lines()] == [4, 4, 8]
