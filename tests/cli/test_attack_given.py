"""recondite attack on what a person has: leaked gradients with their defence, and a model."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import recondite as rc
from recondite.attacks.files import save_gradients
from recondite.attacks.leak import Leak
from recondite.attacks.membership import Threshold
from recondite.cli.main import run
from recondite.gradients.leaked import leaked_gradients
from recondite.models import build, load_weights, save_weights
from recondite.records import load

KAPPA = 2000


def ask(capsys, *arguments):
    code = run(["attack", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, line, *arguments):
    code, out, err = ask(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert line in err


@pytest.fixture(scope="module")
def leaked(tmp_path_factory):
    """Three releases of eight digits behind von Mises–Fisher noise, and the digits."""
    folder = tmp_path_factory.mktemp("leaked")
    digits = load("digits", "test")
    model = build("mlp", digits.shape, 10, seed=3)
    save_weights(model, folder / "w.safetensors")
    images, labels = digits.images[:8], digits.labels[:8]
    for number in range(3):
        leak = leaked_gradients(
            model, images[:, None], labels[:, None], rc.VonMisesFisher(kappa=KAPPA), seed=number
        )
        save_gradients(leak, folder / f"g{number}.safetensors")
    np.savez(folder / "truth.npz", images=images.numpy(), labels=labels.numpy())
    return folder


def on(folder, name, *more, releases=1, public="digits"):
    files = [x for k in range(releases) for x in ("--gradients", folder / f"g{k}.safetensors")]
    known = () if public is None else ("--public", public)
    return (name, "--model", "mlp", "--weights", folder / "w.safetensors", *files, *known, *more)


def defended(kappa=KAPPA):
    return ("--defence", "vmf", "--kappa", kappa)


def record(capsys, *arguments):
    code, out, err = ask(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_defences_likelihood_is_used_and_releases_are_pooled(capsys, leaked):
    scored = ("--originals", leaked / "truth.npz")
    found = {
        (kappa, count): record(
            capsys,
            *on(leaked, "importance-weights", *defended(kappa), *scored, releases=count),
        )
        for kappa, count in ((0.01, 1), (KAPPA, 1), (KAPPA, 3))
    }
    assert found[KAPPA, 1]["label"] == "VMF κ = 2000"
    mse = {key: one["reconstruction"]["mse_mean"] for key, one in found.items()}
    # κ = 0.01 makes all public records about as likely: the guess is nearly the mean image.
    blind = found[0.01, 1]["reconstruction"]["blind"]["mse_mean"]
    assert mse[0.01, 1] == pytest.approx(blind, rel=0.1)
    assert mse[KAPPA, 1] < 0.8 * mse[0.01, 1]
    assert mse[KAPPA, 3] < mse[KAPPA, 1]
    pooled = found[KAPPA, 3]
    assert pooled["data"]["releases"] == 3
    assert pooled["reconstruction"]["beats_guessing"]
    assert pooled["reconstruction"]["labels_right"] == 1


def test_labels_are_printed_and_files_that_were_written_are_named(capsys, leaked, tmp_path):
    sheet = tmp_path / "found.png"
    code, out, _ = ask(capsys, *on(leaked, "gauss-newton", *defended(), "--out", sheet))
    assert code == 0
    true = load("digits", "test").labels[:8].tolist()
    for number, label in enumerate(true, 1):
        (line,) = [line for line in out.splitlines() if line.startswith(f"label, victim {number}")]
        assert line.split()[3:] == [str(label), "inferred"]
    assert "MSE, as the attacker expects" in out
    assert "no originals" in out
    assert "found.png and" in " ".join(out.split())
    assert Image.open(sheet).size[0] > 300


def test_the_strongest_is_named_with_originals_and_without(capsys, leaked):
    small = ("--option", "budget=4")
    alone = record(capsys, *on(leaked, "strongest", *defended(), *small))
    assert alone["notes"][0].startswith("strongest: ")
    assert "inverting-gradients" not in alone["notes"][0], "it ignores the defence"
    scored = ("--originals", leaked / "truth.npz")
    told = record(capsys, *on(leaked, "strongest", *defended(), *scored, *small))
    assert "share of the way from a blind guess" in told["notes"][0]
    assert told["reconstruction"]["gain"]["mse"]["value"] > 0.1


def test_told_labels_make_the_blind_guess_better_too(capsys, leaked):
    labels = ",".join(map(str, load("digits", "test").labels[:8].tolist()))
    found = record(
        capsys,
        *on(leaked, "importance-weights", *defended(), "--originals", leaked / "truth.npz"),
        *("--labels", labels),
    )["reconstruction"]
    assert found["labels_told"]
    assert "of the class" in found["blind"]["guess"]
    assert "labels_right" not in found


def test_an_attack_without_a_defence_takes_the_average_of_releases(capsys, leaked):
    more = ("--shape", "1,8,8", "--steps", "5", "--originals", leaked / "truth.npz")
    found = record(capsys, *on(leaked, "inverting-gradients", *more, releases=2, public=None))
    assert "the average of 2 releases" in found["notes"]
    assert "no public records: no blind guess to compare with" in found["notes"]
    assert len(found["reconstruction"]["mse"]) == 8


def test_pixels_of_another_scale(capsys, leaked, tmp_path):
    """Standardised pixels are what --bounds says of them."""
    digits = load("digits", "test")
    scaled = digits.normalised((0.25,), (0.5,))
    model = build("mlp", digits.shape, 10, seed=3)
    leak = leaked_gradients(
        model, scaled.images[:8, None], digits.labels[:8, None], rc.Gaussian(0.05), seed=1
    )
    save_gradients(leak, tmp_path / "g0.safetensors")
    save_weights(model, tmp_path / "w.safetensors")
    noise = ("--defence", "gaussian", "--noise-multiplier", "0.05", "--bounds", "-0.5,1.5")
    found = record(
        capsys, *on(tmp_path, "importance-weights", *noise, "--originals", leaked / "truth.npz")
    )
    assert found["reconstruction"]["gain"]["mse"]["value"] > 0.2


@pytest.mark.parametrize(
    ("name", "more", "line"),
    [
        ("gauss-newton", ("--defence", "banana"), "known are"),
        ("gauss-newton", ("--defence", "vmff", "--kappa", "5"), "did you mean vmf?"),
        ("gauss-newton", ("--defence", "vmf"), "kappa is missing"),
        ("gauss-newton", ("--kappa", "5"), "not a setting of none"),
        ("gauss-newton", ("--defence", "vmf", "--kappa", "-5"), "must be a number above 0"),
        ("gauss-newton", ("--clipping", "flat"), "go with a defence"),
        ("gauss-newton", ("--defence", "natural-channel", "--capacity", "5"), "changes records"),
        ("dlg", defended(), "dlg cannot use a defence"),
        ("dlg", ("--defence", "banana"), "known are"),
        ("analytic", ("--defence", "clip"), "cannot use a defence"),
        ("importance-weights", ("--batch-size", "2"), "batch_size must be 1"),
        ("importance-weights", ("--option", "releases=3"), "give gradients once for each"),
        ("importance-weights", ("--time-limit", "3"), "time_limit is for attacks that iterate"),
        ("importance-weights", ("--originals", "digits@0:3"), "originals must be 8"),
        ("importance-weights", ("--originals", "digits@train@0:8"), "public must hold none"),
        ("importance-weights", ("--prepare", "crop4", "--shape", "1,8,8"), "must be records of"),
        ("importance-weights", ("--classes", "4"), "must have the network's 4 classes"),
        ("importance-weights", ("--data", "digits"), "--data is not read with --gradients"),
        ("importance-weights", ("--labels", "1,2"), "labels must name 8"),
        ("membership-threshold", (), "gradients can only be given to"),
    ],
)
def test_mistakes_are_one_line(capsys, leaked, name, more, line):
    refused(capsys, line, *on(leaked, name, *more))


def test_what_is_missing_or_does_not_fit_is_one_line(capsys, leaked, tmp_path):
    without = on(leaked, "strongest", *defended(), "--shape", "1,8,8", public=None)
    refused(capsys, "strongest needs public", *without)
    (tmp_path / "public").mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "public" / "1.png")
    flat = on(leaked, "gauss-newton", *defended(), public=tmp_path / "public")
    refused(capsys, "put the images of each class into a subfolder", *flat)
    wrong = ("--originals", leaked / "truth.npz", "--labels", "0,0,0,0,0,0,0,0")
    refused(capsys, "labels must be those", *on(leaked, "gauss-newton", *defended(), *wrong))
    one = {k: v[:1] for k, v in _gradients(leaked).items()}
    save_gradients(one, leaked / "g9.safetensors")
    more = ("--gradients", leaked / "g9.safetensors")
    refused(capsys, "as many victims", *on(leaked, "gauss-newton", *defended(), *more))
    refused(capsys, "--public goes with", "dlg", "--data", "digits", "--public", "digits")


def _gradients(folder):
    from recondite.attacks.files import load_gradients

    return load_gradients(build("mlp", (1, 8, 8), 10), folder / "g0.safetensors")


def test_a_leak_counts_its_victims_and_releases(leaked):
    leak = Leak(
        build("mlp", (1, 8, 8), 10),
        {k: v[:, None] for k, v in _gradients(leaked).items()},
        (1, 8, 8),
    )
    assert (leak.victims, leak.releases, leak.defended) == (8, 1, False)
    with pytest.raises(ValueError, match="takes no gradients"):
        Threshold().rebuild(leak)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Somebody's model, which knows its sixty records by heart."""
    folder = tmp_path_factory.mktemp("own")
    digits = load("digits").subset(range(60)).normalised((0.5,), (0.5,))
    model = build("mlp", digits.shape, 10, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    wrong = (digits.labels + torch.arange(60)) % 10  # labels that only memory explains
    for _ in range(150):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(digits.images), wrong)
        torch.autograd.backward(loss)
        optimizer.step()
    save_weights(model, folder / "own.safetensors")
    other = load("digits", "test")
    np.savez(folder / "in.npz", images=digits.pixels().numpy(), labels=wrong.numpy())
    labels = (other.labels[:60] + torch.arange(60)) % 10
    np.savez(folder / "out.npz", images=other.images[:60].numpy(), labels=labels.numpy())
    return folder


