"""recondite reproduce: the papers' tables and figures, with our numbers beside theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from recondite.cli.output import print_json, print_table, progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("reproduce", help=_HELP)(reproduce)


_HELP = """Checks a table or figure of the four studies and prints the paper's numbers beside ours.

`recondite reproduce --list` `recondite reproduce compare/table-4`
`recondite reproduce compare/table-5 --quick` Run it again to go on where it stopped.
"""


def reproduce(
    item: Annotated[
        str | None, typer.Argument(help="Such as compare/table-4.", show_default=False)
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="All tables and figures, their cost and their data.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: fewer seeds, images, iterations.")
    ] = False,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path, typer.Option("--out", help="Folder for rows, the comparison, its page and figure.")
    ] = Path("reproductions"),
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where data sets are.")
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", help="Begin no block after so many minutes.")
    ] = 1e6,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Reproduces a table or figure."""
    from recondite.experiments.reproductions.registry import find

    if show or item is None:
        _list(data_dir, as_json)
        return
    chosen = find(item)
    missing = [name for name in chosen.data if not _here(data_dir).get(name, False)]
    if chosen.jobs and missing:
        raise ValueError(
            f"{item} needs {', '.join(missing)}, which is not here: see recondite data list"
        )
    rows: dict[str, list[dict[str, Any]]] = {}
    with progress(item) as tick:
        if chosen.jobs:
            from recondite.experiments.reproductions.jobs.sink import Context

            context = Context(
                device=device,
                data_dir=None if data_dir is None else str(data_dir),
                out=out,
                quick=quick,
                minutes=minutes,
                say=lambda line: tick(),
            )
            rows = chosen.run_jobs(context)
        cells = chosen.cells(rows)
    result = _result(chosen, cells, quick, device)
    result["figure"], result["figure_note"] = _draw(out, chosen, rows, cells, quick)
    _write(out, result)
    if as_json:
        print_json(result)
        return
    _show(result, out)


def _stem(name: str, quick: bool) -> str:
    return name.replace("/", "-") + ("-quick" if quick else "")


def _draw(
    out: Path, item: Any, rows: dict[str, list[dict[str, Any]]], cells: list[Any], quick: bool
) -> tuple[str | None, str | None]:
    """The SVG's name where the item is a figure, and why there is none."""
    if not item.drawn:
        return None, None
    from recondite.experiments.reproductions.figures.draw import draw

    target = out / f"{_stem(item.name, quick)}.svg"
    try:
        done = draw(item.figure, rows, cells, out, target)
    except ValueError as error:
        return None, str(error)
    return (target.name, None) if done else (None, "nothing to draw yet")


def _here(data_dir: Path | None) -> dict[str, bool]:
    from recondite.data.catalogue import available

    found = {entry.name: entry.found for entry in available(data_dir)}
    if data_dir is not None:
        for file in data_dir.glob("*.npz"):
            found[file.stem.partition("-1")[0]] = True
    return found


def _list(data_dir: Path | None, as_json: bool) -> None:
    from recondite.experiments.reproductions.registry import ITEMS, quick_minutes

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
    stem = _stem(result["name"], result["quick"])
    (out / f"{stem}.table.json").write_text(json.dumps(result, indent=1, ensure_ascii=False))
    lines = [f"# {result['name']}: {result['title']}", ""]
    if result["quick"]:
        lines += ["A quick version: fewer seeds, images and iterations than the paper's.", ""]
    if result["figure"]:
        lines += [f"![{result['title']}]({result['figure']})", ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "| --- | --: | --: | --: | --- |"]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(result)]
    (out / f"{stem}.md").write_text("\n".join(lines) + "\n")


def _show(result: dict[str, Any], out: Path) -> None:
    notes = [f"{result['run']} of {len(result['cells'])} cells run; written to {out}"]
    if result["quick"]:
        notes.insert(0, "quick: fewer seeds, images and iterations; no claim rests on it")
    if result["figure"] or result["figure_note"]:
        notes.append(f"figure: {result['figure'] or result['figure_note']}")
    if result["note"]:
        notes.insert(0, result["note"])
    title = f"{result['name']}: {result['title']}"
    print_table(title, list(_COLUMNS), _rows(result), notes, numbers=(1, 2, 3))
