"""A whole run that version 0.1.0 made: reported, and resumed without training anything again."""

import json
import shutil
from pathlib import Path

import pytest

from recondite.report import build
from recondite.studies import load, read_study, runner

pytest.importorskip("torch")

OLD = Path(__file__).resolve().parents[1] / "data" / "v0_1_0"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(OLD / "study", tmp_path / "study"))


def test_it_is_reported(run, tmp_path):
    page = tmp_path / "report.html"
    build([run], page)
    text = page.read_text(encoding="utf-8")
    assert "Undefended" in text
    assert "Gaussian" in text
    assert {row["attack"] for row in load(run)} == {"inverting-gradients"}


def test_it_is_resumed_with_nothing_to_do(run):
    before = (run / "records.jsonl").read_bytes()
    result = runner.compare(read_study(OLD / "study.yaml")[0], run)
    assert (run / "records.jsonl").read_bytes() == before
    assert [row["status"] for row in result.rows] == ["done", "done"]


def test_what_is_missing_is_added_to_it(run, inline):
    lines = (run / "records.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"gaussian"' in line]
    assert len(kept) < len(lines)
    (run / "records.jsonl").write_text("\n".join(kept) + "\n")
    result = runner.compare(read_study(OLD / "study.yaml")[0], run)
    assert len(result.rows) == len(lines)
    keys = {json.loads(line)["key"] for line in lines}
    assert {row["key"] for row in load(run)} == keys
