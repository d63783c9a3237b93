"""What people see: tables on standard output, progress on standard error."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from recondite.notions.bounds import plain_figure

__all__ = ["bar", "figure", "print_json", "print_table", "progress", "settings"]


@dataclass
class GlobalOptions:
    """Global options of the command that runs."""

    quiet: bool = False
    debug: bool = False


settings = GlobalOptions()


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def figure(value: float | str | None, digits: int = 4) -> str:
    """A measured number, rounded to the nearest; a bound has ``format_bound``."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return "∞" if value == float("inf") else plain_figure(value, digits)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    numbers: Sequence[int] = (),
    *,
    wrap: bool = False,
) -> None:
    """A table with a title line above it and notes below; ``wrap`` breaks names, never numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # COLUMNS where it is set, else the terminal's; 80 where there is none: --json is for programs.
    console = Console(width=shutil.get_terminal_size().columns, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, name in enumerate(columns):
        right = index in numbers
        whole = right or (index == 0 and not wrap)
        # Words that do not fit go on in the next line: nothing is cut.
        side: Any = "right" if right else "left"
        table.add_column(name, justify=side, no_wrap=whole, overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    with console.capture() as held:
        console.print(Text(title, style="bold"))
        console.print(table)
        for note in notes:
            for line in textwrap.wrap(note, console.width):
                console.print(Text(line, style="dim"))
    # Cells are padded to their column: no line needs to end in spaces.
    print("\n".join(line.rstrip() for line in held.get().splitlines()))


@contextmanager
def progress(what: str) -> Iterator[Any]:
    """A spinner on standard error, only on a terminal and not with --quiet; yields a tick."""
    if settings.quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        count = 0

        def tick() -> None:
            nonlocal count
            count += 1
            bar.update(task, description=f"{what} ({count} evaluations)")

        yield tick


@contextmanager
def bar(what: str) -> Iterator[Callable[[str, float], None]]:
    """A bar where ``progress`` has a spinner; yields what is told a stage and the share done."""
    if settings.quiet or not sys.stderr.isatty():
        yield lambda stage, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(what, total=1.0)

        def said(stage: str, done: float) -> None:
            drawn.update(task, completed=done, description=f"{what}: {stage}" if stage else what)

        yield said
