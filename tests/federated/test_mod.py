"""The client mod: what leaves, what it costs, and that nothing else leaves."""

import logging
import math

import numpy as np
import pytest

import recondite as rc
from recondite.federated import Budget, defend, spent
from recondite.federated.flower.replies import MemoryLedger
from recondite.federated.ledger import ReleaseLedger


def sent_arrays(reply):
    return {k: v.numpy() for k, v in reply.content["arrays"].items()}


def update(reply, message):
    before = message.content["arrays"]
    return np.concatenate([(v - before[k].numpy()).ravel() for k, v in sent_arrays(reply).items()])


def test_nothing_leaves_but_the_noised_arrays_and_a_constant(message, context, app):
    mod = defend(rc.VonMisesFisher(50.0), max_norm=2.0, weight=10)
    reply = mod(message(), context(), app())
    assert set(reply.content) == {"arrays", "metrics"}
    assert dict(reply.content["metrics"]) == {"num-examples": 10}
    assert set(sent_arrays(reply)) == {"w", "b"}


@pytest.mark.parametrize("step", [1e-6, 0.5, 1e12])
@pytest.mark.parametrize(
    "mechanism",
    [rc.VonMisesFisher(50.0), rc.Directional(50.0), rc.PartitionedVonMisesFisher(50.0, blocks=2)],
)
def test_the_scale_of_a_direction_is_a_public_constant(message, context, app, mechanism, step):
    sent = message()
    reply = defend(mechanism, max_norm=2.0)(sent, context(), app(step))
    assert np.linalg.norm(update(reply, sent)) == pytest.approx(2.0, rel=1e-5)


def test_an_update_is_clipped_and_gaussian_noise_is_in_units_of_the_bound(message, context, app):
    big = {"w": np.zeros((200, 200), np.float64)}
    draws = [
        update(defend(rc.Gaussian(3.0), max_norm=0.5, seed=s)(sent, context(), app(9.0)), sent)
        for s in range(3)
        for sent in [message(big)]
    ]
    assert np.std(draws) == pytest.approx(1.5, rel=0.02)
    # The clipped update of norm 1/2 is what is left of the mean.
    assert np.mean(draws) * 200 == pytest.approx(0.5, abs=4 * 1.5 / math.sqrt(3))


def test_a_client_whose_training_failed_numerically_releases_all_the_same(message, context, app):
    sent = message()
    reply = defend(rc.VonMisesFisher(50.0), max_norm=1.0)(sent, context(), app(math.nan))
    assert np.isfinite(update(reply, sent)).all()
    assert np.linalg.norm(update(reply, sent)) == pytest.approx(1.0, rel=1e-5)


def test_batch_norm_buffers_go_back_as_they_came(message, context, app, said):
    arrays = {
        "conv.weight": np.zeros((3, 3), np.float32),
        "bn.running_mean": np.full(3, 2.0, np.float32),
        "bn.num_batches_tracked": np.array(4),
    }
    logging.getLogger("flwr").setLevel(logging.INFO)
    reply = defend(rc.Gaussian(1.0), max_norm=1.0)(message(arrays), context(), app())
    found = sent_arrays(reply)
    assert (found["bn.running_mean"] == 2.0).all()
    assert found["bn.num_batches_tracked"] == 4
    assert (found["conv.weight"] != 0).all()
    assert any("2 batch-norm buffers" in line for line in said)
    refused = defend(rc.Gaussian(1.0), max_norm=1.0, buffers="refuse")
    assert "group norm" in refused(message(arrays), context(), app()).error.reason


def test_evaluation_and_queries_tell_nothing_of_the_data(message, context, app):
    mod = defend(rc.Gaussian(1.0), max_norm=1.0)
    never = app()
    reply = mod(message(kind="evaluate"), context(), never)
    assert set(reply.content) == {"metrics"}
    assert dict(reply.content["metrics"]) == {"num-examples": 1}
    assert mod(message(kind="query"), context(), never).has_error()
    assert never.calls == []


