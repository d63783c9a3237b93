"""A defence and an attack of comparisons only: compression, and looking."""

import json

import numpy as np
import pytest
import torch

from recondite.attacks import registry
from recondite.attacks.knowledge import threat
from recondite.cli.main import run
from recondite.records import load
from recondite.studies import runner
from recondite.studies.checks import mistakes_of
from recondite.studies.compression import Compression
from recondite.studies.study import Study

BASE = {
    "data": "digits", "model": "mlp", "prepare": "none",
    "training": {"records": 200, "steps": 2, "batch_size": 20, "max_grad_norm": 1},
}  # fmt: skip
INFINITE = (
    "epsilon", "epsilon_rdp", "log_bayes_capacity_release", "log_bayes_capacity_run",
    "mutual_information_release", "mutual_information_run",
)  # fmt: skip


@pytest.fixture
def compared(inline, tmp_path):
    """Rows of a study, by defence."""

    def go(**parts):
        study = Study.model_validate({**BASE, **parts})
        assert mistakes_of(study) == []
        rows = runner.compare(study, tmp_path / "run").rows
        assert [row["reason"] for row in rows if row["status"] != "done"] == []
        return rows

    return go


def test_a_compression_is_the_projection_and_says_what_it_took():
    records = load("digits").spread(300).normalised((0.5,), (0.5,))
    made = Compression.fit(records, [0, 3])
    flat = records.images.flatten(1).double().numpy()
    values, vectors = np.linalg.eigh(np.cov(flat.T))
    order = [-1, -4]
    assert made.eigenvalues == pytest.approx(tuple(values[order]), rel=1e-5)
    assert made.share == pytest.approx(values[order].sum() / values.sum(), rel=1e-5)
    kept = flat - flat @ vectors[:, order] @ vectors[:, order].T
    found = made(records.images)
    assert np.allclose(found.flatten(1).numpy(), kept, atol=1e-4)
    # Batches of victims alike, and what is gone is gone once.
    assert torch.allclose(made(records.images[:6].view(2, 3, 1, 8, 8)).view(6, 1, 8, 8), found[:6])
    assert torch.allclose(made(found), found, atol=1e-5)
    with pytest.raises(ValueError, match="remove must be below 9, the eigenvectors of 10 records"):
        Compression.fit(records.subset(torch.arange(10)), [9])


def test_a_comparison_never_prints_a_bound_on_a_compression(compared):
    attacks = [
        {"name": "inverting-gradients", "steps": 5, "images": 2},
        {"name": "released-record", "images": 5},
        {"name": "membership-threshold", "records": 20},
    ]
    removed = {"name": "compression", "remove": [0, 1]}
    rows = compared(defences=[{"name": "none"}, removed], attacks=attacks)
    own = [row for row in rows if row["defence"] == "compression"]
    # Nothing is let through by a defence that is not on records.
    assert [row["attack"] for row in rows if row["defence"] == "none"] == [
        "inverting-gradients", "membership-threshold",
    ]  # fmt: skip
    assert len(own) == 3
    for row in own:
        assert row["privacy"] is None
        assert all(row["notions"][key] == "inf" for key in INFINITE)
        assert row["notions"]["rero_bound"] == 1.0
        assert all(claim["claim"] == "inf" for claim in row["claims"])
        assert not any(claim["violated"] for claim in row["claims"])
        assert any("nothing bounds what they tell" in note for note in row["notes"])
        assert row["data"]["removed"]["places"] == [0, 1]
        assert row["training"]["clipping"] == "none"
    seen = next(row for row in own if row["attack"] == "released-record")["reconstruction"]
    assert 0 < seen["mse_mean"] <= seen["mse_uncut_mean"]
    assert seen["mse_uncut_inside"] is None


def test_a_training_sees_the_compressed_records(compared):
    """All but one direction removed: nothing is left to learn from."""
    study = {"training": {**BASE["training"], "records": 800, "steps": 200,
                          "learning_rate": 0.05}}  # fmt: skip
    removed = {"name": "compression", "remove": list(range(1, 64)), "label": "nearly nothing"}
    rows = compared(defences=[{"name": "none"}, removed], **study)
    plain, poor = (row["utility"]["train_accuracy"] for row in rows)
    assert plain > 0.8
    assert poor < 0.5


