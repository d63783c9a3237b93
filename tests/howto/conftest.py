"""The pages' own scripts are run, so that page and test cannot drift apart."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "howto"


@pytest.fixture
def run_page(tmp_path, monkeypatch):
    """Runs the first Python block of a how-to page; returns its names."""

    def run(page):
        text = (PAGES / page).read_text(encoding="utf-8")
        code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
        monkeypatch.chdir(tmp_path)
        names = {"__name__": "page"}
        exec(compile(code, page, "exec"), names)
        return names

    return run