def given(folder, name="membership-threshold", members="in.npz", others="out.npz"):
    files = ("--members", folder / members, "--non-members", folder / others)
    return (name, "--model", "mlp", "--prepare", "none", "--weights", folder / "own.safetensors",
            *files)  # fmt: skip


def test_membership_attacks_the_model_that_was_given(capsys, own, tmp_path):
    sheet = tmp_path / "mem.png"
    code, out, _ = ask(capsys, *given(own), "--out", sheet)
    assert code == 0
    assert "an estimate" in out, "no coins were flipped"
    found = json.loads(sheet.with_suffix(".json").read_text())["membership"]
    assert found["auc"] > 0.95
    assert not sheet.exists()
    assert "mem.json" in out
    assert "mem.png" not in out
    model = load_weights(build("mlp", (1, 8, 8), 10), own / "own.safetensors")
    sets = []
    for name in ("in.npz", "out.npz"):
        with np.load(own / name) as held:
            sets.append((torch.tensor(2 * held["images"] - 1), torch.tensor(held["labels"])))
    assert Threshold().infer(model, *sets).auc == pytest.approx(found["auc"])


def test_references_of_a_given_model_come_from_public_records(capsys, own):
    more = ("--public", "digits@60:300", "--epochs", "1", "--references", "2")
    found = record(capsys, *given(own, "membership-lira"), *more)
    assert found["membership"]["members"] == 60
    noise = ("--defence", "gaussian", "--noise-multiplier", "1")
    behind = record(capsys, *given(own, "membership-lira"), *more, *noise)
    assert behind["defence"] == {"name": "gaussian", "noise_multiplier": 1.0}
    assert behind["membership"]["auc"] != found["membership"]["auc"]


