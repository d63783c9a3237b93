"""Writes CHANGELOG.md's tables of names of 0.1.0 that are gone, and of those that moved."""

import json
from pathlib import Path

import recondite
from recondite import _deprecated

ROOT = Path(__file__).parents[1]
START, END = "<!-- removed names -->", "<!-- end of removed names -->"
MOVED_START, MOVED_END = "<!-- moved names -->", "<!-- end of moved names -->"


def _rows(reason_of: dict[str, str], head: str) -> str:
    """One row for each reason, with all names that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reason_of.items():
        by_reason.setdefault(reason, []).append(f"`{name.removeprefix('recondite.')}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join([f"| `recondite.` | {head} |", "| :-- | :-- |", *rows])


def moved() -> dict[str, str]:
    """Old names that lead to new ones for a version, with a warning: names as they are met."""
    top = {
        f"recondite.{name}": f"recondite.{home}.{name}"
        for home, names in recondite._BEFORE.items()
        for name in names
    }
    both = {**_deprecated.MOVED, **_deprecated.RENAMED, **top}
    return {old: f"`{new.removeprefix('recondite.')}`" for old, new in sorted(both.items())}


def _between(page: str, start: str, end: str, table: str) -> str:
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n\n{table}\n\n{end}{after}"


def with_table(page: str, removed: dict[str, str]) -> str:
    """The page with the tables between their marks."""
    page = _between(page, START, END, _rows(removed, "instead, or why"))
    return _between(page, MOVED_START, MOVED_END, _rows(moved(), "now `recondite.`"))


if __name__ == "__main__":
    page = ROOT / "CHANGELOG.md"
    data = (ROOT / "tests" / "data" / "removed-0.1.0.json").read_text(encoding="utf-8")
    page.write_text(
        with_table(page.read_text(encoding="utf-8"), json.loads(data)), encoding="utf-8"
    )
