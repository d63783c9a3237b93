"""A sample of ``python -m benchmarks.differential``: other libraries' bounds, from both sides."""

import json
from pathlib import Path

import pytest
from benchmarks.differential import compared, violations

pytest.importorskip("dp_accounting")
pytest.importorskip("prv_accountant")
RESULTS = Path(__file__).parents[2] / "results" / "differential.json"


@pytest.mark.parametrize("number", [1, 4, 5, 9, 14, 17])
def test_ours_lies_between_theirs(number):
    row = compared(number)
    assert row["lower"] or "skipped" in row
    assert violations(row) == []


def test_the_committed_results_have_no_violation():
    found = json.loads(RESULTS.read_text())
    assert found["violations"] == {}
    assert found["dp-accounting, lower"]["extreme_ratio"] > 1 - 1e-6
    assert found["dp-accounting, upper"]["extreme_ratio"] < 1.01