def test_looking_scores_the_released_numbers_inside_and_outside(compared):
    region = {"rows": [2, 5], "columns": [0, 3]}
    channel = {"name": "white-channel", "capacity": [0.5, 500], "noise": "per_step"}
    attack = {"name": "released-record", "images": 40, "region": region}
    strong, weak = compared(defences=[channel], attacks=[attack])
    assert strong["reconstruction"]["mse_mean"] > 10 * weak["reconstruction"]["mse_mean"]
    assert strong["reconstruction"]["ssim_mean"] < weak["reconstruction"]["ssim_mean"]
    for row in (strong, weak):
        found = row["reconstruction"]
        share = 16 / 64
        both = share * found["mse_uncut_inside"] + (1 - share) * found["mse_uncut_outside"]
        assert both == pytest.approx(found["mse_uncut_mean"], rel=1e-5)
        # No gradient is behind them.
        assert (found["images"], found["iterations"], found["victim"]) == (40, 0, None)
        assert len(row["claims"]) == 2
        assert not any(claim["violated"] for claim in row["claims"])
    # Nearly clean pictures name their records: the lower bound is real.
    assert max(claim["lower"] for claim in weak["claims"]) > 0.1
    assert max(claim["lower"] for claim in strong["claims"]) == 0.0


def test_only_an_insider_holds_noisy_records():
    made = registry.build("released-record")
    threat("insider").check(made)
    with pytest.raises(ValueError, match="which a honest-but-curious server does not have"):
        threat("server").check(made)


def test_the_command_looks_without_training(capsys):
    words = ["attack", "released-record", "--data", "digits", "--model", "mlp", "--prepare", "none"]
    channel = ["--defence", "natural-channel", "--capacity", "20", "--images", "3"]
    assert run(["--quiet", *words, *channel, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["utility"] is None
    assert found["reconstruction"]["images"] == 3
    assert run(["--quiet", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert (
        "released-record needs a defence on records: add a channel or compression, got none"
        in error
    )
    assert "\n" not in error


COMPRESSED = {"name": "compression"}


@pytest.mark.parametrize(
    ("defence", "place", "said"),
    [
        ({}, "remove", "is missing: give remove: [0]"),
        ({"remove": []}, "remove", "from 0 (the largest eigenvalue) to 63, got none"),
        ({"remove": [64]}, "remove", "to 63, got 64"),
        ({"remove": [-1]}, "remove", "got -1"),
        ({"remove": [0.5]}, "remove", "got 0.5"),
        ({"remove": "all"}, "remove", "got 'all'"),
        ({"remove": True}, "remove", "got True"),
        ({"remove": [3, 3]}, "remove", "has a place twice"),
        ({"remove": list(range(64))}, "remove", "names all 64 eigenvectors"),
        ({"remove": [0], "at": {"epsilon": 3}}, "at", "compression has no strength to choose"),
        ({"remove": [0], "kappa": 3}, "kappa", "is not a setting of compression"),
    ],
)
def test_mistakes_of_a_compression_are_one_line(defence, place, said):
    body = {**BASE, "defences": [{**COMPRESSED, **defence}]}
    found = mistakes_of(Study.model_validate(body))
    assert [(m.place[2], said in m.message, "\n" in m.message) for m in found] == [
        (place, True, False)
    ]


@pytest.mark.parametrize(
    ("attack", "place", "said"),
    [
        ({"images": 41}, "images", "must be at most 40, the held-out records, got 41"),
        ({"batch_size": 2}, "batch_size", "is not an option of released-record"),
        ({"region": {"rows": [2, 8], "columns": [0, 1]}}, "region", "rows must end before 8"),
        ({"region": {"rows": [2, 5]}}, None, "region must be {rows: [first, last], columns"),
        ({"region": {"rows": [5, 2], "columns": [0, 1]}}, None, "whole numbers from 0"),
        ({"region": 3}, None, "region must be {rows: [first, last], columns"),
        ({"threat": "server"}, None, "needs records as a defence lets them through"),
    ],
)
def test_mistakes_of_looking_are_one_line(attack, place, said):
    channel = {"name": "natural-channel", "capacity": [5]}
    body = {**BASE, "defences": [channel], "attacks": [{"name": "released-record", **attack}]}
    (found,) = mistakes_of(Study.model_validate(body))
    assert found.place == (("attacks", 0) if place is None else ("attacks", 0, place))
    assert said in found.message
    assert "\n" not in found.message


def test_studies_and_rows_of_0_1_0_may_call_it_looking():
    from recondite.attacks.released_record import ReleasedRecord
    from recondite.report.quantities import attack_name

    assert registry.attack_named("looking") is ReleasedRecord
    channel = {"name": "natural-channel", "capacity": [5]}
    given = Study.model_validate({**BASE, "defences": [channel], "attacks": [{"name": "looking"}]})
    assert [attack.name for attack in given.attacks] == ["released-record"]
    assert attack_name("looking") == attack_name("released-record")
