"""The second distribution: what it registers, and that the library does not need it."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points, requires, version
from pathlib import Path

import pytest

import recondite
import recondite_papers
from recondite.cli.main import run
from recondite.mechanisms import mechanisms
from recondite_papers.registry import ALIASES, ITEMS, find

LIBRARY = Path(recondite.__file__).parent
SOURCE = Path(recondite_papers.__file__).parent
PAPERS = Path(__file__).resolve().parents[1]


def test_both_distributions_have_one_version():
    text = (PAPERS / "pyproject.toml").read_text()
    stated = re.search(r'(?m)^version = "(.*)"$', text)[1]
    needed = re.search(r'"recondite\[compare\]==(.*?)"', text)[1]
    assert stated == needed == recondite.__version__ == version("recondite-papers")
    assert f"recondite[compare]=={stated}" in requires("recondite-papers")


def test_the_library_never_imports_the_papers():
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("recondite_papers") for name in names), path.name


def test_it_plugs_in_by_entry_points():
    commands = {entry.name: entry.value for entry in entry_points(group="recondite.commands")}
    assert commands["reproduce"] == "recondite_papers.command:reproduce"
    unproven = set(mechanisms(unproven=True)) - set(mechanisms())
    assert {"constant-noise", "kept-lengths"} <= unproven


def test_every_registered_object_is_there():
    stated = tomllib.loads((PAPERS / "pyproject.toml").read_text())["project"]["entry-points"]
    for group in stated.values():
        for name, place in group.items():
            module, _, attribute = place.partition(":")
            found = getattr(import_module(module), attribute)
            assert getattr(found, "name", name) == name or group is not stated["recondite.defences"]


def test_a_command_that_protects_somebody_cannot_name_its_defences(capsys):
    schedule = ["--rate", "1/9", "--steps", "9", "--delta", "1/9"]
    for name in ("constant-noise", "kept-lengths"):
        assert run(["account", name, *schedule]) == 2
        assert "mechanism must be one of gaussian, vmf, " in capsys.readouterr().err
        assert run(["train", "--data", "digits", "--model", "mlp", "--defence", name]) == 2
        assert f"got {name!r}" in capsys.readouterr().err


def test_the_command_line_starts_without_torch():
    code = (
        "from recondite.cli.main import run; import sys; run(['--help'])\n"
        "assert 'recondite_papers' in sys.modules\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_papers_are_found_by_authors_and_year(capsys):
    # The frontier is a study of our own: nobody else is cited for it.
    assert set(ALIASES.values()) | {"frontier"} == {item.study for item in ITEMS.values()}
    for name, item in ITEMS.items():
        if item.study == "frontier":
            continue
        cited = {study: authors for authors, study in ALIASES.items()}[item.study]
        assert find(name.replace(item.study, cited, 1)) is find(name) is item
    assert run(["reproduce", "biswas2025/table-5", "--study"]) == 0
    assert "name: compare-table-5-mnist" in capsys.readouterr().out
    assert run(["reproduce", "faustini2022/table-9"]) == 2
    assert "there is no reproduction 'dirdp-v1/table-9': did you mean" in capsys.readouterr().err


def test_all_61_items_are_here():
    assert len(ITEMS) == 61


@pytest.mark.parametrize(
    ("device", "said"),
    [("cuda", "device cuda is not here: choose cpu"), ("foo", "device must be cpu or cuda")],
)
def test_a_device_that_is_not_here_is_one_line(device, said, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert run(["-q", "reproduce", "compare/table-2", "--quick", "--device", device]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error


@pytest.mark.parametrize("folder", [SOURCE, PAPERS / "pages"])
def test_modules_can_be_read_in_one_sitting(folder):
    for path in folder.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path.name
