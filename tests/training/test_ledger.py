"""The ledger of an engine: one writer at a time, nothing released that is not on disk."""

import copy
import errno
import gc
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import recondite as rc
from recondite import _files
from recondite.training import PrivacyEngine
from recondite.training.ledger import Ledger, LedgerError
from recondite.training.plan import Plan
from recondite.training.trainer import train

torch.set_num_threads(1)

DELTA = 1e-3


def private(mechanism=None, sampling="poisson", **options):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(80, 6), torch.arange(80) % 2)
    net = nn.Linear(6, 2)
    engine = PrivacyEngine(**options)
    _, optimizer, loader = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8),
        mechanism=mechanism or rc.Gaussian(2.0),
        sampling=sampling,
    )
    return engine, net, optimizer, loader


def step(net, optimizer, batch):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(batch[0]), batch[1]).backward()
    optimizer.step()


def take(run, steps):
    """So many steps, each epoch broken off where they end."""
    _, net, optimizer, loader = run
    while steps:
        for batch in loader:
            step(net, optimizer, batch)
            steps -= 1
            if not steps:
                break


# ---- H2: one writer at a time


def test_a_second_engine_on_the_same_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.json"
    first = private(ledger=path)
    with pytest.raises(ValueError, match=r"ledger ledger\.json is in use by another") as caught:
        private(ledger=path)
    assert "\n" not in str(caught.value)
    assert "close()" in str(caught.value)
    take(first, 60)
    assert Ledger(path).taken == 100  # looking needs no lock
    first[0].ledger.close()
    second = private(ledger=path)
    take(second, 40)
    second[0].ledger.close()
    assert Ledger(path).taken == 100
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.json"]


def test_another_process_is_kept_out_and_a_kill_lets_go(tmp_path):
    path = tmp_path / "ledger.json"
    code = """
        import sys
        from recondite.training.ledger import Ledger
        ledger = Ledger(sys.argv[1])
        for _ in range(70):
            ledger.before_release()
        print("taken", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as child:
        assert child.stdout.readline() == b"taken\n"
        with pytest.raises(ValueError, match="in use by another engine or process"):
            Ledger(path).before_release()
        with pytest.raises(ValueError, match="in use by another engine or process"):
            private(ledger=path)
        child.kill()
        child.wait()
    again = Ledger(path)
    assert again.taken == 100  # two blocks of 50 hold the 70
    again.before_release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.before_release()
    (ready, say), (wait, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.write(say, b"x")
        os.read(wait, 1)  # lives until the parent has looked
        os._exit(0)
    os.read(ready, 1)
    os.close(ledger._lock._handle)  # as if the parent were gone
    ledger._lock._handle = -1
    again = Ledger(tmp_path / "ledger.json")
    again.before_release()  # refused, were the lock the child's too
    assert again._lock.held
    os.close(end)
    os.waitpid(child, 0)


def test_a_forgotten_engine_lets_go(tmp_path):
    take(private(ledger=tmp_path / "ledger.json"), 3)  # its hooks refer to it in circles
    assert private(ledger=tmp_path / "ledger.json")[0].steps == 50


def test_a_file_changed_by_others_stops_the_count(tmp_path):
    path = tmp_path / "ledger.json"
    ledger, other = Ledger(path), Ledger(tmp_path / "other.json")
    for _ in range(50):
        ledger.before_release()
    other.before_release()
    (tmp_path / "other.json").replace(path)
    for _ in range(2):
        with pytest.raises(LedgerError, match="not as this engine left it"):
            ledger.before_release()
    assert ledger.taken == 50
    path.unlink()
    with pytest.raises(LedgerError, match="not as this engine left it"):
        ledger.before_release()


def test_drafts_of_others_are_not_in_the_way(tmp_path):
    (tmp_path / "ledger.json.part").mkdir()
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.before_release()
    assert Ledger(tmp_path / "ledger.json").taken == 50


def test_two_trainings_in_one_folder(tmp_path):
    plan = Plan(data="digits", model="mlp", mechanism=rc.Gaussian(2.0), epochs=1)
    seen = []

    def second(now):
        if not seen:
            seen.append(now)
            with pytest.raises(ValueError, match=r"ledger ledger\.json is in use"):
                train(plan, out=tmp_path)

    record, _ = train(plan, out=tmp_path, progress=second)
    assert seen
    assert record.privacy["schedule"]["steps"] == 12


# ---- H3: nothing is released that is not counted on disk


class Broken:
    """A file that opens and cannot be written."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")


