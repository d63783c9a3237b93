"""Every notion at once: keys, relations between them, what is not defined."""

import json
import math
from pathlib import Path

import pytest

import recondite as rc

PAPER = rc.Poisson(rate=128 / 60_000, steps=1_407)
KEYS = {
    "schema_version",
    "mechanism",
    "parameters",
    "schedule",
    "neighbouring",
    "group_size",
    "delta",
    "epsilon",
    "rdp_order",
    "metric_privacy",
    "log_bayes_capacity",
    "mutual_information",
    "rero",
    "assumptions",
    "reasons",
}
CASES = [
    (rc.VonMisesFisher(75, 13_700), PAPER),
    (rc.PartitionedVonMisesFisher(10.0, 1_000, blocks=3), PAPER),
    (rc.Gaussian(1.23, 13_700, batch_size=128, max_batch_size=160), PAPER),
    (rc.Gaussian(1.23, layers=(100, 50)), rc.Shuffled(3, 10, 100)),
    (rc.Directional(10, 62_006, blocks=5), rc.Shuffled(30, 512, 50_000)),
    (rc.Directional(1.0, 62_006), rc.FixedSize(512, 50_000, 100)),
    (rc.Directional(1.0, 62_006), rc.Poisson(0.01, 100)),
    (rc.NoNoise(), PAPER),
    (rc.NoNoise(clip=True, dim=10), rc.Shuffled(1, 10, 100)),
    (rc.NoNoise(dim=10), rc.FixedSize(10, 100, 20)),
]


@pytest.mark.parametrize(("mechanism", "schedule"), CASES)
def test_keys_are_stable_and_json_is_strict(mechanism, schedule):
    result = rc.account(mechanism, schedule, 1e-5).to_dict()
    assert set(result) == KEYS
    assert set(result["epsilon"]) == {"pld", "rdp", "pure"}
    for notion in ("log_bayes_capacity", "mutual_information"):
        assert set(result[notion]) == {"per_release", "run"}
    assert set(result["rero"]) == {"prior", "bound"}
    assert {"sampling", "rate", "steps"} <= set(result["schedule"])
    text = json.dumps(result, allow_nan=False)
    assert json.loads(text) == result
    undefined = [key for key in result["epsilon"] if result["epsilon"][key] is None]
    assert all(f"epsilon.{key}" in result["reasons"] for key in undefined)


@pytest.mark.parametrize(("mechanism", "schedule"), CASES)
def test_bounds_are_ordered(mechanism, schedule):
    result = rc.account(mechanism, schedule, 1e-5)
    epsilon = result.epsilon
    assert epsilon["pld"] <= epsilon["rdp"]
    assert epsilon["pld"] <= epsilon["pure"]
    assert result.rero["prior"] <= result.rero["bound"] <= 1
    capacity, information = result.log_bayes_capacity, result.mutual_information
    if capacity["per_release"] is not None:
        assert information["per_release"] <= capacity["per_release"] * (1 + 1e-9)
        assert capacity["run"] >= capacity["per_release"] * (1 - 1e-9) or schedule.steps == 1


def test_infinite_is_a_string_and_undefined_is_null_with_a_reason():
    gaussian = rc.account(rc.Gaussian(1.0, 10), PAPER, 1e-5).to_dict()
    assert gaussian["epsilon"]["pure"] == "inf"
    assert gaussian["metric_privacy"] is None
    assert "metric" in gaussian["reasons"]["metric_privacy"]
    assert gaussian["log_bayes_capacity"] == {"per_release": None, "run": None}
    assert "max_batch_size" in gaussian["reasons"]["log_bayes_capacity"]
    none = rc.account(rc.NoNoise(), PAPER, 1e-5).to_dict()
    assert none["epsilon"]["pld"] == none["log_bayes_capacity"]["run"] == "inf"
    assert none["rdp_order"] is None


@pytest.mark.parametrize(
    "schedule", [rc.Poisson(0.5, 20), rc.FixedSize(50, 100, 20), rc.Shuffled(20, 50, 100)]
)
def test_without_noise_everything_can_be_rebuilt(schedule):
    result = rc.account(rc.NoNoise(dim=10), schedule, 1e-5)
    assert result.rero["bound"] > 0.999
    assert math.isinf(result.epsilon["pld"])


def test_numbers_of_the_theory():
    vmf = rc.account(rc.VonMisesFisher(75, 13_700), PAPER, 1 / 60_000)
    assert vmf.log_bayes_capacity["per_release"] == pytest.approx(74.794711, abs=1e-6)
    assert vmf.mutual_information["per_release"] == pytest.approx(0.205283, abs=1e-6)
    assert vmf.log_bayes_capacity["run"] == pytest.approx(1_407 * 74.794711, rel=1e-6)
    strong = rc.VonMisesFisher(500, 13_700)
    assert strong.log_bayes_capacity() == pytest.approx(490.881977, abs=1e-6)
    assert strong.mutual_information() == pytest.approx(9.105914, abs=1e-6)
    assert vmf.metric_privacy.per_record == 150.0
    ratio = rc.Gaussian(1.23, 13_700, max_batch_size=1)
    assert ratio.log_bayes_capacity() == pytest.approx(94.993368, abs=1e-6)
    layers = rc.Gaussian(0.174, 13_700, max_batch_size=3)
    assert layers.log_bayes_capacity() == pytest.approx(1945.5203, abs=1e-4)


