"""Training from beginning to end: the record, resuming, what is written and what is not."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import recondite as rc
from recondite.cli.main import run
from recondite.mechanisms.none import NoNoise
from recondite.models import build, load_weights
from recondite.training.canary import audit_run
from recondite.training.plan import Plan
from recondite.training.trainer import DIVERGED, _diverged, train

torch.set_num_threads(1)

KEYS = {
    "schema_version",
    "kind",
    "data",
    "model",
    "defence",
    "training",
    "results",
    "privacy",
    "simulation",
    "notes",
    "created",
    "machine",
    "audit",
    "diverged",
}


def plan(mechanism, **changes):
    return Plan(
        **{"data": "digits", "model": "mlp", "mechanism": mechanism, "epochs": 2, **changes}
    )


def test_plain_training_learns_and_says_that_nothing_protects():
    record, _ = train(
        plan(NoNoise(), clipping="none", sampling="shuffled", epochs=12, batch_size=32, seed=0)
    )
    out = record.to_dict()
    assert set(out) == KEYS
    assert out["results"]["test_accuracy"] > 0.8
    assert out["privacy"] is None
    json.dumps(out, allow_nan=False)


@pytest.mark.parametrize(
    "mechanism",
    [
        rc.Gaussian(1.0),
        rc.VonMisesFisher(300.0),
        rc.Directional(50.0, blocks="layers"),
        rc.PartitionedVonMisesFisher(100.0, blocks=3),
    ],
)
def test_record_of_a_private_run(mechanism, tmp_path):
    record, model = train(plan(mechanism), out=tmp_path / "run")
    out = record.to_dict()
    assert out["defence"]["name"] == mechanism.name
    assert out["privacy"]["epsilon"]["pld"] > 0
    assert out["privacy"]["schedule"]["steps"] == out["training"]["steps"] == 24
    assert out["simulation"] is False
    assert out["data"]["pixel_scale"].startswith("(pixel in [0, 1] - (0.5))")
    assert json.loads((tmp_path / "run" / "record.json").read_text()) == out
    fresh = load_weights(build("mlp", (1, 16, 16)), tmp_path / "run" / "weights.safetensors")
    for name, value in model.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], value)
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "ledger.json",
        "record.json",
        "weights.safetensors",
    ]
    assert json.loads((tmp_path / "run" / "ledger.json").read_text())["reserved"] == 24
    with pytest.raises(ValueError, match="finished run"):
        train(plan(mechanism), out=tmp_path / "run")


def test_calibrated_runs_meet_their_target_and_budgets_stop_them():
    record, _ = train(plan(rc.VonMisesFisher(1.0)), target_epsilon=2.0, delta=1e-3)
    assert 1.9 <= record.privacy["epsilon"]["pld"] <= 2.0
    stopped, _ = train(plan(rc.Gaussian(2.0), epochs=30), max_epsilon=1.0, delta=1e-3)
    assert stopped.privacy["epsilon"]["pld"] <= 1.0
    assert stopped.training["steps"] < 30 * 12


def test_seeded_runs_repeat_and_no_file_holds_the_seed(tmp_path):
    seed = 918273645
    one, _ = train(plan(rc.VonMisesFisher(100.0), seed=seed), out=tmp_path / "one")
    two, _ = train(plan(rc.VonMisesFisher(100.0), seed=seed))
    assert one.results == two.results
    assert one.simulation
    assert any("simulation" in note for note in one.notes)
    for path in (tmp_path / "one").iterdir():
        assert str(seed).encode() not in path.read_bytes()


def test_a_killed_run_goes_on_and_counts_what_was_lost(tmp_path):
    out = tmp_path / "run"
    code = (
        "import recondite as rc, torch; torch.set_num_threads(1)\n"
        "from recondite.training.plan import Plan\n"
        "from recondite.training.trainer import train\n"
        "plan = Plan(data='digits', model='mlp', mechanism=rc.VonMisesFisher(50.0), epochs=400)\n"
        f"train(plan, out={str(out)!r})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (out / "checkpoint.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    state = torch.load(out / "checkpoint.pt", weights_only=True)
    reserved = json.loads((out / "ledger.json").read_text())["reserved"]
    assert reserved >= state["engine"]["steps"]
    epochs = state["epochs"] + 2
    record, _ = train(plan(rc.VonMisesFisher(50.0), epochs=epochs), out=out)
    # Lost steps stay counted: the run reports no less than what may have been released.
    assert record.training["steps"] >= reserved + 2 * 12
    assert not (out / "checkpoint.pt").exists()


def test_another_runs_checkpoint_is_refused(tmp_path):
    out = tmp_path / "run"
    train(plan(rc.VonMisesFisher(50.0)), out=out)
    os.remove(out / "record.json")
    first = plan(rc.VonMisesFisher(50.0))
    torch.save({"plan": {**first.fingerprint(), "batch_size": 7}}, out / "checkpoint.pt")
    with pytest.raises(ValueError, match="another run"):
        train(first, out=out)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"optimizer": "magic"}, "optimizer"),
        ({"momentum": 0.9}, "momentum"),
    ],
)
def test_bad_plans_are_refused_at_once(changes, words):
    with pytest.raises(ValueError, match=words):
        plan(NoNoise(), **changes)


COMMAND = ["train", "--data", "digits", "--model", "mlp", "--epochs", "1"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ([], "nothing protects"),
        (["--defence", "clip"], "nothing protects"),
        (["--defence", "vmf", "--kappa", "75"], "reconstruction (ReRo)"),
        (["--defence", "gaussian", "--epsilon", "3", "--clipping", "psac"], "ε, tight"),
        (["--defence", "directional", "--kappa", "10", "--blocks", "layers"], "directional"),
        (
            ["--defence", "partitioned", "--kappa", "10", "--blocks", "3", "--seed", "1"],
            "simulation: no guarantee",
        ),
    ],
)
def test_command(capsys, extra, words):
    assert run([*COMMAND, *extra]) == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("defence", ["none", "clip"])
def test_what_nothing_protects_is_not_called_a_simulation(capsys, defence):
    assert run([*COMMAND, "--defence", defence, "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "nothing protects" in said
    assert "simulation" not in said


@pytest.mark.parametrize("rate", ["1e30", "1e38"])
def test_training_that_diverges_says_so_and_exits_with_1(capsys, rate):
    extra = ["--defence", "none", "--optimizer", "sgd", "--lr", rate]
    assert run([*COMMAND, *extra]) == 1
    told = capsys.readouterr()
    assert "training diverged" in told.out
    assert told.err.strip() == f"warning: {DIVERGED}"
    assert run([*COMMAND, *extra, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["diverged"] is True


def test_a_loss_that_grows_a_little_has_not_diverged():
    assert not _diverged((30.0, 1e6), 2.3)
    assert _diverged((30.0, 3e6), 2.3)
    assert not _diverged((1e12,), 1e10)  # amounts on their own scale
    assert not _diverged((1e12,), None)
    assert _diverged((float("nan"),), None)
    assert _diverged((float("inf"), 1.0), None)


def test_command_writes_json_and_files(capsys, tmp_path):
    out = tmp_path / "run"
    assert run([*COMMAND, "--defence", "vmf", "--kappa", "75", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "training"
    assert (out / "weights.safetensors").exists()


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--defence", "vmf"], "--kappa"),
        (["--defence", "magic"], "--defence must be one of"),
        (["--defence", "vmf", "--kappa", "-3"], "kappa"),
        (["--data", "nowhere"], "data must be one of"),
        (["--model", "nothing"], "model must be one of"),
        (["--batch-size", "0"], "batch_size"),
        (["--weights", "missing.safetensors"], "missing.safetensors"),
        (["--data", "mnist", "--data-dir", "empty"], "mnist"),
    ],
)
def test_command_mistakes_are_one_line(capsys, monkeypatch, tmp_path, extra, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECONDITE_DATA", raising=False)
    assert run([*COMMAND, *extra]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_an_audit_stands_beside_the_account_and_stays_below_its_claim(capsys):
    record, _ = train(plan(rc.VonMisesFisher(100.0), epochs=1, seed=4), audit=True)
    audit = record.to_dict()["audit"]
    assert 0 < audit["lower"] <= audit["claim"]
    assert audit["refuted"] is False
    assert audit["dim"] == record.model["parameters"]
    command = [*COMMAND, "--defence", "gaussian", "--epsilon", "8", "--audit", "--seed", "4"]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "canary audit" in out
    assert "at least" in out
    assert "claim" in out
    with pytest.raises(ValueError, match="audit needs a mechanism with noise"):
        train(plan(NoNoise()), audit=True)


@pytest.mark.parametrize("blocks", ["rows", (13_000, 700), 3])
def test_an_audit_of_blocks(blocks):
    mechanism = rc.PartitionedVonMisesFisher(1.0, blocks=blocks)
    if blocks == (13_000, 700):
        record, _ = train(plan(mechanism, epochs=1, seed=4), audit=True)
        audit = record.to_dict()["audit"]
    else:
        sized = rc.PartitionedVonMisesFisher(2.0, dim=50, blocks=5)
        audit = audit_run(mechanism, sized, runs=200, seed=4).to_dict()
        assert audit["dim"] == 50
    assert audit["lower"] <= audit["claim"]


def test_secure_runs_say_so_and_take_no_seed(capsys):
    record, _ = train(plan(rc.Gaussian(1.0), epochs=1, secure=True))
    assert record.defence["secure"] is True
    with pytest.raises(ValueError, match="secure mode"):
        plan(rc.Gaussian(1.0), secure=True, seed=1)
    assert run([*COMMAND, "--defence", "vmf", "--kappa", "75", "--secure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["defence"]["secure"] is True


def test_titles_name_many_blocks_by_their_number(capsys):
    assert run([*COMMAND, "--defence", "partitioned", "--kappa", "9", "--blocks", "rows"]) == 0
    assert "blocks 75 (15–256)" in capsys.readouterr().out.splitlines()[0]


def test_noise_options_without_noise_are_refused(capsys):
    assert run([*COMMAND, "--kappa", "9"]) == 2
    assert "--kappa" in capsys.readouterr().err
