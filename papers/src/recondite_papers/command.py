"""recondite reproduce: the papers' tables and figures, with our numbers beside theirs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from recondite import _validate
from recondite._files import write_atomically
from recondite.cli.output import print_json, print_table, progress
from recondite_papers.command_studies import STOPPED, compared, marked, show_studies
from recondite_papers.tables.cells import Row

__all__ = ["reproduce"]

_WIDE = 120  # columns, from which on the list has all of its own


def reproduce(
    item: Annotated[
        str | None,
        typer.Argument(help="Such as compare/table-4 or biswas2025/table-4.", show_default=False),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="All tables and figures, their cost and their data.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: fewer seeds, images, iterations.")
    ] = False,
    study: Annotated[
        bool,
        typer.Option("--study", help="Print the item's study files; with --out write them there."),
    ] = False,
    engine: Annotated[
        str, typer.Option("--engine", help="stacked, comparison (its study files) or ray.")
    ] = "stacked",
    workers: Annotated[
        int | None, typer.Option("--workers", help="Of comparison and ray: tasks at a time.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for rows, the comparison, its page and figure (reproductions)."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where data sets are.")
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Begin no block after so many minutes.")
    ] = 1e6,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Checks a table or figure of the four studies and prints the paper's numbers beside ours.

    `recondite reproduce --list` `recondite reproduce compare/table-4`
    `recondite reproduce compare/table-5 --quick` Run it again to go on where it stopped.

    Items that train or attack are study files: `--study` prints them, `--study --out DIR` writes
    them for `recondite compare`, `--engine comparison` runs them (`ray`: on Ray). The default
    engine, `stacked`, trains many runs in one tensor: the same updates, sooner.
    """
    from recondite_papers.registry import find

    if show or item is None:
        _list(data_dir, as_json)
        return
    chosen = find(item)
    item = chosen.name
    if engine not in _ENGINES:
        raise ValueError(f"--engine must be {' or '.join(_ENGINES)}, got {engine!r}")
    if study:
        show_studies(item, quick, out)
        return
    _validate.positive("minutes", minutes)
    if chosen.jobs:
        _validate.device(device)
    out = out or Path("reproductions")
    missing = [name for name in chosen.data if not _here(data_dir).get(name, False)]
    if chosen.jobs and missing:
        raise ValueError(
            f"{item} needs {', '.join(missing)}, which is not here: see recondite data list"
        )
    rows: dict[str, list[Row]] = {}
    more: dict[str, Any] = {"engine": engine}
    if engine != "stacked":
        rows, found = compared(chosen, out, quick, engine, workers, device, data_dir)
        more |= found
    with progress(item) as tick:
        if chosen.jobs and engine == "stacked":
            from recondite_papers.jobs.sink import Context

            context = Context(
                device=device,
                data_dir=None if data_dir is None else str(data_dir),
                out=out,
                quick=quick,
                minutes=minutes,
                say=lambda line: tick(),
            )
            try:
                rows = chosen.run_jobs(context)
            except KeyboardInterrupt:
                print(STOPPED, file=sys.stderr)
                raise typer.Exit(130) from None
        cells = marked(chosen.cells(rows), engine, quick)
    result = {**_result(chosen, cells, quick, device), **more}
    result["figure"], result["figure_note"] = _draw(out, chosen, rows, cells, result)
    _write(out, result)
    if as_json:
        print_json(result)
    else:
        _show(result, out)
    if result.get("failed"):
        raise typer.Exit(1)


_ENGINES = ("stacked", "comparison", "ray")


def _stem(result: dict[str, Any]) -> str:
    """Names of an item's files; those of the two engines do not overwrite each other."""
    parts = [result["name"].replace("/", "-")]
    parts += ["comparison"] if result["engine"] != "stacked" else []
    parts += ["quick"] if result["quick"] else []
    return "-".join(parts)


def _draw(
    out: Path,
    item: Any,
    rows: dict[str, list[Row]],
    cells: list[Any],
    result: dict[str, Any],
) -> tuple[str | None, str | None]:
    """The SVG's name where the item is a figure, and why there is none."""
    if not item.drawn:
        return None, None
    from recondite_papers.figures.draw import draw

    target = out / f"{_stem(result)}.svg"
    try:
        # Images are the stacked jobs' files; those of a comparison are in its own report.
        pictures = out if result["engine"] == "stacked" else None
        done = draw(item.figure, rows, cells, pictures, target)
    except ValueError as error:
        return None, str(error)
    return (target.name, None) if done else (None, "nothing to draw yet")


