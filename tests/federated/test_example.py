"""The example app: an ordinary Flower client, defended in one line, with real messages."""

import importlib
import sys
from pathlib import Path

import pytest

from recondite.federated.flower.simulation import HereGrid

FOLDER = Path(__file__).parents[2] / "examples" / "federated"


@pytest.fixture
def example(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "digits"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module


def test_the_example_trains_and_lets_only_noise_out(example, tmp_path):
    from flwr.app import Context, RecordDict
    from flwr.cli.config_utils import load_and_validate

    config, _ = load_and_validate(FOLDER / "pyproject.toml", check_module=False)
    settings = {**config["tool"]["flwr"]["app"]["config"], "rounds": 1}
    client, server = example("digits.client_app").app, example("digits.server_app").app
    grid = HereGrid(client, 2, run_config=settings)
    context = Context(grid.run_id, 0, {}, RecordDict(), settings)
    server(grid, context)
    assert (tmp_path / "audit" / "records.jsonl").exists()
    assert all("recondite.ledger" in c.state.config_records for c in grid.contexts.values())
