"""A sample of the randomised audits of the engine; all of them: python -m benchmarks.audits."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
audits = pytest.importorskip("benchmarks.audits")

RIGHT, MISS = 30, 1e-3 / 33


def test_no_case_of_a_sample_is_contradicted():
    found = [audits.audit(audits.draw(seed), 80, MISS) for seed in range(RIGHT)]
    assert [row for row in found if row["violated"]] == []
    text = {key: {row[key] for row in found} for key in ("mechanism", "sampling", "clipping")}
    assert all(len(values) >= 3 for values in text.values())


@pytest.mark.parametrize("fault", audits.FAULTS)
def test_a_planted_fault_is_detected(fault):
    case = audits.draw(10**6 * (1 + audits.FAULTS.index(fault)), fault)
    row = audits.audit(case, 300 if case.batch_size == case.records else 100, MISS)
    assert row["violated"], row


def test_a_fault_shows_where_clipping_makes_the_others_as_long_as_the_canary():
    """Missed once: seven others of one direction outweighed it, so that nothing was turned."""
    case = audits.draw(1_000_006, audits.FAULTS[0])
    assert (case.mechanism, case.clipping, case.records) == ("vmf", "scale", 8)
    direction = np.full(sum(case.sizes), sum(case.sizes) ** -0.5)
    rows = audits.gradients(case, 1.0, direction)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    others = (rows / lengths)[1:].sum(0)
    assert -0.1 < others @ direction < 0
    assert np.linalg.norm(others) < 0.1
    assert audits.audit(case, 300, MISS)["violated"]


def test_the_committed_results_are_of_a_thousand_cases_without_a_violation():
    path = ROOT / "results" / "audits.json"
    if not path.exists():
        pytest.skip("results/audits.json is written by python -m benchmarks.audits")
    found = json.loads(path.read_text(encoding="utf-8"))["summary"]
    assert found["cases"] >= 1000
    assert found["violations"] == 0
