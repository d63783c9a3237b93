"""Tables whose target holds amounts: R² of the model, and AUC where there are two classes."""

import csv
import random

import pytest
import torch

from recondite.attacks.base import AttackRequest
from recondite.attacks.tabular import TabularInversion
from recondite.configuration import TrainingConfig
from recondite.mechanisms import Gaussian
from recondite.records import load_records, read_table
from recondite.studies.one_attack import attack_victim
from recondite.training.trainer import train


@pytest.fixture
def houses(tmp_path):
    chance = random.Random(0)
    path = tmp_path / "houses.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["town", "rooms", "garden", "price"])
        for _ in range(300):
            town, rooms = chance.choice(["a", "b", "c"]), chance.randint(1, 9)
            garden = round(chance.gauss(100, 30), 1)
            price = 1000 * rooms + 5 * garden + 500 * (town == "a") + chance.gauss(0, 200)
            writer.writerow([town, rooms, garden, round(price, 2)])
    return path


def test_amounts_are_seen_and_can_be_decided(houses):
    table = read_table(houses, "price")
    assert table.classes == ()
    assert table.labels.dtype == torch.float32
    assert table.outputs == 1
    assert table.summary()["target"] == "amounts"
    assert len(read_table(houses, "rooms", categorical=["rooms"]).classes) == 9
    assert read_table(houses, "rooms", numeric=["rooms"]).classes == ()
    first, second = table.split(0.7)
    assert (len(first), len(second)) == (210, 90)
    scaled = first.standardised()
    assert abs(float(scaled.labels.mean())) < 1e-5
    torch.testing.assert_close(scaled.natural(), first.natural(), rtol=1e-4, atol=1e-4)


def test_a_target_that_was_named_numeric_and_is_not_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n2,x\n3,4\n")
    with pytest.raises(ValueError, match=r"x.csv: row 3, column 'b' must hold numbers, got 'x'"):
        read_table(path, "b", numeric=["b"])


@pytest.mark.parametrize("defence", [None, Gaussian(0.5)])
def test_a_training_reaches_an_r2(houses, defence):
    more = {} if defence is None else {"defence": defence}
    if defence is None:
        more["clipping"] = "none"
    config = TrainingConfig(
        f"{houses}#price", "table-mlp", epochs=15, batch_size=30, learning_rate=0.01,
        standardise=True, seed=0, **more,
    )  # fmt: skip
    record, _ = train(config)
    results = record.to_dict()["results"]
    assert results["test_r2"] > (0.8 if defence is None else 0.3)
    assert "test_accuracy" not in results


def test_rows_behind_amounts_come_back(houses):
    study = {
        "name": "attack",
        "data": f"{houses}#price",
        "model": "table-mlp",
        "seeds": [0],
        "training": {"standardise": True},
        "defences": [{"name": "none"}],
        "attacks": [{"name": "tabular-inversion", "images": 6, "steps": 200, "restarts": 3}],
    }
    found = attack_victim(study).record["reconstruction"]
    assert found["cells_mean"] > 0.9 > found["blind"]["cells_mean"]
    study["attacks"] = [{"name": "membership-threshold"}]
    with pytest.raises(ValueError, match="needs classes: the target of .* holds amounts"):
        attack_victim(study)
    study["attacks"] = [{"name": "dlg"}]
    with pytest.raises(ValueError, match="dlg takes images: .* holds rows of a table"):
        attack_victim(study)
    assert TabularInversion().trains(AttackRequest(victim="trained"))


def test_options_after_the_target_override_what_was_inferred(houses):
    table = load_records(f"{houses}#price?categorical=rooms&drop=garden&tolerance=0.5", "all")
    assert [column.name for column in table.columns] == ["town", "rooms"]
    assert table.columns[1].categories is not None
    with pytest.raises(ValueError, match="tolerance must be a number"):
        load_records(f"{houses}#price?tolerance=much", "all")
    with pytest.raises(ValueError, match="has no column 'price\\?colour=x'"):
        load_records(f"{houses}#price?colour=x", "all")


def test_two_classes_have_an_auc(houses):
    config = TrainingConfig(
        f"{houses}#town?drop=price", "table-embedding", epochs=1, clipping="none", seed=0
    )
    assert "test_auc" not in train(config)[0].to_dict()["results"]
    two = houses.parent / "two.csv"
    lines = houses.read_text().splitlines()
    two.write_text("\n".join(line for line in lines if not line.startswith("c")))
    config = TrainingConfig(f"{two}#town", "table-embedding", epochs=1, clipping="none", seed=0)
    assert 0 <= train(config)[0].to_dict()["results"]["test_auc"] <= 1