def test_an_error_keeps_its_reason_at_home(message, context):
    def broken(sent, given):
        raise RuntimeError("record of Ada is corrupt")

    reply = defend(rc.Gaussian(1.0), max_norm=1.0)(message(), context(), broken)
    assert reply.has_error()
    assert "Ada" not in reply.error.reason


def test_the_same_round_gets_the_same_bytes_and_is_counted_once(message, context, app, tmp_path):
    mod = defend(rc.VonMisesFisher(5.0), max_norm=1.0, ledger=tmp_path)
    train = app()
    first = mod(message(), context(), train)
    again = mod(message(), context(), train)
    data = [[a.data for a in reply.content["arrays"].values()] for reply in (first, again)]
    assert data[0] == data[1]
    assert len(train.calls) == 1
    assert spent(ReleaseLedger(tmp_path).lines()).rounds == 1
    # Another round is another release; the bytes of the first are gone then.
    mod(message(number=2), context(), train)
    late = mod(message(), context(), train)
    assert "its bytes are gone" in late.error.reason
    assert spent(ReleaseLedger(tmp_path).lines()).rounds == 2


def test_a_client_that_died_before_its_reply_is_counted_once(message, context, app, tmp_path):
    mod = defend(rc.VonMisesFisher(5.0), max_norm=1.0, ledger=tmp_path)
    written = []

    class DiesAfterWriting(ReleaseLedger):
        def write(self, line):
            super().write(line)
            written.append(line)
            raise KeyboardInterrupt

    book = DiesAfterWriting(tmp_path)
    object.__setattr__(mod, "open_ledger", lambda context: book)
    with pytest.raises(KeyboardInterrupt):
        mod(message(), context(), app())
    object.__delattr__(mod, "open_ledger")
    stored = ReleaseLedger(tmp_path).stored(written[0]["key"])
    reply = mod(message(), context(), app())
    from recondite.federated.update import loads

    for name, array in loads(stored).items():
        assert np.array_equal(array, sent_arrays(reply)[name])
    assert len(ReleaseLedger(tmp_path).lines()) == 1


def test_the_ledger_is_on_disk_before_the_reply(message, context, app, tmp_path, monkeypatch):
    order = []
    real = ReleaseLedger.write
    monkeypatch.setattr(
        ReleaseLedger, "write", lambda self, line: (real(self, line), order.append("ledger"))
    )
    import recondite.federated.flower.mod as module

    made = module.train_reply
    monkeypatch.setattr(
        module, "train_reply", lambda *a, **k: (order.append("reply"), made(*a, **k))[1]
    )
    defend(rc.Gaussian(1.0), max_norm=1.0, ledger=tmp_path)(message(), context(), app())
    assert order == ["ledger", "reply"]


def test_files_are_for_their_owner_only(message, context, app, tmp_path):
    folder = tmp_path / "ledger"
    defend(rc.Gaussian(1.0), max_norm=1.0, ledger=folder)(message(), context(), app())
    kept = [folder, *folder.rglob("*")]
    assert len(kept) >= 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(rounds=2),
        Budget(epsilon=rc.epsilon(rc.Gaussian(4.0), rc.Shuffled(2, 1, 1), 1e-5) * 1.001),
        Budget(information=2.001 * rc.Gaussian(4.0, dim=16, max_batch_size=1).mutual_information()),
        Budget(capacity=2.001 * rc.Gaussian(4.0, dim=16, max_batch_size=1).log_bayes_capacity()),
    ],
)
def test_a_spent_budget_keeps_the_client_out_over_restarts(message, context, app, tmp_path, budget):
    def fresh():
        return defend(rc.Gaussian(4.0), max_norm=1.0, ledger=tmp_path, budget=budget)

    train = app()
    replies = [fresh()(message(number=n), context(), train) for n in range(1, 5)]
    assert [reply.has_error() for reply in replies] == [False, False, True, True]
    assert "budget" in replies[2].error.reason
    assert "spent" in replies[2].error.reason
    assert len(train.calls) == 2, "a client without budget does not even train"


