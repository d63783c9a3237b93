"""Training with a channel: noise on records, ordinary steps, an account of its own."""

import json
import math

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.channels import MinimumPowerChannel, WhiteChannel
from recondite.channels.registry import CHANNELS as REGISTERED
from recondite.channels.spectral import FlooredChannel
from recondite.cli.main import run
from recondite.defences import MinimumPowerNoise, WhiteNoise
from recondite.mechanisms.none import NoNoise
from recondite.training.plan import CHANNELS, Plan
from recondite.training.trainer import train

torch.set_num_threads(1)

FITTED = {"white": WhiteChannel, "minimum-power": MinimumPowerChannel}


def plan(channel="natural", **changes):
    fields = {
        "data": "digits",
        "model": "mlp",
        "mechanism": NoNoise(),
        "clipping": "none",
        "channel": channel,
        "capacity": 100.0,
        "epochs": 2,
    }
    return Plan(**{**fields, **changes})


def test_a_plan_knows_the_channels_there_are():
    assert tuple(REGISTERED) == CHANNELS


@pytest.mark.parametrize("noise", ["once", "per_step"])
@pytest.mark.parametrize("channel", CHANNELS)
def test_record_of_a_run(channel, noise, tmp_path):
    record, _ = train(plan(channel, channel_noise=noise), out=tmp_path / "run")
    out = record.to_dict()
    told = out["privacy"]["mutual_information"]
    assert out["defence"]["name"] == f"{channel}-channel"
    assert told["per_release"] == pytest.approx(100, rel=1e-6)
    assert out["privacy"]["schedule"]["uses"] == (1 if noise == "once" else 2)
    assert told["run"] == told["per_release"] if noise == "once" else told["run"] > 101
    assert out["privacy"]["epsilon"]["pld"] > 1
    capacity = out["privacy"]["log_bayes_capacity"]
    # Mutual information never exceeds the log of Bayes' capacity, a largest over priors.
    assert capacity["run"] >= capacity["per_release"] >= told["per_release"]
    assert out["training"]["steps"] == 2 * 12
    assert any("fitted on the training records" in note for note in out["notes"])
    assert json.loads((tmp_path / "run" / "record.json").read_text()) == out
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["channel.jsonl", "record.json", "weights.safetensors"]
    with pytest.raises(ValueError, match="finished run"):
        train(plan(channel, channel_noise=noise), out=tmp_path / "run")


@pytest.mark.parametrize("noise", ["once", "per_step"])
def test_seeded_runs_repeat_and_are_simulations(noise):
    seed = 918273645
    one, first = train(plan(channel_noise=noise, seed=seed))
    two, second = train(plan(channel_noise=noise, seed=seed))
    assert one.results == two.results
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert one.simulation
    assert one.privacy["information"]["guarantee"] is False
    assert str(seed) not in json.dumps(one.to_dict())


def test_more_capacity_is_less_noise_and_learns():
    weak, _ = train(plan(capacity=1.0, epochs=10, batch_size=32, seed=0))
    strong, _ = train(plan(capacity=200.0, epochs=10, batch_size=32, seed=0))
    assert strong.results["test_accuracy"] > max(0.8, weak.results["test_accuracy"])
    assert strong.defence["noise_std"]["max"] < weak.defence["noise_std"]["min"]


def test_a_resumed_run_counts_every_draw_and_use(tmp_path):
    def stop(now):
        if now.epoch == 1:
            raise KeyboardInterrupt

    for noise, uses in (("per_step", 4), ("once", 2)):
        out = tmp_path / noise
        with pytest.raises(KeyboardInterrupt):
            train(plan(channel_noise=noise, epochs=3), out=out, progress=stop)
        assert (out / "checkpoint.pt").exists()
        if noise == "once":
            with pytest.warns(UserWarning, match="not the first draw"):
                record, _ = train(plan(channel_noise=noise, epochs=3), out=out)
        else:
            record, _ = train(plan(channel_noise=noise, epochs=3), out=out)
        # Three epochs, and for some records the one that was broken off (once: a second draw).
        assert record.privacy["schedule"]["uses"] == uses


