"""A sample of ``python -m benchmarks.differential``: other libraries' bounds, from both sides."""

import json
import math
from pathlib import Path

import pytest
from benchmarks.differential import compared, exact_delta, refuted, setting, violations

import recondite as rc

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


def test_a_lower_bound_that_an_exact_integral_refutes_is_no_violation():
    """At σ = 1.2, rate 0.114 and 2,222 steps prv-accountant's lower bound is 0.2% too high."""
    row = {"number": 192, "ours": 35.89415, "lower": {"prv-accountant": 35.9675}, "upper": {}}
    assert refuted(row)
    assert violations(row) == []
    assert violations(row | {"ours": 35.89}) == ["below prv-accountant: 35.89 < 35.9675"]


def test_the_integral_is_that_of_one_gaussian_release():
    """At rate 1 the run is one release of less noise, whose δ has a closed form."""
    from scipy.stats import norm

    mechanism, schedule = rc.Gaussian(20.0), rc.Poisson(1.0, 400)
    found = exact_delta(mechanism.strength, schedule, 1.5)
    closed = norm.cdf(0.5 - 1.5) - math.exp(1.5) * norm.cdf(-0.5 - 1.5)
    assert found == pytest.approx(closed, rel=1e-6)


def test_an_integral_that_has_not_converged_says_nothing():
    _, schedule, _ = setting(6)
    assert exact_delta(2.26, schedule, 0.04) == math.inf
