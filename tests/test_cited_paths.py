"""Source files that pages and docstrings name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(path for path in (ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
]
# What a reader would look for in this repository; a how-to's own package is not in it.
PATH = re.compile(
    r"(?<![\w/.-])((?:src/)?recondite/[\w/]+\.\w+|(?:tests|benchmarks|papers|examples|results)/[\w./-]+\.(?:py|json|md|sh|yaml))\b"
)
STARRED = re.compile(r"[*<{]")


def places(path: str) -> list[Path]:
    return [ROOT / path, ROOT / "src" / path]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    named = {path for path in PATH.findall(text) if not STARRED.search(path)}
    assert [path for path in sorted(named) if not any(p.exists() for p in places(path))] == []