def test_a_changed_run_goes_on_counting(message, context, app, tmp_path):
    for run, kappa in ((7, 5.0), (8, 5.0), (9, 6.0)):
        mod = defend(rc.VonMisesFisher(kappa), max_norm=1.0, ledger=tmp_path)
        mod(message(run=run), context(), app())
    cost = spent(ReleaseLedger(tmp_path).lines())
    assert cost.rounds == 3
    parts = [rc.VonMisesFisher(k, 16).mutual_information() for k in (5.0, 5.0, 6.0)]
    assert cost.information == pytest.approx(sum(parts))


def test_clients_of_one_machine_have_ledgers_of_their_own(message, context, app, tmp_path):
    mod = defend(rc.Gaussian(1.0), max_norm=1.0)
    for part in (0, 1):
        given = context(**{"partition-id": part, "ledger": str(tmp_path)})
        mod(message(), given, app())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["client-0", "client-1"]


def test_without_a_folder_the_context_remembers(message, context, app):
    mod, given = defend(rc.Gaussian(1.0), max_norm=1.0, budget=Budget(rounds=1)), context()
    first = mod(message(), given, app())
    again = mod(message(), given, app())
    assert sent_arrays(first)["w"].tolist() == sent_arrays(again)["w"].tolist()
    assert mod(message(number=2), given, app()).has_error()
    assert len(MemoryLedger(given).lines()) == 1


def test_figures_say_whom_they_protect_and_client_sampling_amplifies_nothing(
    message, context, app, tmp_path
):
    mod = defend(rc.Gaussian(4.0), max_norm=1.0, ledger=tmp_path)
    for number in range(1, 4):
        mod(message(number=number), context(), app())
    cost = spent(ReleaseLedger(tmp_path).lines())
    assert cost.level == "client"
    assert cost.protects.startswith("the client")
    assert cost.neighbouring == "replace-one"
    # Three full releases of sensitivity 2, whatever share of the clients a round asked.
    assert cost.epsilon == pytest.approx(rc.epsilon(rc.Gaussian(4.0), rc.Shuffled(3, 1, 1), 1e-5))
    assert cost.gamma["server"] == cost.gamma["prior"] == "not bounded"
    assert not cost.simulation


def test_a_seed_makes_it_a_simulation(message, context, app, tmp_path):
    mod = defend(rc.Gaussian(1.0), max_norm=1.0, ledger=tmp_path, seed=3)
    mod(message(), context(), app())
    assert spent(ReleaseLedger(tmp_path).lines()).simulation


def test_a_cut_line_and_a_strange_file(message, context, app, tmp_path):
    mod = defend(rc.Gaussian(1.0), max_norm=1.0, ledger=tmp_path)
    mod(message(), context(), app())
    path = tmp_path / "releases.jsonl"
    with path.open("ab") as file:
        file.write(b'{"key": "half')
    mod(message(number=2), context(), app())
    assert len(ReleaseLedger(tmp_path).lines()) == 2
    path.write_text("something else\n")
    with pytest.raises(ValueError, match="not a file written by recondite"):
        ReleaseLedger(tmp_path)
    assert mod(message(number=3), context(), app()).has_error(), "no ledger, no release"


def test_mistakes_are_told_in_one_line():
    with pytest.raises(ValueError, match="max_norm bounds the update"):
        defend(rc.Gaussian(1.0))
    with pytest.raises(ValueError, match="two defences"):
        defend(rc.Gaussian(1.0), max_norm=1.0, channel=object())
    with pytest.raises(ValueError, match="leave it out in secure mode"):
        defend(rc.Gaussian(1.0), max_norm=1.0, secure=True, seed=1)
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        Budget(epsilon=0)


def test_secure_noise(message, context, app):
    sent = message()
    reply = defend(rc.VonMisesFisher(5.0), max_norm=1.0, secure=True)(sent, context(), app())
    assert np.linalg.norm(update(reply, sent)) == pytest.approx(1.0, rel=1e-5)
