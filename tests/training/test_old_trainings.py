"""Trainings that were interrupted in version 0.1.0 go on, and what it released is counted."""

import json
import math
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from recondite.training.trainer import train  # noqa: E402

DATA = Path(__file__).resolve().parents[1] / "data" / "v0_1_0"
OLD = DATA / "training"


@pytest.fixture(scope="module")
def plan():
    """The configurations, as the script made them that wrote the files."""
    names = {"__name__": "older"}
    text = (DATA / "make_trainings.py").read_text(encoding="utf-8")
    exec(compile(text, "make_trainings.py", "exec"), names)
    return names["plan"]


@pytest.fixture
def left(tmp_path):
    """A copy of what a run left, by its name."""
    return lambda name: Path(shutil.copytree(OLD / name, tmp_path / name))


@pytest.mark.filterwarnings("ignore:.*Plan:DeprecationWarning")
@pytest.mark.parametrize("name", ["gaussian", "seeded"])
def test_a_training_goes_on_and_counts_what_the_old_one_reserved(name, plan, left):
    folder = left(name)
    reserved = json.loads((folder / "ledger.json").read_text())["reserved"]
    seen = []
    record, _ = train(
        plan(name),
        out=folder,
        progress=lambda at: seen.append(at.epoch),
        running_epsilon=False,
    )
    alone, _ = train(plan(name))
    assert set(seen) == {1}, "the first epoch is in the checkpoint"
    # What the second epoch released before it was interrupted is within the block of the ledger.
    assert record.training["steps"] >= reserved + len(seen) == reserved + 4
    assert record.privacy["epsilon"]["pld"] > alone.privacy["epsilon"]["pld"]
    assert record.simulation is (name == "seeded")
    assert not (folder / "checkpoint.pt").exists()


@pytest.mark.filterwarnings("ignore:.*Plan:DeprecationWarning")
def test_uses_of_records_are_taken_over(plan, left):
    folder = left("natural")
    served = (folder / "channel.jsonl").read_text().count('"served"')
    assert served == 5  # batches: four of the first epoch, and one of the second
    record, _ = train(plan("natural"), out=folder)
    alone, _ = train(plan("natural"))
    told, due = (one.privacy for one in (record, alone))
    assert (told["information"]["uses"], due["information"]["uses"]) == (3, 2)
    assert told["mutual_information"]["run"] > due["mutual_information"]["run"]
    assert math.isfinite(told["epsilon"]["pld"])
    assert told["epsilon"]["pld"] > due["epsilon"]["pld"]


@pytest.mark.filterwarnings("ignore:.*Plan:DeprecationWarning")
@pytest.mark.parametrize("name", ["gaussian", "natural"])
def test_another_configuration_is_refused(name, plan, left):
    import dataclasses

    with pytest.raises(ValueError, match="another"):
        train(dataclasses.replace(plan(name), learning_rate=0.5), out=left(name))