def refuse(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def broken(point, monkeypatch):
    """Makes one of the points of a write fail."""
    if point == "open":
        monkeypatch.setattr(_files.os, "open", refuse)
    elif point == "write":
        fdopen = os.fdopen
        monkeypatch.setattr(_files.os, "fdopen", lambda *a: Broken(fdopen(*a)))
    elif point == "folder":
        monkeypatch.setattr(_files, "sync_folder", refuse)
    else:
        monkeypatch.setattr(_files.os, point, refuse)


POINTS = ["open", "write", "fsync", "replace", "folder"]


@pytest.mark.parametrize("point", POINTS)
def test_a_step_that_cannot_be_counted_is_not_taken(point, tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    engine, net, optimizer, loader = run = private(ledger=path)
    take(run, 50)
    before = [p.detach().clone() for p in net.parameters()]
    epoch = iter(loader)
    for _ in range(3):
        batch = next(epoch)  # a refused batch is forgotten: each try has one of its own
        with monkeypatch.context() as failing:
            broken(point, failing)
            with pytest.raises(LedgerError, match="No space left on device") as caught:
                step(net, optimizer, batch)
        assert "\n" not in str(caught.value)
        with pytest.raises(ValueError, match="needs a new batch"):
            step(net, optimizer, batch)
    with monkeypatch.context() as failing:
        broken(point, failing)
        with pytest.raises(LedgerError):
            next(iter(loader))
    assert engine.steps == 50
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    count = engine.ledger.epochs
    take(run, 10)
    assert engine.steps == 60
    assert json.loads(path.read_text())["reserved"] == 100
    assert json.loads(path.read_text())["epochs"] == engine.ledger.epochs > count
    engine.ledger.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.json"]


@pytest.mark.parametrize("point", POINTS)
def test_after_a_failed_write_no_reserved_step_is_taken_either(point, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.before_release()
    broken(point, monkeypatch)
    with pytest.raises(LedgerError):
        ledger.before_epoch()
    with pytest.raises(LedgerError):
        ledger.before_release()
    assert (ledger.taken, ledger.epochs) == (1, 0)
    monkeypatch.undo()
    ledger.before_release()
    ledger.before_epoch()
    assert (ledger.taken, ledger.epochs) == (2, 1)
    assert Ledger(tmp_path / "ledger.json").epochs == 1


def test_a_lowered_count_is_refused(tmp_path):
    path = tmp_path / "ledger.json"
    Ledger(path).before_release()
    text = path.read_text()
    path.write_text(text.replace("50", "3"))
    with pytest.raises(ValueError, match=r"ledger ledger\.json is not readable \(its checksum"):
        Ledger(path)
    path.write_text(json.dumps({**json.loads(text), "schema_version": 4}))
    with pytest.raises(ValueError, match=r"ledger ledger\.json is not readable"):
        Ledger(path)


# ---- W18: epochs that were begun


def test_epochs_broken_off_cost_as_much_in_every_answer():
    run = private(sampling="shuffled")
    for _ in range(6):
        take(run, 2)
    engine = run[0]
    whole = rc.accounting.epsilon(engine.mechanism, engine.loader.schedule(60), DELTA)
    assert engine.get_epsilon(DELTA) == engine.report(DELTA).epsilon["pld"] == whole


def test_an_epoch_that_would_exceed_the_budget_is_not_begun():
    probe = private(sampling="shuffled")[0]
    limit = rc.accounting.epsilon(probe.mechanism, probe.loader.schedule(40), DELTA)
    run = private(sampling="shuffled", max_epsilon=limit * 1.001, delta=DELTA)
    engine, net, optimizer, loader = run
    for _ in range(9):
        for batch in loader:
            step(net, optimizer, batch)
            break
    assert (engine.steps, engine.ledger.epochs) == (4, 4)
    assert engine.report(DELTA).epsilon["pld"] <= engine.max_epsilon
    # An epoch that was begun may be finished.
    run = private(sampling="shuffled", max_epsilon=limit * 1.001, delta=DELTA)
    for _ in range(9):
        for batch in run[3]:
            step(run[1], run[2], batch)
    assert (run[0].steps, run[0].ledger.epochs) == (40, 4)
    assert run[0].get_epsilon(DELTA) <= run[0].max_epsilon


# ---- W19: counts from elsewhere


def test_counts_of_other_releases_are_added_and_known_ones_are_not():
    one, two = private(), private()
    take(one, 7)
    take(two, 10)
    early = json.loads(json.dumps(two[0].state_dict()))
    one[0].load_state_dict(early)
    assert one[0].steps == 17
    take(two, 5)
    for _ in range(2):  # a later checkpoint of the same run, twice
        one[0].load_state_dict(two[0].state_dict())
        one[0].load_state_dict(early)
        one[0].load_state_dict(one[0].state_dict())
    assert one[0].steps == 22
    third = private()[0]
    third.load_state_dict(early)
    third.load_state_dict(one[0].state_dict())
    assert third.steps == 22


def test_a_run_resumed_from_its_ledger_counts_nothing_twice(tmp_path):
    path = tmp_path / "ledger.json"
    first = private(ledger=path)
    take(first, 24)
    state = first[0].state_dict()
    first[0].ledger.close()
    for _ in range(3):
        again = private(ledger=path)
        again[0].load_state_dict(state)
        assert again[0].steps == 24
        again[0].ledger.close()
    take(again, 6)
    assert again[0].steps == 30
    assert again[0].state_dict()["epochs"] == 3 + 1


def test_an_interrupted_training_resumes_exactly(tmp_path):
    plan = Plan(data="digits", model="mlp", mechanism=rc.Gaussian(2.0), epochs=3)

    def stop(now):
        if now.step == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(plan, out=tmp_path, progress=stop)
    record, _ = train(plan, out=tmp_path)
    # The first block of 50 was reserved; the checkpoint's 24 are among them. Then one epoch.
    assert record.training["steps"] == 50 + 12


def test_a_copied_engine_counts_under_a_name_of_its_own():
    ledger = Ledger()
    for _ in range(3):
        ledger.before_release()
    other = copy.deepcopy(ledger)
    other.before_release()
    ledger.before_release()
    ledger.take_over(other.runs(), False)
    assert ledger.taken == 5


def test_counts_of_the_first_version(tmp_path):
    path = tmp_path / "ledger.json"
    run = private()
    take(run, 10)
    old = run[0].state_dict()
    terms = run[0].ledger.terms
    del old["runs"]
    path.write_text(json.dumps({"schema_version": 2, "reserved": 50, "epochs": 2, "terms": terms}))
    engine = private(ledger=path)[0]
    assert (engine.steps, engine.ledger.epochs) == (50, 2)
    assert "0.1.0" in engine.report(DELTA).assumptions[0]
    engine.load_state_dict(old)  # whose steps these are is not known
    assert engine.steps == 60
    take(run, 1)
    with pytest.raises(ValueError, match="steps of no run"):
        engine.load_state_dict({**run[0].state_dict(), "steps": 90})


def test_a_seed_is_never_forgotten(tmp_path):
    path = tmp_path / "ledger.json"
    seeded = private(seed=3, ledger=path)
    take(seeded, 4)
    state = json.loads(json.dumps(seeded[0].state_dict()))
    seeded[0].ledger.close()
    by_ledger = private(ledger=path)[0]
    by_state = private(ledger=tmp_path / "other.json")
    by_state[0].load_state_dict(state)
    by_state[0].ledger.close()
    by_both = private(ledger=tmp_path / "other.json")[0]
    for engine in (by_ledger, by_state[0], by_both):
        assert engine.seed is None
        assert engine.state_dict()["simulation"] is True
        assert "simulation: no guarantee" in engine.report(DELTA).assumptions[0]
    assert private()[0].state_dict()["simulation"] is False


def test_a_seeded_ledger_labels_the_record_of_an_unseeded_run(tmp_path):
    def stop(now):
        raise KeyboardInterrupt

    fields = {"data": "digits", "model": "mlp", "mechanism": rc.Gaussian(2.0), "epochs": 1}
    with pytest.raises(KeyboardInterrupt):
        train(Plan(**fields, seed=5), out=tmp_path, progress=stop)
    record, _ = train(Plan(**fields), out=tmp_path)
    assert record.simulation
    assert "simulation: no guarantee" in record.notes[0]
    assert "simulation: no guarantee" in record.privacy["assumptions"][0]


def test_an_engine_that_nobody_holds_gives_its_ledger_back(tmp_path, monkeypatch):
    """Engines stand in cycles: without a collection the lock would wait for one."""
    gc.disable()
    try:
        first = Ledger(tmp_path / "ledger.json")
        first.bind({}, simulation=False)
        first.itself = first
        del first
        with monkeypatch.context() as patched:
            patched.setattr(gc, "collect", lambda: 0)
            with pytest.raises(ValueError, match="in use by another engine"):
                Ledger(tmp_path / "ledger.json").bind({}, simulation=False)
        second = Ledger(tmp_path / "ledger.json")
        second.bind({}, simulation=False)  # refused, were nothing collected
        assert second._lock.held
    finally:
        gc.enable()
