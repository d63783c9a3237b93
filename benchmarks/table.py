"""Rows as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row
from benchmarks.runner import Outcome

__all__ = ["print_outcome"]


def print_outcome(outcome: Outcome) -> None:
    """Prints every row, and why others are missing."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)  # a pipe has no width of its own
    table = Table(title="ratio = ours / peer; medians of interleaved runs", show_lines=False)
    for name in ("what", "ours", "peer", "ratio", "target", "met"):
        right = name in {"ours", "ratio"}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in outcome.rows:
        table.add_row(*_cells(row))
    console.print(table)
    for row in outcome.rows:
        if row.note:
            console.print(f"{row.name}: {row.note}", markup=False, highlight=False)
    for entry in outcome.skipped:
        console.print(f"skipped: {entry['name']}: {entry['reason']}", markup=False)
    for entry in outcome.failed:
        console.print(f"failed: {entry['name']}: {entry['reason']}", markup=False)


def _cells(row: Row) -> tuple[str, ...]:
    peer = "–" if row.peer is None else f"{_number(row.peer)} {row.unit}, {row.peer_name}"
    ratio = "–" if row.ratio is None else f"{row.ratio:.3g}"
    met = {True: "yes", False: "NO", None: "–"}[row.met]
    return row.name, f"{_number(row.ours)} {row.unit}", peer, ratio, row.target.text, met


def _number(value: float) -> str:
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"
