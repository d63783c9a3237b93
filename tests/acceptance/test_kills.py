"""A comparison that is killed again and again ends as one that never was."""

import signal
import subprocess
import sys
import time

import pytest
from benchmarks.kills import STUDY, kill_study, kill_training

from recondite.studies.runner import compare
from recondite.studies.store import RECORDS
from recondite.studies.study import read_study

KILLS = 12  # all fifty: python -m benchmarks.kills study


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    path = folder / "study.yaml"
    path.write_text(STUDY)
    study, _ = read_study(path)
    outcome = compare(study, folder / "run", workers=2)
    assert outcome.failed == 0
    return path, study, outcome


def test_kills_at_random_points_change_nothing(reference, tmp_path):
    path, _, outcome = reference
    found = kill_study(path, outcome.rows, tmp_path, KILLS)
    assert found["kills"] >= KILLS
    assert found["finished"] >= 1
    assert found["wrong"] == found["odd_codes"] == 0


def test_a_killed_training_never_reports_too_few_steps(tmp_path):
    found = kill_training(tmp_path, 6)
    assert found["kills"] == 6
    assert found["steps"] > 0
    assert found["under_reported"] == found["over_reported"] == 0


def test_ray_gives_the_same_rows(reference, comparable, tmp_path):
    pytest.importorskip("ray")
    _, study, outcome = reference
    found = compare(study, tmp_path / "run", engine="ray", workers=2)
    assert comparable(found.rows) == comparable(outcome.rows)


def test_an_interruption_says_how_to_go_on(reference, tmp_path):
    path, _, _ = reference
    run = tmp_path / "run"
    command = [sys.executable, "-m", "recondite", "-q", "compare", str(path), "--out", str(run)]
    process = subprocess.Popen([*command, "--no-report"], stderr=subprocess.PIPE, text=True)
    while not (run / RECORDS).exists():
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"go on with: recondite compare {path} --out {run}" in said
    assert "Traceback" not in said
