"""The page's own files: the class, its test and its training, as a reader would run them."""

import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import recondite as rc
from recondite.mechanisms import registry

pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "add-a-defence.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def sketched(tmp_path, monkeypatch):
    path = tmp_path / "sketched.py"
    path.write_text(blocks("python")[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("sketched", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sketched", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("place", [1, 2], ids=["test", "train"])
def test_the_scripts_print_what_the_page_says(place, sketched, capsys):
    names = {"__name__": "page"}
    exec(compile(blocks("python")[place], PAGE.name, "exec"), names)
    assert capsys.readouterr().out == blocks("text")[place - 1]
    if place == 1:
        assert not names["audit"].refuted
        assert names["audit"].lower > 0.5 * names["audit"].claim


@pytest.fixture
def installed(sketched, monkeypatch):
    declared = r'entry-points."([\w.]+)"\]\n(\w+) = "([\w:]+)"'
    group, name, value = re.search(declared, blocks("toml")[0]).groups()
    entry = importlib.metadata.EntryPoint(name, value, group)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry] * (group == entry.group))
    return sketched


def test_the_entry_point_gives_every_command(installed):
    made = registry.mechanisms()["sketched"]
    assert made is installed.SketchedGaussian
    # What the page shows of the account.
    run = rc.Poisson(128 / 60000, 1407)
    found = rc.account(made(1.23, 13700, 100, max_batch_size=160), run, 1 / 60000)
    assert found.epsilon["pld"] == pytest.approx(0.2625, abs=1e-4)
    assert found.log_bayes_capacity["per_release"] == pytest.approx(304.8, abs=0.05)


@pytest.mark.parametrize("level", ["client", "record"])
def test_a_federated_client_can_be_pinned_to_it(installed, tmp_path, level):
    pytest.importorskip("flwr")
    from recondite.federated import spent
    from recondite.federated.flower.app import ready_client
    from recondite.federated.flower.server import federate
    from recondite.federated.flower.simulation import HereGrid
    from recondite.federated.ledger import ReleaseLedger
    from recondite.federated.settings import Settings

    settings = Settings(
        data="digits",
        prepare="none",
        clients=2,
        rounds=1,
        batch_size=16,
        sampling="poisson",
        defence="sketched",
        strength=2.0,
        level=level,
        ledger=str(tmp_path),
    )
    _, rows = federate(HereGrid(ready_client(settings.policy()), 2), settings)
    assert rows[-1]["defence"].startswith("sketched")
    cost = spent(ReleaseLedger(tmp_path / "client-1").lines())
    assert (cost.level, cost.rounds) == (level, 1)
    assert rows[-1]["epsilon"] >= cost.epsilon > 0


@pytest.mark.parametrize("command", ["account", "calibrate"])
def test_the_commands_print_what_the_page_says(command, installed, capsys, monkeypatch):
    from recondite.cli.main import run

    text = next(b for b in blocks("sh") if f"recondite {command} sketched" in b)
    typed = text[text.index(f"recondite {command}") :].replace("\\\n", " ").split("\n")[0]
    monkeypatch.setenv("COLUMNS", "112")
    assert run(typed.split()[1:]) == 0
    first = {"account": "sketched: noise", "calibrate": "sketched with"}[command]
    shown = next(block for block in blocks("text") if block.startswith(first))
    # A wheel alone has no papers beside it: here their lines may stand in between.
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "paper's approach" not in line] == shown.splitlines()
