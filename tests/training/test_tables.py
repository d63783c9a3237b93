"""Rows of a table and records of a registered kind are trained on as images are."""

import json

import numpy as np
import pytest
import torch

import recondite as rc
from recondite.cli.main import run
from recondite.configuration import TrainingConfig
from recondite.defences import NaturalNoise, PersonalizedNoise
from recondite.records import TableSet, load_records
from recondite.training.setup import load_records as scaled_sets
from recondite.training.trainer import train


@pytest.fixture
def people(tmp_path, monkeypatch):
    """Two hundred made-up people; who has an income above the line follows from hours and work."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["age,hours,work,rich"]
    for _ in range(200):
        age, hours = rng.integers(18, 80), rng.normal(40, 10)
        work = rng.choice(["office", "field", "home"])
        rich = hours + 15 * (work == "office") + rng.normal(0, 2) > 45
        lines.append(f"{age},{hours:.1f},{work},{'yes' if rich else 'no'}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return "people.csv#rich"


def gaussian(data, **given):
    given = {"epochs": 2, "batch_size": 32, "seed": 0, **given}
    return TrainingConfig(data, "mlp2", rc.Gaussian(1.0, clip_norm=1.0), **given)


def test_the_command_trains_a_table(people, capsys):
    words = "--model mlp2 --defence gaussian --noise-multiplier 1 --standardise --epochs 8 --seed 0"
    assert run(["train", "--data", people, *words.split(), "--batch-size", "40", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["data"]["kind"] == "rows of a table"
    assert record["data"]["columns"] == ["age", "hours", "work"]
    assert record["data"]["shape"] == [5]
    assert record["data"]["preparation"] is None
    assert "records_per_class" not in record["data"]
    assert record["results"]["test_accuracy"] > 0.7
    assert record["privacy"]["epsilon"]["pld"] > 0
    notes = " ".join(record["notes"])
    assert "categories and classes were read off the table: not covered" in notes
    assert "statistics come from the training records: not covered" in notes


def test_epsilon_is_that_of_the_schedule(people):
    record, _ = train(gaussian(people), delta=1e-3)
    expected = rc.epsilon(rc.Gaussian(1.0, dim=1), rc.Poisson(32 / 160, 10), 1e-3)
    assert record.privacy["epsilon"]["pld"] == pytest.approx(expected, rel=1e-6)


def test_without_standardise_numbers_stay_as_written(people):
    records, test = scaled_sets(gaussian(people), None)
    assert (records.mean, test.mean) == (None, None)
    assert any("as they are written" in note for note in records.caveats)
    ours, _ = scaled_sets(gaussian(people, standardise=True), None)
    assert ours.features[:, 0].mean().abs() < 1e-5
    assert not any("as they are written" in note for note in ours.caveats)


def test_noise_on_records_of_a_table_has_information_and_no_finite_epsilon(people):
    config = TrainingConfig(
        people, "mlp2", NaturalNoise(2.0), clipping="none", standardise=True, epochs=1, seed=0
    )
    record, _ = train(config)
    account = record.to_dict()["privacy"]
    assert account["mutual_information"]["run"] == pytest.approx(2.0, rel=1e-6)
    assert all(value in (None, "inf") for value in account["epsilon"].values())
    assert any("no known range" in each for each in account["assumptions"])


def test_a_table_of_categories_has_a_known_range():
    from recondite.records import Column

    column = Column("work", ("field", "office"))
    rows = torch.eye(2).repeat(4, 1)
    table = TableSet(rows, torch.arange(8) % 2, ("no", "yes"), (column,))
    assert table.unit_range
    assert table.sides().tolist() == [1.0, 1.0]
    assert table.normalised((0.5,), (0.25,)).sides().tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "lenet"], "model lenet takes images"),
        (["--model", "mlp", "--prepare", "resize16"], "prepare resize16 is for images"),
        (["--model", "mlp", "--pixels", "unit"], "pixels is for images"),
        (["--model", "mlp", "--defence", "personalized", "--capacity", "3"], "is for images"),
    ],
)
def test_what_is_for_images_is_refused_in_one_line(people, words, said, capsys):
    assert run(["train", "--data", people, *words, "--epochs", "1"]) == 2
    shown = capsys.readouterr().err.strip()
    assert said in shown
    assert len(shown.splitlines()) == 1


def test_weights_of_each_feature_personalize_a_table(people, tmp_path):
    np.save(tmp_path / "beta.npy", np.array([1.0, 5.0, 1.0, 1.0, 1.0]))
    noise = PersonalizedNoise(2.0, beta=str(tmp_path / "beta.npy"))
    config = TrainingConfig(
        people, "mlp", noise, clipping="none", standardise=True, epochs=1, seed=0
    )
    assert train(config)[0].privacy["mutual_information"]["run"] <= 2.0 * (1 + 1e-9)


def test_batches_of_records_come_from_their_tensors(people):
    from recondite.training.fetching import tensors_of

    table = load_records(people)

    class Shifted(TableSet):
        def __getitem__(self, index):
            return self.rows[index] + 1, int(self.labels[index])

    assert tensors_of(table) is not None
    own = Shifted(table.rows, table.labels, table.classes, table.columns)
    assert tensors_of(own) is None


@pytest.mark.usefixtures("inline")
def test_a_study_compares_defences_on_a_table(people, tmp_path):
    from recondite.studies.store import load

    (tmp_path / "study.yaml").write_text(
        "name: people\ndata: people.csv#rich\nmodel: mlp2\n"
        "defences:\n  - name: none\n  - {name: gaussian, noise_multiplier: 2.0}\n"
        "  - {name: natural-channel, capacity: 2}\n"
        "attacks:\n  - {name: membership-threshold, records: 20}\n"
        "training: {steps: 4, batch_size: 40, standardise: true}\n"
    )
    assert run(["-q", "compare", "study.yaml", "--out", "run"]) == 0
    rows = load(tmp_path / "run")
    assert [row["status"] for row in rows] == ["done"] * 3
    assert all(row["membership"] is not None for row in rows)
    assert (tmp_path / "run" / "report.html").is_file()