def test_with_a_secret_a_resumed_run_draws_the_same_noise(tmp_path):
    def stop(now):
        if now.epoch == 1:
            raise KeyboardInterrupt

    secret, out = tmp_path / "secret", tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(plan(), out=out, secret=secret, progress=stop)
    record, _ = train(plan(), out=out, secret=secret)
    assert record.privacy["schedule"]["uses"] == 1
    key = secret.read_bytes()
    assert all(key not in path.read_bytes() for path in out.iterdir())


def test_a_budget_of_information_stops_the_run():
    with pytest.warns(UserWarning, match="total_information"):
        record, _ = train(plan(channel_noise="per_step", epochs=5), max_information=120.0)
    assert record.privacy["mutual_information"]["run"] <= 120.0
    assert record.training["steps"] < 5 * 12
    assert any("is spent" in note for note in record.notes)


def test_fitted_elsewhere_and_with_own_weights(tmp_path):
    record, _ = train(plan(channel_data="digits", epochs=1))
    assert record.defence["fitted_on"] == "digits"
    assert not any("fitted on the training" in note for note in record.notes)
    np.save(tmp_path / "beta.npy", np.linspace(1, 2, 256))
    record, _ = train(plan("personalized", beta=str(tmp_path / "beta.npy"), epochs=1))
    assert record.defence["parameters"]["beta"] == "given"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"capacity": None}, "capacity is needed"),
        ({"capacity": -1.0}, "capacity"),
        ({"channel": "pink"}, "channel must be one of"),
        ({"channel": None}, "capacity belongs to a channel"),
        ({"channel_noise": "twice"}, "channel_noise"),
        ({"mechanism": rc.Gaussian(1.0)}, "not on gradients"),
        ({"clipping": "flat"}, "not on gradients"),
        ({"sampling": "poisson"}, "sampling"),
        ({"beta": "x.npy"}, "beta"),
        ({"physical_batch_size": 4}, "physical_batch_size"),
        ({"secure": True}, "secure"),
    ],
)
def test_bad_plans_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        plan(**changes)


def test_bad_calls_are_refused(tmp_path):
    with pytest.raises(ValueError, match="noise on gradients"):
        train(plan(), max_epsilon=1.0)
    with pytest.raises(ValueError, match="belong to a channel"):
        train(Plan(data="digits", model="mlp", mechanism=NoNoise()), max_information=1.0)
    with pytest.raises(ValueError, match="per_step noise is always fresh"):
        train(plan(channel_noise="per_step"), secret=tmp_path / "secret")
    with pytest.raises(ValueError, match=r"no plain \.npy"):
        train(plan("personalized", beta=str(tmp_path / "none.npy")))


