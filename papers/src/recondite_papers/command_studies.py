"""Study files of recondite reproduce: shown, written, and run by the comparison."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from recondite_papers.tables.cells import Row

__all__ = ["STOPPED", "compared", "marked", "show_studies"]

_RUNS = "comparisons"
STOPPED = "recondite: what was finished is kept; type the same to go on"


def show_studies(item: str, quick: bool, out: Path | None) -> None:
    """Prints or writes study files; of a quick version what it runs, which has no comments."""
    import yaml

    from recondite_papers.study_files import chosen, text

    texts = {}
    for name, _, study in chosen(item, quick):
        body = text(name)
        if quick:
            plain = study.model_dump(exclude_none=True, exclude_defaults=True)
            body = f"# quick version of {name}: no claim rests on it\n" + yaml.safe_dump(
                plain, sort_keys=False, allow_unicode=True
            )
        texts[study.name] = body
    if out is None:
        print("---\n".join(texts.values()), end="")
        return
    out.mkdir(parents=True, exist_ok=True)
    for name, body in texts.items():
        file = out / f"{name}.yaml"
        file.write_text(body, encoding="utf-8")
        print(f"recondite compare {file}")


def compared(
    item: Any,
    out: Path,
    quick: bool,
    engine: str,
    workers: int | None,
    device: str,
    data_dir: Path | None,
) -> tuple[dict[str, list[Row]], dict[str, Any]]:
    """Runs the item's study files; rows as its tables want them, and what was run."""
    try:
        from recondite.cli.monitor import make_monitor
        from recondite.studies.store import StoreError
        from recondite_papers.from_rows import results_of
        from recondite_papers.study_files import run
    except ImportError as error:
        raise ValueError(
            f"a comparison needs {error.name}: pip install 'recondite[compare]'"
        ) from None
    try:
        ran = run(
            item.name,
            out / _RUNS,
            quick=quick,
            engine="ray" if engine == "ray" else "local",
            workers=workers,
            device=device,
            data_dir=None if data_dir is None else str(data_dir),
            monitor=make_monitor(),
        )
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        raise typer.Exit(130) from None
    except StoreError as error:
        print(f"recondite: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    found = results_of(ran.studies, quick=quick)
    rows = {result: found.get(result, []) for _, result, _ in item.jobs}
    runs = {name: str(folder) for name, _, folder, _ in ran.studies}
    return rows, {"runs": runs, "failed": ran.failed, "reason": ran.reason or None}


def marked(cells: list[Any], engine: str, quick: bool) -> list[Any]:
    """Cells of a quick comparison differ because it is quick: a table's own reasons do not hold."""
    from dataclasses import replace

    if engine == "stacked" or not quick:
        return cells
    return [cell if cell.ours is None else replace(cell, why="quick") for cell in cells]
