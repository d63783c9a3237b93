"""Randomised small games: no bound is exceeded, and a planted fault is caught.

A sample of ``python -m benchmarks.games``, whose full run is committed as results/games.json.
"""

import json
from pathlib import Path

import pytest
from benchmarks.games import judged, violations

ROOT = Path(__file__).resolve().parents[2]
FOUND = json.loads((ROOT / "results" / "games.json").read_text(encoding="utf-8"))


def test_a_sample_keeps_within_its_bounds():
    cases = [judged(seed, 1000, 24) for seed in range(2000, 2024)]
    assert violations(cases) == []


def test_a_planted_fault_is_caught():
    """70% of the noise that is claimed: these seeds showed it in the full run too."""
    assert violations([judged(seed, 2000, 40, fault=0.7) for seed in (3, 27, 29)]) != []


def test_the_full_run_found_nothing():
    assert len(FOUND["cases"]) >= 1000
    assert violations(FOUND["cases"]) == []
    assert FOUND["options"]["fault"] == 1.0


@pytest.mark.parametrize("key", ["mechanism", "sampling", "candidates"])
def test_the_full_run_covers_what_it_says(key):
    wanted = {
        "mechanism": {"gaussian", "vmf", "partitioned", "directional"},
        "sampling": {"poisson", "allocation", "fixed-size", "shuffled"},
        "candidates": {2, 3, 5, 10, 20},
    }
    assert {case[key] for case in FOUND["cases"]} == wanted[key]
    assert any(case["full"] for case in FOUND["cases"])
