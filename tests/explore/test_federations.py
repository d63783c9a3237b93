"""A federation is followed from its ledgers, its checkpoint and its evidence."""

import json

import pytest
import synthetic

from recondite.explore import federations
from recondite.explore.runs import Runs
from recondite.federated.cost import spent
from recondite.federated.ledger import ReleaseLedger

PLAN = {"sampling": "shuffled", "steps": 1, "passes": 1, "batch_size": 1, "records": 1}


def release(folder, number, client):
    """One round of one client, as it stands in its ledger."""
    line = {
        "key": f"{number}-{client}", "run": "1", "round": number, "level": "client",
        "simulation": False, "mechanism": "vmf", "parameters": {"kappa": 20.0, "dim": 13700},
        "schedule": PLAN,
    }  # fmt: skip
    ReleaseLedger(folder / "ledgers" / f"client-{client}").write(line)


@pytest.fixture
def federation(tmp_path):
    folder = tmp_path / "federation"
    (folder / "results").mkdir(parents=True)
    for client in range(3):
        for number in (1, 2):
            release(folder, number, client)
    state = {
        "done": 2, "rows": [{"round": n, "accuracy": 0.5 + n / 10} for n in (0, 1, 2)],
        "settings": {"budget-epsilon": 2.0, "rounds": 5},
    }  # fmt: skip
    (folder / "results" / "checkpoint.json").write_text(json.dumps(state))
    return folder


def opened(folder):
    return Runs(folder / "out", [folder]).listed()[0]


def test_clients_rounds_and_budgets(federation):
    found = federations.snapshot(opened(federation))
    assert found["federation"]
    assert found["counted"]
    assert [client["name"] for client in found["clients"]] == ["client-0", "client-1", "client-2"]
    assert all(client["released"] == [1, 2] for client in found["clients"])
    assert (found["last"], found["total"], found["budget"]) == (2, 5, 2.0)
    exact = spent(ReleaseLedger(federation / "ledgers" / "client-0").lines()).epsilon
    assert float(found["clients"][0]["epsilon"]) >= exact
    assert float(found["clients"][0]["left"]) <= 2.0 - exact
    assert found["rounds"][-1] == {"round": 2, "accuracy": "70.0%"}
    assert found["alarms"] == []
    assert json.dumps(found, allow_nan=False)


def test_it_grows_with_the_ledgers(federation):
    run = opened(federation)
    before = federations.stamp(run)
    assert federations.stamp(run) == before
    release(federation, 3, 1)
    assert federations.stamp(run) != before
    found = federations.snapshot(run)
    assert found["last"] == 3
    assert [len(client["released"]) for client in found["clients"]] == [2, 3, 2]


def test_a_budget_that_was_passed_is_an_alarm(federation):
    found = federations.snapshot(opened(federation), budget=0.1)
    assert len(found["alarms"]) == 3
    assert "above its budget 0.1" in found["alarms"][0]
    assert found["clients"][0]["left"] == "0"


def test_a_damaged_ledger_is_an_alarm_and_takes_nothing_else_away(federation):
    path = federation / "ledgers" / "client-1" / "releases.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1].replace("20.0", "90.0"), lines[2]]) + "\n")
    found = federations.snapshot(opened(federation))
    assert len(found["clients"]) == 2
    assert "damaged at line 2" in found["alarms"][0]


def test_looking_changes_nothing(federation):
    before = {p: p.read_bytes() for p in sorted(federation.rglob("*")) if p.is_file()}
    federations.snapshot(opened(federation))
    assert {p: p.read_bytes() for p in sorted(federation.rglob("*")) if p.is_file()} == before


def test_evidence_names_the_best_reconstruction_and_contradictions(tmp_path):
    folder = synthetic.federation(tmp_path / "rounds")
    found = federations.snapshot(opened(folder))
    assert found["best"]["label"] == "Undefended"
    assert found["best"]["images"]["pictures"]
    assert [client["name"] for client in found["clients"]] == ["client 0", "client 1"]
    assert len(found["attacked"]) == 12
    assert not found["counted"]  # who released beside them is not known
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    broken = next(row for row in rows if row["defence"] == "vmf")
    broken["claims"] = [{"notion": "epsilon", "claim": 1.0, "lower": 3.0, "how": "an audit"}]
    synthetic.write(folder, rows)
    assert "an audit shows at least 3" in federations.snapshot(opened(folder))["alarms"][0]


def test_estimates_are_called_that(tmp_path):
    folder = synthetic.federation(tmp_path / "rounds", ground_truth=False)
    found = federations.snapshot(opened(folder))
    assert all(row["estimate"] for row in found["attacked"])
    assert found["best"]["ssim"] == "–"


def test_several_federations_of_one_folder_are_opened(tmp_path, federation):
    (tmp_path / "all").mkdir()
    for name in ("iid", "dirichlet"):
        release(tmp_path / "all" / name, 1, 0)
    names = [each.name for each in Runs(tmp_path / "out", [tmp_path / "all"]).listed()]
    assert names == ["dirichlet", "iid"]