def test_capacity_knows_the_batch_where_the_schedule_bounds_it():
    mechanism = rc.Gaussian(1.0, 100)
    assert rc.account(mechanism, PAPER, 1e-5).log_bayes_capacity["run"] is None
    shuffled = rc.account(mechanism, rc.Shuffled(1, 10, 100), 1e-5)
    expected = rc.Gaussian(1.0, 100, max_batch_size=10).log_bayes_capacity()
    assert shuffled.log_bayes_capacity["per_release"] == pytest.approx(expected)
    assert shuffled.log_bayes_capacity["run"] == pytest.approx(10 * expected)


def test_per_record_leakage_counts_participations_not_steps():
    mechanism = rc.Directional(2.0, 1_000)
    single = mechanism.log_bayes_capacity()
    shuffled = rc.account(mechanism, rc.Shuffled(7, 10, 1_000), 1e-5)
    assert shuffled.log_bayes_capacity["run"] == pytest.approx(7 * single)
    poisson = rc.account(mechanism, rc.Poisson(0.1, 50), 1e-5)
    assert poisson.log_bayes_capacity["run"] == pytest.approx(
        50 * math.log(0.9 + 0.1 * math.exp(single))
    )
    assert poisson.mutual_information["run"] == pytest.approx(
        50 * 0.1 * mechanism.mutual_information()
    )


def test_group_size_is_reported_and_assumptions_speak_of_it():
    result = rc.account(rc.VonMisesFisher(20, 1_000), PAPER, 1e-5, group_size=3).to_dict()
    assert result["group_size"] == 3
    assert any("3 records" in line for line in result["assumptions"])


def test_json_never_turns_nan_into_a_bound():
    from recondite.notions import json_ready

    assert json_ready({"a": [math.nan, math.inf, -math.inf, 1.0]}) == {
        "a": [None, "inf", "-inf", 1.0]
    }


WRITTEN = json.loads((Path(__file__).parent / "data" / "accounts-0.1.0.json").read_text())
AGAIN = {
    "vmf": (rc.VonMisesFisher(75, 13_700), PAPER),
    "directional": (rc.Directional(10, 62_006, blocks=5), rc.Shuffled(30, 512, 50_000)),
    "none": (rc.NoNoise(), PAPER),
}


@pytest.mark.parametrize("name", AGAIN)
def test_the_json_is_that_of_the_last_version_without_one_papers_accountants(name):
    before = json.loads(json.dumps(WRITTEN[name]))
    assert before.pop("schema_version") == 1
    before.pop("as_printed", None)
    for key in ("paper_1", "paper_2"):
        del before["epsilon"][key]
        before["reasons"].pop(f"epsilon.{key}", None)
    now = rc.account(*AGAIN[name], 1e-5).to_dict()
    assert now.pop("schema_version") == 2
    assert set(now) == set(before)
    for key in ("mechanism", "schedule", "neighbouring", "reasons", "rero"):
        assert now[key] == before[key] or now[key] == pytest.approx(before[key], rel=1e-9)
    for key in ("epsilon", "log_bayes_capacity", "mutual_information"):
        finite = {k: v for k, v in before[key].items() if v not in (None, "inf")}
        assert {k: now[key][k] for k in finite} == pytest.approx(finite, rel=1e-9)
        assert {k for k, v in now[key].items() if v == "inf"} == {
            k for k, v in before[key].items() if v == "inf"
        }


def test_rows_read_accounts_of_the_last_version_and_those_without_a_notion():
    from recondite.studies.rows import notions

    for name, written in WRITTEN.items():
        row = notions(name, written)
        assert row["epsilon"] == written["epsilon"]["pld"]
        assert row["rero_bound"] == written["rero"]["bound"]
        assert row["log_bayes_capacity_run"] == written["log_bayes_capacity"]["run"]
        metric = written["metric_privacy"]
        assert row["metric_privacy"] == (metric and metric["constant"])
        assert set(row) == {
            "epsilon", "epsilon_rdp", "delta", "log_bayes_capacity_release",
            "log_bayes_capacity_run", "mutual_information_release", "mutual_information_run",
            "rero_prior", "rero_bound", "metric_privacy", "subject", "reasons",
        }  # fmt: skip
    bare = {key: value for key, value in WRITTEN["vmf"].items() if key != "rero"}
    bare["epsilon"] = {"pld": 1.0, "rdp": 2.0, "pure": "inf"}
    row = notions("vmf", bare)
    assert (row["epsilon"], row["rero_bound"], row["rero_prior"]) == (1.0, None, None)
