"""A comparison that is killed again and again ends as one that never was."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from recondite.studies.runner import compare
from recondite.studies.store import RECORDS, load
from recondite.studies.study import read_study

STUDY = """\
name: kills
data: digits
model: mlp
prepare: none
defences:
  - name: none
  - name: gaussian
    noise_multiplier: [0.5, 1.0, 2.0]
  - name: vmf
    kappa: [100, 500]
  - name: gaussian
    at: {accuracy: 0.3, runs: 3}
  - name: natural-channel
    capacity: [5, 20]
training: {epochs: 4, batch_size: 64}
attacks:
  - name: inverting-gradients
    images: 4
    steps: 150
  - name: membership-threshold
    records: 100
  - name: canary-audit
    runs: 50
seeds: 2
"""
KILLS = 50


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    path = folder / "study.yaml"
    path.write_text(STUDY)
    study, _ = read_study(path)
    outcome = compare(study, folder / "run", workers=2)
    assert outcome.failed == 0
    return path, study, outcome


def start(path, run):
    command = [sys.executable, "-m", "recondite", "-q", "compare", str(path), "--out", str(run)]
    return subprocess.Popen(
        [*command, "--no-report", "--workers", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_fifty_kills_at_random_points_change_nothing(reference, comparable, tmp_path):
    path, _, outcome = reference
    chance = random.Random(0)
    kills, finished, number = 0, 0, 0
    while kills < KILLS or finished == 0:
        run = tmp_path / f"run{number}"
        process = start(path, run)
        records = run / RECORDS
        before = records.stat().st_size if records.exists() else 0
        # Half of the kills at any time, half in the thick of it: while rows are written.
        deadline = time.monotonic() + chance.uniform(0.0, 10.0)
        busy = chance.random() < 0.5
        while process.poll() is None and (kills < KILLS):
            grown = records.exists() and records.stat().st_size > before
            if time.monotonic() > deadline and (grown or not busy):
                os.kill(process.pid, chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT]))
                kills += 1
                break
            time.sleep(chance.uniform(0.0, 0.01))
        code = process.wait()
        assert code in (0, -9, 130, -2), code  # -2: interrupted before Python was up
        if code == 0:
            assert comparable(load(run)) == comparable(outcome.rows)
            finished, number = finished + 1, number + 1
    assert kills >= KILLS


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