COMMAND = ["train", "--data", "digits", "--model", "mlp", "--epochs", "1"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--defence", "natural", "--capacity", "100"], "drawn once"),
        (["--defence", "white-channel", "--capacity", "100", "--noise", "per_step"], "1 use "),
        (["--defence", "personalized", "--capacity", "9", "--seed", "3"], "simulation"),
    ],
)
def test_command(capsys, extra, words):
    assert run([*COMMAND, *extra]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--defence", "natural"], "capacity is needed"),
        (["--defence", "nosuch"], "none, clip, gaussian, vmf, partitioned, directional"),
        (["--defence", "nosuch"], "natural, white, personalized, minimum-power, got 'nosuch'"),
        (["--defence", "vmf", "--kappa", "3", "--noise", "once"], "--noise"),
        (["--defence", "natural", "--capacity", "9", "--epsilon", "3"], "epsilon"),
        (["--defence", "natural", "--capacity", "9", "--kappa", "3"], "kappa"),
        (["--defence", "natural", "--capacity", "9", "--clipping", "flat"], "clipping"),
    ],
)
def test_command_mistakes_are_one_line(capsys, extra, words):
    assert run([*COMMAND, *extra]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


def stop(now):
    raise KeyboardInterrupt


@pytest.mark.parametrize("noise", ["once", "per_step"])
def test_uses_of_another_channel_in_the_folder_are_refused(noise, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(plan(capacity=500.0, channel_noise=noise), out=tmp_path, progress=stop)
    with pytest.raises(ValueError, match="holds uses of another channel") as caught:
        train(plan(capacity=1.0, channel_noise=noise), out=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("channel", ["white", "minimum-power"])
def test_a_run_begun_with_noise_along_all_directions_goes_on_with_it(
    channel, seed, tmp_path, monkeypatch
):
    """As version 0.1.0 did: what it counted is of the same noise, and the account stays finite."""
    mine = plan(channel, channel_noise="per_step", epochs=1, seed=seed, capacity=2.0)
    with monkeypatch.context() as old:
        old.setattr(FlooredChannel, "following", lambda self, directions="auto": self)
        with pytest.raises(KeyboardInterrupt):
            train(mine, out=tmp_path / "run", progress=stop)
        whole, _ = train(mine)
    record, _ = train(mine, out=tmp_path / "run")
    assert record.defence["noise_std"] == pytest.approx(whole.defence["noise_std"], rel=1e-6)
    assert record.privacy["epsilon"]["pld"] < math.inf
    lines = (tmp_path / "run" / "channel.jsonl").read_text().splitlines()
    assert len({json.loads(line)["law"] for line in lines if "law" in line}) == 1
    few, _ = train(mine)
    assert few.defence["noise_std"] != pytest.approx(whole.defence["noise_std"], rel=1e-3)


def test_only_noise_drawn_at_every_use_follows_fewer_directions():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 60)) * np.geomspace(3, 0.01, 60)
    for kind in (WhiteNoise, MinimumPowerNoise):
        once, fresh = (kind(2.0, noise=noise).fit(rows, (60,)) for noise in ("once", "per_step"))
        full = FITTED[once.name].fit(rows, 2.0)
        assert once.noise.directions == full.noise.directions == 60
        assert once.noise.fingerprint() == full.noise.fingerprint()
        assert fresh.noise.directions < 30
        assert fresh.capacity_nats == pytest.approx(full.capacity_nats, rel=1e-9)


def test_uses_of_another_channel_by_the_same_secret_have_no_finite_epsilon(tmp_path):
    secret = tmp_path / "secret"
    with pytest.raises(KeyboardInterrupt):
        train(plan(capacity=500.0), secret=secret, progress=stop)
    with pytest.warns(UserWarning, match="not the first draw"):
        record, _ = train(plan(capacity=1.0, epochs=1), secret=secret)
    privacy = record.to_dict()["privacy"]
    assert privacy["epsilon"]["pld"] == privacy["log_bayes_capacity"]["run"] == "inf"
    assert privacy["rero"]["bound"] == 1.0
    assert privacy["mutual_information"]["run"] == pytest.approx(501)
    assert any("uses of another channel" in line for line in privacy["assumptions"])


@pytest.mark.parametrize("noise", ["once", "per_step"])
def test_a_seeded_start_labels_the_record_of_an_unseeded_run(noise, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(plan(channel_noise=noise, seed=5), out=tmp_path, progress=stop)
    if noise == "once":
        with pytest.warns(UserWarning, match="not the first draw"):
            record, _ = train(plan(channel_noise=noise, epochs=1), out=tmp_path)
    else:
        record, _ = train(plan(channel_noise=noise, epochs=1), out=tmp_path)
    assert record.simulation
    assert record.privacy["information"]["guarantee"] is False


@pytest.mark.parametrize("content", [b"", b"PK", b"no checkpoint"])
def test_a_damaged_checkpoint_is_no_interruption(content, tmp_path, capsys):
    (tmp_path / "checkpoint.pt").write_bytes(content)
    for extra in (["--defence", "natural", "--capacity", "9"], ["--defence", "none"]):
        assert run([*COMMAND, *extra, "--out", str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "holds a damaged checkpoint.pt: remove it" in said
        assert said.count("\n") == 1
