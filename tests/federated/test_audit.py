"""The auditor: it rebuilds undefended digits, not defended ones, and never holds a round up."""

import io
import json
import pickle
import threading
import time

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.federated import AuditingStrategy, Auditor
from recondite.federated.flower.app import ready_client
from recondite.federated.flower.server import federate
from recondite.federated.flower.simulation import HereGrid
from recondite.federated.settings import Settings

flwr = pytest.importorskip("flwr.app")


def audited(folder, **changes):
    settings = Settings(
        data="mnist-5k",
        model="mlp",
        clients=2,
        rounds=1,
        batch_size=2,
        learning_rate=0.5,
        seed=0,
        audit_every=1,
        audit_seconds=60.0,
        attack_steps=150,
        out=str(folder / "out"),
        ledger=str(folder / "ledgers"),
        truth=str(folder / "truth"),
    ).with_values(**changes)
    _, rows = federate(HereGrid(ready_client(settings.policy()), settings.clients), settings)
    lines = (folder / "out" / "records.jsonl").read_text().splitlines()
    return rows, [json.loads(line) for line in lines]


def test_an_undefended_round_is_rebuilt(tmp_path):
    rows, evidence = audited(tmp_path)
    assert rows[1]["ssim"] > 0.6
    row = evidence[-1]
    assert (row["kind"], row["round"], row["ground_truth"]) == ("federated", 1, True)
    assert row["reconstruction"]["ssim_worst"] > 0.6
    assert row["reconstruction"]["agreement"] < 0.05, "restarts find the same images"
    assert row["utility"]["test_accuracy"] == rows[1]["accuracy"]
    with np.load(tmp_path / "out" / row["reconstruction"]["gallery"], allow_pickle=False) as kept:
        assert kept["originals"].shape == kept["reconstructions"].shape == (2, 16, 16, 1)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "round 1" in page.lower()


VMF = {"defence": "vmf", "strength": 500.0}
# One release of VMF noise at κ = 500 in the 13,700 dimensions of this network.
RELEASE = rc.VonMisesFisher(500.0, 13_700).mutual_information()


@pytest.mark.parametrize(
    ("changes", "protects", "nats"),
    [
        (VMF, "client", RELEASE),
        ({**VMF, "level": "record", "sampling": "poisson"}, "record", RELEASE),
        ({"defence": "natural-channel", "capacity": 0.1}, "channel", 0.1 * 16 * 16),
        ({"defence": "natural-channel", "capacity": 0.02}, "channel", 0.02 * 16 * 16),
    ],
)
def test_a_defended_round_is_not_rebuilt(tmp_path, changes, protects, nats):
    rows, evidence = audited(tmp_path, **changes)
    assert rows[1]["ssim"] < 0.6
    assert evidence[-1]["reconstruction"]["ssim_worst"] < 0.6
    assert rows[1]["information"] == pytest.approx(nats, rel=1e-9)
    assert rows[1]["protects"] == protects


def test_several_local_steps_are_attacked_as_such(tmp_path):
    rows, evidence = audited(tmp_path, local_steps=2, batch_size=1, attack_steps=120)
    assert evidence[-1]["attack"] == "multi-step"
    assert evidence[-1]["reconstruction"]["images"] == 2
    assert rows[1]["ssim"] > 0.3


def arrays(model):
    return {k: v.numpy().copy() for k, v in model.state_dict().items()}


class Slow:
    """An attack that takes its time and says so."""

    name, restarts = "slow", 1

    def __init__(self, seconds):
        self.seconds, self.began = seconds, threading.Event()

    def reconstruct(self, model, loss_fn, gradients, *, shape, batch_size, progress, **options):
        from recondite.attacks.gradient.base import Reconstruction

        self.began.set()
        end = time.monotonic() + self.seconds
        interrupted = False
        while time.monotonic() < end and not interrupted:
            time.sleep(0.01)
            try:
                progress(None)
            except KeyboardInterrupt:
                interrupted = True
        images = torch.zeros(batch_size, *shape)
        return Reconstruction(images, None, torch.zeros(()), interrupted=interrupted)


def auditor(folder, attack, **options):
    model = _small()
    return model, Auditor(
        model, shape=(1, 4, 4), out=folder, learning_rate=0.1, attack=attack, **options
    )


def _small():
    from recondite.models import build

    return build("mlp", (1, 4, 4), seed=0)


def test_handing_over_never_waits_and_a_full_queue_says_so(tmp_path):
    attack = Slow(30.0)
    model, watcher = auditor(tmp_path, attack, pending=2)
    before = arrays(model)
    taken = []
    watcher.observe(1, "0", before, before)
    attack.began.wait(20)
    for number in range(2, 6):
        taken.append(watcher.observe(number, "0", before, before))
    assert taken == [True, True, False, False]
    assert watcher.dropped == 2
    rows = watcher.finish(wait=0.1, report=False)
    assert [row["round"] for row in rows] == [1]
    assert rows[0]["ground_truth"] is False
    assert any("estimates" in note for note in rows[0]["notes"])


