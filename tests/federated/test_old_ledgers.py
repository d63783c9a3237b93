"""Ledgers of clients of version 0.1.0: read at the cost they had, and written on."""

import json
import shutil
from pathlib import Path

import pytest

from recondite.federated.cost import Budget, overspent, spent
from recondite.federated.ledger import ReleaseLedger

OLD = Path(__file__).resolve().parents[1] / "data" / "v0_1_0" / "federation"
NAMES = ["gaussian", "natural", "vmf"]


@pytest.fixture(params=NAMES)
def client(request, tmp_path):
    """A copy of a client's folder, and what 0.1.0 said of it."""
    folder = Path(shutil.copytree(OLD / request.param, tmp_path / "ledger"))
    return ReleaseLedger(folder), json.loads((folder / "account.json").read_text())


def same(found, written):
    if isinstance(written, dict):
        assert written.keys() <= found.keys()
        for key in written:
            same(found[key], written[key])
    elif isinstance(written, float):
        assert found == pytest.approx(written, rel=1e-10)
    else:
        assert found == written


def test_it_costs_what_it_cost(client):
    ledger, account = client
    same(spent(ledger.lines(), delta=1e-5).to_dict(), account)


def test_it_is_written_on_and_the_new_line_is_sealed(client):
    ledger, account = client
    ledger.write({**ledger.lines()[0], "key": "0" * 32, "round": 3})
    again = ReleaseLedger(ledger.folder)
    assert spent(again.lines(), delta=1e-5).rounds == account["rounds"] + 1
    path = ledger.folder / "releases.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"round":3', b'"round":4'))
    with pytest.raises(ValueError, match="damaged"):
        ReleaseLedger(ledger.folder)


def test_a_budget_counts_its_rounds(client):
    ledger, _ = client
    assert overspent(Budget(rounds=2), ledger.lines()) is None
    more = [*ledger.lines(), {**ledger.lines()[0], "key": "0" * 32, "round": 3}]
    assert "2" in overspent(Budget(rounds=2), more)