def _here(data_dir: Path | None) -> dict[str, bool]:
    from recondite.records.catalogue import available

    found = {entry.name: entry.found for entry in available(data_dir)}
    if data_dir is not None:
        for file in data_dir.glob("*.npz"):
            found[file.stem.partition("-1")[0]] = True
    return found


def _list(data_dir: Path | None, as_json: bool) -> None:
    from recondite_papers.registry import ITEMS, quick_minutes
    from recondite_papers.study_files import FILES

    here = _here(data_dir)
    entries: list[dict[str, Any]] = [
        {
            "name": item.name,
            "title": item.title,
            "compares": item.compares,
            "data": list(item.data),
            "data_here": all(here.get(name, False) for name in item.data),
            "cpu": item.cpu,
            "gpu": item.gpu,
            "quick": item.quick,
            "note": item.note,
            "studies": list(FILES.get(item.name, ())),
        }
        for item in ITEMS.values()
    ]
    if as_json:
        total = {"quick_minutes": round(quick_minutes(), 1), "items": entries}
        print_json({"schema_version": 1, **total})
        return
    table = []
    for entry in entries:
        data = ", ".join(entry["data"]) or "none"
        state = "" if not entry["data"] else " (here)" if entry["data_here"] else " (missing)"
        cost = f"{entry['cpu']} / {entry['gpu']} / {entry['quick']}"
        table.append([entry["name"], entry["title"], data + state, cost, entry["compares"]])
    columns = ["name", "what", "data", "CPU / GPU / quick", "compared"]
    note = f"all quick versions in one folder: about {quick_minutes():.0f} minutes on two cores"
    if shutil.get_terminal_size().columns < _WIDE:
        columns, table = columns[:2] + columns[3:4], [row[:2] + row[3:4] for row in table]
        note += "; a line of 120 columns has the data and what is compared too, --json everything"
    print_table("Tables and figures of the four studies", columns, table, [note])


def _result(item: Any, cells: list[Any], quick: bool, device: str) -> dict[str, Any]:
    from recondite._version import __version__

    near = [c for c in cells if c.difference is not None]
    return {
        "schema_version": 1,
        "name": item.name,
        "title": item.title,
        "quick": quick,
        "device": device,
        "recondite": __version__,
        "note": item.note,
        "run": sum(c.ours is not None for c in cells),
        "compared": len(near),
        "cells": [cell.to_dict() for cell in cells],
    }


def _rows(result: dict[str, Any]) -> list[list[str]]:
    def text(value: float | None) -> str:
        return "–" if value is None else f"{value:.4g}"

    out = []
    for cell in result["cells"]:
        ours = text(cell["ours"])
        if cell["spread"] is not None:
            ours += f" ± {cell['spread']:.2g}"
        gap = "–" if cell["difference"] is None else f"{cell['difference']:+.3g}"
        out.append([cell["name"], text(cell["paper"]), ours, gap, cell["why"]])
    return out


_COLUMNS = ("cell", "paper", "ours", "difference", "how, or why it differs")


def _write(out: Path, result: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    stem = _stem(result)
    write_atomically(out / f"{stem}.table.json", json.dumps(result, indent=1, ensure_ascii=False))
    lines = [f"# {result['name']}: {result['title']}", ""]
    if result["quick"]:
        lines += ["A quick version: fewer seeds, images and iterations than the paper's.", ""]
    if result["engine"] != "stacked":
        lines += [f"By the comparison of {', '.join(result['runs'])}.", ""]
    if result["figure"]:
        lines += [f"![{result['title']}]({result['figure']})", ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "| --- | --: | --: | --: | --- |"]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(result)]
    write_atomically(out / f"{stem}.md", "\n".join(lines) + "\n")


def _show(result: dict[str, Any], out: Path) -> None:
    notes = [f"{result['run']} of {len(result['cells'])} cells run; written to {out}"]
    if result["quick"]:
        notes.insert(0, "quick: fewer seeds, images and iterations; no claim rests on it")
    if result["figure"] or result["figure_note"]:
        notes.append(f"figure: {result['figure'] or result['figure_note']}")
    if result["note"]:
        notes.insert(0, result["note"])
    if result["engine"] != "stacked":
        notes += [f"recondite report {folder}" for folder in result["runs"].values()]
        if result["failed"]:
            notes.append(f"{result['failed']} rows failed, the first: {result['reason']}")
    title = f"{result['name']}: {result['title']}"
    print_table(title, list(_COLUMNS), _rows(result), notes, numbers=(1, 2, 3))