def test_a_model_without_members_is_refused_with_the_remedy(capsys, own):
    alone = ("--weights", own / "own.safetensors", "--prepare", "none")
    line = "give its members and non-members"
    refused(capsys, line, "membership-threshold", *alone, "--data", "digits")
    refused(capsys, "--members and --non-members", "membership-threshold", *alone)
    refused(capsys, "go together", "membership-threshold", *alone, "--members", "digits")
    refused(capsys, "no record in common", *given(own, others="in.npz"))
    refused(capsys, "needs public", *given(own, "membership-reference"))
    refused(capsys, "members can only be given to", *given(own, "dlg"))
    refused(capsys, "trains no reference models", *given(own), "--public", "digits")


def test_inversion_inverts_the_model_that_was_given(capsys, own):
    weights = ("--weights", own / "own.safetensors", "--prepare", "none", "--model", "mlp")
    typed = ("model-inversion", "--data", "digits", "--option", "iterations=3", *weights)
    found, other = (record(capsys, *typed, *more) for more in ((), ("--seed", "5")))
    assert found["training"] is None or "steps" not in found["training"]
    assert found["reconstruction"]["mse"] == other["reconstruction"]["mse"]


def test_public_records_of_another_shape_are_named_not_the_weights(capsys, leaked):
    """The network was made for 8×8: that the weights do not fit is the public records' doing."""
    asked = on(leaked, "importance-weights", *defended(), public="mnist-5k")
    refused(capsys, "public holds records of 1×28×28", *asked)
    told = on(leaked, "importance-weights", *defended(), "--shape", "1,8,8", public="mnist-5k")
    refused(capsys, "public must be records of 1×8×8", *told)
    others = ("--originals", "mnist-5k@0:8", "--infer-labels")
    refused(capsys, "originals must be records of 1×8×8",
            *on(leaked, "importance-weights", *defended(), *others))  # fmt: skip
