"""Every story in examples/: from raw files to a report, in one command."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STORIES = sorted(EXAMPLES.glob("*/run.sh"))
# What a story says where make examples has not fetched its data, with this exit code.
ABSENT = 77


def told_by_patients(out, said):
    """What is rebuilt of a table, undefended and behind noise."""
    assert "size (3 categories)" in said
    lines = (out / "run" / "records.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert all(row["status"] == "done" for row in rows)
    inverted = [row for row in rows if row["attack"] == "tabular-inversion"]
    made = {row["defence"]: row["reconstruction"] for row in inverted}
    assert made["none"]["cells_mean"] > 0.8
    assert made["none"]["beats_guessing"]
    for name in ("gaussian", "vmf"):
        assert made[name]["cells_mean"] < made["none"]["cells_mean"]
    assert all(row["utility"]["test_auc"] > 0.8 for row in rows)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "abular" in page
    assert "malignant" not in page  # cells are hidden unless somebody asks


def told_by_notes(out, said):
    """What LoRA's gradients give away of notes, and that noise takes it away again."""
    assert "tokens of a text" in said
    assert "ROUGE-L" in said
    lines = (out / "run" / "records.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert all(row["status"] == "done" for row in rows)
    made = {row["defence"]: row["reconstruction"] for row in rows if row["reconstruction"]}
    assert made["none"]["tokens_mean"] > 0.8
    assert made["none"]["beats_guessing"]
    for name in ("gaussian", "vmf"):
        assert made[name]["tokens_mean"] <= made[name]["blind"]["tokens_mean"] + 0.1
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "ROUGE-L" in page
    assert "wound infected" not in page  # nothing of a text is shown unless somebody asks


MORE = {"patients": told_by_patients, "notes": told_by_notes}


@pytest.mark.parametrize("story", STORIES, ids=[path.parent.name for path in STORIES])
def test_a_story_ends_in_a_report(story, tmp_path, capsys):
    out = tmp_path / "out"
    environment = {**os.environ, "PYTHON": sys.executable, "OUT": str(out)}
    began = time.monotonic()
    done = subprocess.run(
        ["sh", str(story)], env=environment, capture_output=True, text=True, check=False
    )
    with capsys.disabled():
        print(f" {story.parent.name}: {time.monotonic() - began:.0f} s", end="")
    if done.returncode == ABSENT:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    page = (out / "report.html").read_text(encoding="utf-8")
    assert done.stdout.strip().endswith("report.html")
    assert "<html" in page
    MORE.get(story.parent.name, lambda *_: None)(out, done.stdout)
