"""Every public name of 0.1.0 imports, or the changelog says why it is gone."""

import importlib
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

import recondite
from recondite import _deprecated

TESTS = Path(__file__).parent
# Modules of 0.1.0 and their __all__, read from the sources of its commit, 76043d6.
NAMES = json.loads((TESTS / "data" / "names-0.1.0.json").read_text(encoding="utf-8"))
REMOVED = json.loads((TESTS / "data" / "removed-0.1.0.json").read_text(encoding="utf-8"))


def gone(name: str) -> bool:
    """Whether a name, or a module that it is in, is listed as removed."""
    return any(name == old or name.startswith(f"{old}.") for old in REMOVED)


def resolve(name: str):
    """What an import of the name gives."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        return getattr(resolve(home), last)


@pytest.mark.filterwarnings("ignore:.*is now:DeprecationWarning")
@pytest.mark.parametrize("module", [name for name in NAMES if not gone(name)])
def test_names_of_0_1_0_import_or_are_listed(module):
    found = importlib.import_module(module)
    missing = [name for name in NAMES[module] if not hasattr(found, name)]
    assert [name for name in missing if not gone(f"{module}.{name}")] == []


@pytest.mark.filterwarnings("ignore:.*is now:DeprecationWarning")
@pytest.mark.parametrize("old", REMOVED)
def test_what_is_listed_is_gone_was_there_and_has_a_successor_that_is_there(old):
    home, _, last = old.rpartition(".")
    assert old in NAMES or last in NAMES[home]
    with pytest.raises((ImportError, AttributeError)):
        resolve(old)
    for name in re.findall(r"`(recondite\.[\w.]+)(?:\(\))?`", REMOVED[old]):
        resolve(name)


@pytest.mark.parametrize("old", _deprecated.RENAMED)
def test_old_names_warn_and_lead_to_the_new_ones(old):
    home, _, last = old.rpartition(".")
    with pytest.warns(DeprecationWarning, match=re.escape(f"{old} is now")):
        found = getattr(importlib.import_module(home), last)
    assert found is resolve(_deprecated.RENAMED[old])


def test_a_module_with_old_names_is_itself_otherwise():
    import inspect

    from recondite.training import canary

    assert "class CanaryResult" in inspect.getsource(canary)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = canary.Nothing
    assert "CanaryAudit" not in canary.__all__


def test_the_part_of_0_1_0_that_is_called_studies_now():
    sys.modules.pop("recondite.experiments", None)
    vars(recondite).pop("experiments", None)
    with pytest.warns(DeprecationWarning, match="is now recondite.studies"):
        assert recondite.experiments is recondite.studies


def test_the_tables_of_the_changelog_are_those_of_the_data():
    made = runpy.run_path(str(TESTS.parent / "docs" / "make_removed.py"))
    page = (TESTS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert made["with_table"](page, REMOVED) == page
    for mark in ("START", "END", "MOVED_START", "MOVED_END"):
        assert page.count(made[mark]) == 1
    assert set(made["moved"]()) > {*_deprecated.MOVED, *_deprecated.RENAMED}
