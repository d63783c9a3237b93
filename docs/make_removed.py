"""Writes CHANGELOG.md's table of names of 0.1.0 that are gone."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "<!-- removed names -->", "<!-- end of removed names -->"


def table(removed: dict[str, str]) -> str:
    """One row for each reason, with all names that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in removed.items():
        by_reason.setdefault(reason, []).append(f"`{name.removeprefix('recondite.')}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join(["| `recondite.` | instead, or why |", "| :-- | :-- |", *rows])


def with_table(page: str, removed: dict[str, str]) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table(removed)}\n\n{END}{after}"


if __name__ == "__main__":
    page = ROOT / "CHANGELOG.md"
    data = (ROOT / "tests" / "data" / "removed-0.1.0.json").read_text(encoding="utf-8")
    page.write_text(
        with_table(page.read_text(encoding="utf-8"), json.loads(data)), encoding="utf-8"
    )
