"""Random allocation beside the code in dp-accounting's repository, by the values it gave."""

import json
from pathlib import Path

import pytest
from benchmarks.allocations import SETTINGS, ours

RESULTS = Path(__file__).parents[2] / "results" / "allocations.json"
ROWS = json.loads(RESULTS.read_text())["rows"]
KEYS = ("noise_multiplier", "batches", "epochs", "delta")


def test_ten_settings_lie_between_their_bounds():
    assert [tuple(row[key] for key in KEYS) for row in ROWS] == list(SETTINGS)
    assert len(ROWS) >= 10
    for row in ROWS:
        assert row["lower"] <= row["ours"] <= 1.01 * row["upper"]


@pytest.mark.parametrize("row", ROWS[:4], ids=lambda row: f"{row['batches']} batches")
def test_ours_is_still_what_was_compared(row):
    found = ours(*(row[key] for key in KEYS))
    assert found == pytest.approx(row["ours"], rel=1e-3)
    assert row["lower"] <= found <= 1.01 * row["upper"]
