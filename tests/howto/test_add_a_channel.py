"""The page's own files: noise on records by another package, as a reader would run them."""

import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from recondite.defences import find
from recondite.mechanisms import registry

pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "add-a-channel.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def matched(tmp_path, monkeypatch):
    path = tmp_path / "matched.py"
    path.write_text(blocks("python")[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("matched", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "matched", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def installed(matched, monkeypatch):
    declared = r'entry-points."([\w.]+)"\]\n([\w-]+) = "([\w:]+)"'
    group, name, value = re.search(declared, blocks("toml")[0]).groups()
    entry = importlib.metadata.EntryPoint(name, value, group)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry] * (group == entry.group))
    return matched


@pytest.mark.parametrize("place", [1, 2], ids=["test", "train"])
def test_the_scripts_print_what_the_page_says(place, installed, capsys):
    exec(compile(blocks("python")[place], PAGE.name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == blocks("text")[place - 1]


def test_its_name_is_a_defence_and_the_intruder_applies(installed):
    found = find("matched-channel")
    assert found.on_records
    built = found.build(7.0)
    assert built == installed.MatchedNoise(7.0)
    rows = np.random.default_rng(1).standard_normal((500, 5)) * [1, 2, 3, 4, 0]
    channel = built.fit(rows, (1, 1, 5))
    assert channel.capacity_nats <= 7.0
    assert channel.capacity_nats == pytest.approx(7.0, rel=1e-6)
    assert channel.information(4) == channel.capacity_nats  # drawn once
