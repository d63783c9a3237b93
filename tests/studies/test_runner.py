"""Running a study: the same rows whoever runs it, whatever happens on the way."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from recondite.studies import source
from recondite.studies.executors.local import LocalExecutor
from recondite.studies.runner import compare
from recondite.studies.store import RECORDS, load, read_study
from recondite.studies.study import Study
from recondite.studies.study import read_study as read

# Small enough to run in a second.
TINY = """\
name: tiny
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [1.0, 2.0]
training:
  epochs: 1
  batch_size: 128
attacks:
  - name: inverting-gradients
    images: 2
    steps: 3
  - name: membership-threshold
    records: 50
seeds: 1
"""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A finished run of the tiny study on one worker."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "study.yaml").write_text(TINY)
    study, _ = read(folder / "study.yaml")
    return study, compare(study, folder / "run", workers=1)


def test_every_row_has_the_documented_shape(reference):
    _, outcome = reference
    assert (len(outcome.rows), outcome.ran, outcome.failed) == (6, 6, 0)
    for row in outcome.rows:
        assert row["schema_version"] == 1
        assert row["kind"] == "comparison"
        assert row["status"] == "done"
        assert row["utility"].keys() == {
            "test_accuracy",
            "train_accuracy",
            "test_loss",
            "train_loss",
        }
        assert row["data"]["public"] is True
        assert row["simulation"] is True
        assert (row["privacy"] is None) == (row["defence"] == "none")
        assert row["notions"]["epsilon"] == (
            "inf" if row["defence"] == "none" else row["privacy"]["epsilon"]["pld"]
        )
    pictures = [row for row in outcome.rows if row["attack"] == "inverting-gradients"]
    for row in pictures:
        found = row["reconstruction"]
        assert len(found["mse"]) == len(found["ssim"]) == found["images"] == 2
        with np.load(outcome.run / found["gallery"]) as gallery:
            assert gallery["originals"].shape == gallery["reconstructions"].shape == (2, 8, 8, 1)
            assert gallery["originals"].dtype == np.uint8
    members = [row for row in outcome.rows if row["attack"] == "membership-threshold"]
    for row in members:
        found = row["membership"]
        assert found["members"] + found["nonmembers"] == 100
        assert len(found["roc"]) <= 100
        assert row["data"]["records"] == 1437 - found["nonmembers"]
        assert [claim["violated"] for claim in row["claims"]] == [False]
    assert [row["label"] for row in pictures] == ["undefended", "Gaussian σ = 1", "Gaussian σ = 2"]


def test_victims_are_the_same_for_every_defence(reference):
    _, outcome = reference
    shown = []
    for row in outcome.rows:
        if row["reconstruction"]:
            with np.load(outcome.run / row["reconstruction"]["gallery"]) as gallery:
                shown.append(gallery["originals"])
    assert len(shown) == 3
    assert all((one == shown[0]).all() for one in shown)
    assert (np.ptp(shown[0], axis=(1, 2, 3)) > 200).all(), "digits, black on white"


def test_a_finished_run_runs_nothing(reference):
    study, outcome = reference
    before = (outcome.run / RECORDS).read_bytes()
    again = compare(study, outcome.run, engine="local")
    assert (again.ran, len(again.rows)) == (0, 6)
    assert (outcome.run / RECORDS).read_bytes() == before


def test_two_workers_give_the_same_rows(reference, comparable, tmp_path):
    study, outcome = reference
    two = compare(study, tmp_path / "run", workers=2)
    assert comparable(two.rows) == comparable(outcome.rows)


def test_a_killed_run_goes_on_where_it_stopped(reference, study_file, comparable, tmp_path):
    _, outcome = reference
    path, run = study_file(TINY), tmp_path / "run"
    command = [sys.executable, "-m", "recondite", "-q", "compare", str(path), "--out", str(run)]
    process = subprocess.Popen([*command, "--no-report", "--workers", "1"])
    records = run / RECORDS
    while not (records.exists() and records.read_bytes().count(b"\n") >= 1):
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(load(run))
    done = subprocess.run([*command, "--no-report", "--workers", "1", "--json"], check=True,
                          capture_output=True, text=True)  # fmt: skip
    assert json.loads(done.stdout)["new"] == 6 - kept
    assert comparable(load(run)) == comparable(outcome.rows)
    assert not (run / "work").exists()


def test_a_changed_study_runs_only_what_changed(reference, study_file):
    _, outcome = reference
    study, _ = read(study_file(TINY.replace("[1.0, 2.0]", "[2.0]")))
    fewer = compare(study, outcome.run, workers=1)
    assert (fewer.ran, len(fewer.rows)) == (0, 4)
    assert read_study(outcome.run)["keys"] == [row["key"] for row in fewer.rows]
    named, _ = read(study_file(TINY.replace("name: none", "name: none\n    label: bare")))
    again = compare(named, outcome.run)
    assert (again.ran, again.rows[0]["label"]) == (0, "bare")
    back, _ = read(study_file(TINY))
    assert compare(back, outcome.run).ran == 0


BROKEN = """\
name: broken
data: digits
model: mlp
prepare: none
defences:
  - name: none
    training: {learning_rate: 3.0e+38, optimizer: sgd, epochs: 2}
  - name: none
  - name: gaussian
    at: {rero: 0.01}
training: {epochs: 1}
attacks:
  - name: inverting-gradients
    images: 2
    steps: 2
"""


def test_a_failing_cell_is_recorded_and_stops_no_other(study_file, tmp_path):
    # Unchecked: the check would refuse the target.
    study = Study.model_validate(source.read(study_file(BROKEN)).data)
    outcome = compare(study, tmp_path / "run", workers=1)
    reasons = [(row["status"], row["reason"]) for row in outcome.rows]
    assert reasons[0][0] == "failed"
    assert reasons[0][1].startswith("training diverged: the loss is not finite")
    assert outcome.rows[0]["utility"]["train_loss"] is None
    assert outcome.rows[1]["status"] == "done"
    assert {status for status, _ in reasons[2:]} == {"failed"}
    assert all("\n" not in reason for _, reason in reasons if reason)
    assert compare(study, tmp_path / "run", workers=1).ran == 0
    assert compare(study, tmp_path / "run", workers=1, retry_failed=True).ran == outcome.failed


def test_a_worker_that_dies_gets_one_more_try_and_then_a_reason():
    seen = []
    executor = LocalExecutor(1)
    task = {"kind": "cell", "title": "x", "attacks": {}}

    def kill(number, task, event):
        seen.append(event)

    # Workers that end at once, whatever they are asked.
    start = executor._start

    def dying(number):
        worker = start(number)
        worker.process.kill()
        return worker

    executor._start = dying
    try:
        executor.run([task], kill)
    finally:
        executor.close()
    assert [event["type"] for event in seen] == ["error"]
    assert "ended by signal SIGKILL: out of memory?" in seen[0]["reason"]


def test_our_own_mistakes_are_errors_of_the_task():
    seen = []
    executor = LocalExecutor(1)
    try:
        executor.run([{"kind": "cell", "title": "x"}], lambda *event: seen.append(event[2]))
    finally:
        executor.close()
    assert seen[-1]["type"] == "error"
    assert "KeyError" in seen[-1]["reason"]
