"""What CONTRIBUTING says of the stored campaigns is what their files hold, and nothing failed."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
TEXT = ROOT / "CONTRIBUTING.md"

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="not a checkout")


def held(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def stored(name):
    """The last column of a campaign's row."""
    rows = [
        line for line in TEXT.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    (row,) = (row for row in rows if f"`{name}.json`" in row and row.count("|") == 5)
    return row.split("|")[4].strip()


def test_settings_compared_with_other_libraries():
    found = held("differential")
    assert stored("differential") == f"{found['settings']:,} settings"
    assert found["violations"] == {}


def test_inputs_of_the_fuzzer():
    found = held("fuzz")
    assert stored("fuzz") == f"{found['inputs']:,} inputs"
    assert found["findings"] == []


def test_kills_of_studies_and_trainings():
    found = held("kills")
    told = [
        f"{found[of]['kills']} of a {of}" if of in found else f"no {of}"
        for of in ("study", "training")
    ]
    assert stored("kills") == ", ".join(told)
    for one in found.values():
        assert not any(one.get(key) for key in ("wrong", "odd_codes", "under_reported"))


def test_kills_of_federations_and_of_the_explorer():
    found = held("kills-federated")
    assert stored("kills-federated") == f"{found['server'] + found['client']} kills"
    assert found["lost"] == found["not_counted"] == 0
    found = held("kills-explorer")
    assert stored("kills-explorer") == f"{found['kills']} kills"
    assert found["lost"] == found["wrong"] == 0


def test_audits_and_what_was_planted():
    found = held("audits")["summary"]
    planted = {name: fault["cases"] for name, fault in found["faults"].items()}
    told = stored("audits")
    assert told.startswith(f"{found['cases']:,} cases")
    assert [int(n) for n in re.findall(r"(\d+) of", told)] == list(planted.values())
    assert found["violations"] == 0
    assert all(fault["detected"] == fault["cases"] for fault in found["faults"].values())


def test_the_transformers_benchmark_of_a_gpu_runs_on_anything():
    pytest.importorskip("torch")
    from benchmarks.gpu_transformers import TINY, measured

    plain, private = measured(TINY, "lora", rounds=1, device="cpu")
    assert plain["trained"] == private["trained"] < 0.1 * plain["parameters"]
    assert private["over_plain"] > 0
