"""One loop for every defence: records of one shape, and noise of other packages trained with."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

import recondite as rc
from recondite.cli.main import run
from recondite.configuration import TrainingConfig, suited
from recondite.defences import NaturalNoise, RecordNoise, defences
from recondite.mechanisms import registry

torch = pytest.importorskip("torch")

from recondite.training.trainer import train  # noqa: E402

torch.set_num_threads(1)


@dataclass(frozen=True)
class Halved(RecordNoise):
    """A package's own noise on records: that of half the capacity."""

    name: ClassVar[str] = "halved-channel"
    title: ClassVar[str] = "halved channel"

    def fit(self, rows, shape):
        return NaturalNoise(self.capacity / 2).fit(rows, shape)


class Entry:
    name, group = "halved-channel", "recondite.defences"

    def load(self):
        return Halved


def test_records_have_one_shape_whatever_protects():
    shapes = set()
    for kind in defences().values():
        if kind.name == "parameter-channel":
            continue  # slow
        config = TrainingConfig(
            "digits", "mlp", kind.build(10.0), steps=1, seed=0, **suited(kind, {})
        )
        seen = []
        record = train(config, progress=seen.append, running_epsilon=False)[0].to_dict()
        assert [now.step for now in seen] == [1]
        assert (seen[0].information is not None) == kind.on_records
        assert record["defence"]["name"] == config.defence.name
        assert (record["privacy"] is None) == (kind.parameter is None)
        assert record["simulation"]
        shapes.add((tuple(record), tuple(record["training"]), tuple(record["results"])))
    assert len(shapes) == 1


def test_noise_on_records_of_another_package_is_trained_with(monkeypatch, capsys):
    monkeypatch.setattr(
        registry, "entry_points", lambda *, group: [Entry()] * (group == Entry.group)
    )
    command = ["train", "--data", "digits", "--model", "mlp", "--steps", "2", "--json"]
    assert run([*command, "--defence", "halved", "--capacity", "8"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["defence"]["name"] == "halved-channel"
    assert record["defence"]["parameters"] == {"capacity": 8.0, "noise": "once"}
    assert record["privacy"]["mutual_information"]["per_release"] == pytest.approx(4, rel=1e-6)
    assert record["training"]["steps"] == 2


def test_data_must_be_named_or_handed_over():
    with pytest.raises(ValueError, match="data is needed"):
        train(TrainingConfig(model="mlp", defence=rc.Gaussian(1.0)))