def test_the_attack_rests_while_the_server_aggregates(tmp_path):
    steps = []

    class Counting(Slow):
        def reconstruct(self, *args, progress, **options):
            def counted(now):
                steps.append(1)
                progress(now)

            return super().reconstruct(*args, progress=counted, **options)

    attack = Counting(30.0)
    model, watcher = auditor(tmp_path, attack)
    watcher.observe(1, "0", arrays(model), arrays(model))
    attack.began.wait(20)
    with watcher.paused():
        time.sleep(0.2)
        resting = len(steps)
        time.sleep(0.3)
        assert len(steps) == resting
    watcher.finish(wait=0.1, report=False)


def test_a_failed_attack_is_one_line_and_the_next_goes_on(tmp_path, said):
    class Broken:
        name, restarts = "broken", 1

        def reconstruct(self, *args, **options):
            raise ValueError("no gradient")

    model, watcher = auditor(tmp_path, Broken())
    watcher.observe(1, "0", arrays(model), arrays(model))
    watcher.observe(2, "1", arrays(model), arrays(model))
    assert watcher.finish(report=False) == []
    assert sum("no reconstruction: no gradient" in line for line in said) == 2


class Inner:
    """A strategy that remembers what it was asked."""

    weighted_by_key = "num-examples"

    def __init__(self, messages=()):
        self.messages, self.got = messages, None

    def configure_train(self, server_round, arrays, config, grid):
        return self.messages

    def aggregate_train(self, server_round, replies):
        self.got = list(replies)
        return (None if not self.got else "arrays"), None

    def configure_evaluate(self, *args):
        return []

    def aggregate_evaluate(self, *args):
        return "evaluated"

    def summary(self):
        pass

    def anything_else(self):
        return 42


def reply_to(message, arrays, weight=3, node=5, metrics=None):
    content = flwr.RecordDict(
        {
            "arrays": flwr.ArrayRecord({k: flwr.Array(v) for k, v in arrays.items()}),
            "metrics": flwr.MetricRecord({"num-examples": weight, **(metrics or {})}),
        }
    )
    return flwr.Message(content, reply_to=message)


def wrapped(tmp_path, messages, **options):
    model, watcher = auditor(tmp_path, Slow(0.05))
    return model, AuditingStrategy(Inner(messages), auditor=watcher, seed=0, **options)


def test_what_cannot_be_aggregated_is_left_out_in_one_line(tmp_path, message, said):
    model = _small()
    start = arrays(model)
    messages = [message(start, node=node) for node in range(1, 9)]
    _, strategy = wrapped(tmp_path, messages)
    strategy.configure_train(1, None, None, None)
    first = next(iter(start))

    def changed(**values):
        return {**{k: v + 1 for k, v in start.items()}, **values}

    bad = {
        1: changed(**{first: np.full_like(start[first], np.nan)}),
        2: changed(**{first: start[first][:-1]}),
        3: {},
        4: start,
        5: {"other": start[first]},
    }
    replies = [reply_to(messages[node - 1], values) for node, values in bad.items()]
    replies.append(reply_to(messages[5], changed(), weight=0))
    replies.append(reply_to(messages[6], changed(), metrics={"loss": 1.0}))
    replies.append(reply_to(messages[7], changed()))
    result, _ = strategy.aggregate_train(1, replies)
    assert result == "arrays"
    assert [r.metadata.src_node_id for r in strategy.strategy.got] == [7, 8]
    left_out = [line for line in said if "is left out" in line]
    assert len(left_out) == 6
    for text in ("not finite", "of shape", "empty update", "zero update", "other names"):
        assert sum(text in line for line in left_out) == 1
    # Flower would refuse to average metrics that only some clients sent.
    assert all(set(r.content["metrics"]) == {"num-examples"} for r in strategy.strategy.got)
    strategy.finish()


def test_every_call_goes_through_and_a_round_is_not_held_up(tmp_path, message):
    model = _small()
    start = arrays(model)
    messages = [message(start, node=node) for node in range(1, 5)]
    _, strategy = wrapped(tmp_path, messages, clients=2, every=2)
    assert strategy.anything_else() == 42
    assert strategy.aggregate_evaluate(1, []) == "evaluated"
    for number in (1, 2, 3):
        strategy.configure_train(number, None, None, None)
        moved = [reply_to(m, {k: v + 1 for k, v in start.items()}) for m in messages]
        strategy.aggregate_train(number, moved)
        assert strategy.slowed[number] <= strategy.limit
    rows = strategy.finish()
    assert [row["round"] for row in rows] == [1, 1, 3, 3]
    assert len({row["client"] for row in rows[:2]}) == 2


def test_an_array_that_would_have_to_be_unpickled_is_refused(tmp_path, message):
    model = _small()
    start = arrays(model)
    sent = message(start, node=1)
    _, strategy = wrapped(tmp_path, [sent])
    strategy.configure_train(1, None, None, None)
    reply = reply_to(sent, {k: v + 1 for k, v in start.items()})
    first = next(iter(start))
    evil = np.array([print], dtype=object)
    buffer = io.BytesIO()
    np.save(buffer, evil, allow_pickle=True)
    assert pickle.dumps(print) in buffer.getvalue() or b"print" in buffer.getvalue()
    reply.content["arrays"][first] = flwr.Array(
        dtype="object", shape=(1,), stype="numpy.ndarray", data=buffer.getvalue()
    )
    strategy.aggregate_train(1, [reply])
    assert strategy.strategy.got == []
    strategy.finish()
