"""Synthetic runs and the report built from one of them."""

import sys
from pathlib import Path

import pytest

# The generator is shared with the browser tests, which live elsewhere.
sys.path.insert(0, str(Path(__file__).parent))
import synthetic

from recondite import report


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory):
    return synthetic.comparison(tmp_path_factory.mktemp("runs") / "demo")


@pytest.fixture(scope="session")
def page(run_dir):
    return report.build([run_dir], run_dir / "report.html")


@pytest.fixture(scope="session")
def html(page):
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def modern(tmp_path_factory):
    """A page of rows with games, threats and blind guesses."""
    folder = tmp_path_factory.mktemp("modern") / "run"
    rows = synthetic.modern_rows()
    synthetic.pictures(folder, rows)
    return report.build([synthetic.write(folder, rows)], folder / "r.html").read_text("utf-8")
