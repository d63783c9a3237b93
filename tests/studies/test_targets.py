"""Strengths that meet a target: calibrated, or searched for by training."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recondite.studies.facts import facts
from recondite.studies.grid import cells, missing_strengths
from recondite.studies.search import bisect, run_target
from recondite.studies.study import Study


@given(
    where=st.floats(-5, 10),
    rising=st.booleans(),
    runs=st.integers(2, 30),
)
def test_bisection_comes_as_near_as_halving_allows(where, rising, runs):
    def measure(value):
        position = math.log(value) - where
        return 1 / (1 + math.exp(-position if rising else position))

    low, high = 1e-3, 1e6
    value, found = bisect(measure, 0.5, low, high, rising=rising, runs=runs, tolerance=1e-9)
    assert found == measure(value)
    width = math.log(high) - math.log(low)
    assert abs(math.log(value) - where) <= width / 2**runs + 1e-4


def study(**changes):
    body = {
        "data": "digits",
        "model": "mlp",
        "prepare": "none",
        "defences": [{"name": "gaussian", "at": {"epsilon": 4}}],
        "training": {"epochs": 1, "batch_size": 128},
        **changes,
    }
    return Study.model_validate(body)


def solved(given):
    known = facts(given.data, given.model, given.prepare, None)
    missing = missing_strengths(given, known)[0]
    events = []
    run_target(missing.task({"data_dir": None}, {}), events.append)
    rows = [event["row"] for event in events if event["type"] == "row"]
    return missing, rows, known


def test_a_notion_is_met_by_calibration():
    given = study()
    missing, rows, known = solved(given)
    assert rows[-1]["achieved"] <= 4
    assert rows[-1]["achieved"] == pytest.approx(4, rel=1e-3)
    grid = cells(given, known, {missing.key: rows[-1]})
    assert grid[0].defence["value"] == rows[-1]["value"]
    assert grid[0].defence["target"] == {"epsilon": 4.0, "achieved": rows[-1]["achieved"]}
    assert cells(given, known, {})[0].failure == "its strength was not found yet"


def test_an_accuracy_is_searched_for_and_resumes_from_its_probes():
    at = {"accuracy": 0.5, "runs": 3, "tolerance": 0.001}
    given = study(defences=[{"name": "vmf", "at": at}], training={"epochs": 2})
    missing, rows, _ = solved(given)
    found, probes = rows[-1], rows[:-1]
    assert 2 <= len(probes) <= 3
    best = min(found["probes"], key=lambda probe: abs(probe["accuracy"] - 0.5))
    assert (found["value"], found["achieved"]) == (best["value"], best["accuracy"])
    again = []
    run_target(missing.task({"data_dir": None}, {row["key"]: row for row in probes}), again.append)
    assert [event["row"] for event in again] == [found]


def test_an_accuracy_that_was_missed_says_so():
    at = {"accuracy": 0.95, "runs": 3, "tolerance": 0.01}
    given = study(defences=[{"name": "vmf", "at": at}])
    known = facts(given.data, given.model, given.prepare, None)
    key = missing_strengths(given, known)[0].key

    def cell(reached):
        return cells(given, known, {key: {"key": key, "value": 70.0, "achieved": reached}})[0]

    missed, met = cell(0.447).defence, cell(0.94).defence
    assert missed["target"] == {"accuracy": 0.95, "achieved": 0.447, "met": False}
    assert missed["label"] == "VMF κ = 70 at accuracy 0.95, reached 0.447"
    assert met["target"]["met"] is True
    assert met["label"] == "VMF κ = 70 at accuracy 0.95"


def test_a_target_that_cannot_be_met_says_why():
    _, rows, _ = solved(study(defences=[{"name": "gaussian", "at": {"rero": 0.01}}]))
    assert "rero" in rows[-1]["failure"]
