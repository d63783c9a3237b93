"""recondite attack, as a user types it."""

import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from recondite.attacks.presets import PRESETS
from recondite.attacks.registry import names
from recondite.cli.main import run
from recondite.models import build, save_weights
from recondite.records import load


def ask(capsys, *arguments):
    code = run(["attack", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_list_names_every_attack_and_preset(capsys):
    code, out, _ = ask(capsys, "list")
    assert code == 0
    for name in (*names(), *PRESETS):
        assert name in out


def test_a_canary_audit_shows_what_it_found(capsys):
    typed = ("--data", "digits", "--model", "mlp", "--prepare", "none", "--epochs", "1")
    noise = ("--defence", "gaussian", "--noise-multiplier", "1", "--option", "runs=20")
    code, out, _ = ask(capsys, "canary-audit", *typed, *noise)
    assert code == 0
    assert "epsilon, at least" in out
    assert "not refuted" in out


def test_identification_stands_beside_its_bound(capsys):
    typed = ("--data", "digits", "--prepare", "none", "--epochs", "1", "--threat", "training")
    noise = ("--defence", "gaussian", "--noise-multiplier", "1")
    games = ("--option", "games=80", "--option", "candidates=10,20")
    code, out, _ = ask(capsys, "identification", *typed, *noise, *games)
    assert code == 0
    for words in ("1 of 10, participation secret", "1 of 20, participation known", "nobody above"):
        assert words in " ".join(out.split())
    assert out.count("one of each label; 95% interval") == 2  # told apart from ten drawn alike


def test_a_limit_that_excludes_nothing_is_called_none(capsys):
    typed = ("--data", "digits", "--prepare", "none", "--threat", "update")
    games = ("--option", "games=4", "--option", "candidates=5", "--defence", "clip")
    code, out, _ = ask(capsys, "identification", *typed, *games)
    assert code == 0
    assert "no bound below 1" in " ".join(out.split())
    assert "nobody above" not in out


def test_images_of_a_training_by_one_who_knows_when(capsys):
    typed = ("--data", "digits", "--prepare", "none", "--epochs", "1", "--threat", "training")
    noise = ("--defence", "gaussian", "--noise-multiplier", "0.1", "--images", "4", "--json")
    code, out, _ = ask(capsys, "importance-weights", *typed, *noise, "--participation", "known")
    assert code == 0
    assert "participation known" in out
    assert "training records" in out
    code, _, err = ask(capsys, "importance-weights", *typed, *noise, "--participation", "maybe")
    assert code == 2
    assert "participation" in err


def test_makes_its_own_victim_and_writes_a_sheet(capsys, tmp_path):
    sheet = tmp_path / "found.png"
    code, out, _ = ask(
        capsys, "inverting-gradients", "--data", "digits", "--model", "mlp", "--steps", "200",
        "--images", "3", "--out", str(sheet), "--json",
    )  # fmt: skip
    assert code == 0
    record = json.loads(out)
    assert record["reconstruction"]["ssim_mean"] > 0.9
    assert record == json.loads(sheet.with_suffix(".json").read_text())
    width, height = Image.open(sheet).size
    assert width > 3 * 90
    assert height > 180


def test_a_defence_hides_the_images(capsys):
    code, out, _ = ask(
        capsys, "inverting-gradients", "--data", "digits", "--model", "mlp", "--steps", "100",
        "--defence", "vmf", "--kappa", "500", "--images", "2", "--json",
    )  # fmt: skip
    assert code == 0
    record = json.loads(out)
    assert record["label"] == "VMF κ = 500"
    assert record["reconstruction"]["ssim_worst"] < 0.6


def test_membership_on_a_trained_victim(capsys):
    code, out, _ = ask(
        capsys, "membership-threshold", "--data", "digits", "--model", "mlp", "--epochs", "1",
        "--records", "50",
    )  # fmt: skip
    assert code == 0
    assert "AUC" in out
    assert "ε at least" in out


@pytest.fixture
def leaked(tmp_path):
    """A stranger's files: weights, and the gradient of one digit, keyed by parameter name."""
    digits = load("digits", "test")
    model = build("mlp", digits.shape, 10, seed=3)
    loss = cross_entropy(model(digits.images[:1]), digits.labels[:1])
    names_ = [name for name, _ in model.named_parameters()]
    values = torch.autograd.grad(loss, list(model.parameters()))
    save_weights(model, tmp_path / "w.safetensors")
    save_file(dict(zip(names_, values, strict=True)), tmp_path / "g.safetensors")
    return digits, tmp_path


def on_file(folder, *more):
    return (
        "inverting-gradients", "--model", "mlp", "--weights", str(folder / "w.safetensors"),
        "--gradients", str(folder / "g.safetensors"), "--shape", "1,8,8", "--steps", "200", *more,
    )  # fmt: skip


def test_gradients_from_a_file(capsys, leaked):
    digits, folder = leaked
    sheet = folder / "recon.png"
    code, out, _ = ask(capsys, *on_file(folder, "--restarts", "2", "--out", str(sheet), "--json"))
    assert code == 0
    found = json.loads(out)["reconstruction"]
    assert found["labels"] == [[int(digits.labels[0])]]
    assert found["agreement"][0] < 0.1
    pixels = np.asarray(Image.open(sheet).convert("L"), dtype=float)[6:-12, 6:-6]
    small = pixels[6::12, 6::12] / 255
    assert np.abs(small - digits.images[0, 0].numpy()).mean() < 0.05


def test_a_pickle_is_refused_unread(capsys, leaked):
    _, folder = leaked
    torch.save({"a": torch.zeros(1)}, folder / "g.safetensors")
    code, _, err = ask(capsys, *on_file(folder))
    assert code == 2
    assert "pickle" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["inverting-gradient", "--data", "digits"], "did you mean inverting-gradients?"),
        (["dlg"], "--data or --gradients is needed"),
        (["dlg", "--data", "digits", "--option", "stepz=3"], "did you mean steps?"),
        (["dlg", "--data", "digits", "--option", "steps"], "must be NAME=VALUE"),
        (["dlg", "--data", "digits", "--preset", "compare-iga"], "is of inverting-gradients"),
        (["dlg", "--data", "digits", "--preset", "nonsense"], "preset"),
        (["dlg", "--data", "digits", "--out", "x.jpg"], "--out must end in .png"),
        (["dlg", "--data", "digits", "--threat", "model-user"], "needs gradients"),
        (["dlg", "--data", "digits", "--threat", "burglar"], "threat"),
        (["identification", "--data", "digits", "--participation", "maybe"], "secret, known"),
        (["dlg", "--data", "digits", "--defence", "vmff"], "did you mean vmf?"),
        (["dlg", "--data", "nothing-here"], "data"),
        (["dlg", "--gradients", "g", "--model", "mlp"], "--shape is needed"),
        (["dlg", "--gradients", "g", "--shape", "1,2"], "--shape must be"),
        (["membership-lira", "--gradients", "g", "--shape", "1,8,8"], "gradients can only"),
        (["analytic", "--data", "digits", "--model", "lenet-dlg"], "first layer is linear"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, line):
    code, out, err = ask(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert line in err


def test_a_missing_library_is_one_line_that_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "recondite.attacks", None)
    code, _, err = ask(capsys, "dlg", "--data", "digits")
    assert code == 2
    assert err == "recondite: attack needs recondite.attacks: pip install 'recondite[attack]'\n"


def test_an_unknown_name_is_called_what_the_command_calls_it(capsys):
    code, _, err = ask(capsys, "dlg", "--data", "digits", "--model", "mlp", "--defence", "vmff")
    assert code == 2
    assert "defence is unknown: did you mean vmf?" in err
