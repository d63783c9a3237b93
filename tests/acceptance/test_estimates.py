"""What a dry run promises is within a factor of two of what the study takes."""

import json
from pathlib import Path

from benchmarks.estimates import SMALL, WITHIN, estimated

STORED = Path(__file__).parents[2] / "results/estimates.json"


def test_a_small_study_takes_what_its_dry_run_promised(tmp_path):
    found = estimated("small", SMALL, tmp_path)
    print(found)
    assert found["rows"] == 8
    # Wider than what is promised: the machine of a test may be busy for one of both.
    assert 0.5 / WITHIN <= found["ratio"] <= 2.0 * WITHIN


def test_the_stored_ratios_come_from_their_seconds_and_hold():
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert all(1 / WITHIN <= case["ratio"] <= WITHIN for case in stored["cases"])
    for case in (*stored["cases"], *(one for run in stored["earlier"] for one in run["cases"])):
        assert abs(case["real"] / case["promised"] - case["ratio"]) < 0.01
        assert case["rows"] > 0
