"""recondite data: which data sets are here, and how to get the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recondite.cli.output import print_json, print_table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    group.command("list", help=_LIST)(list_data)
    group.command("show", help=_SHOW)(show_data)
    app.add_typer(group, name="data", help="The data sets that the commands can name.")


_LIST = """Which data sets are here, where they were found, and how to get the others.

Searched: `--data-dir`, else the variable `RECONDITE_DATA`, else `./data` and the user's own data
folder. Nothing is downloaded. Below them stand the kinds of records that `--data` can take.

`recondite data list --data-dir ~/datasets`
"""


_SHOW = """What was read from `--data`: of a table each column, its kind, and what counts as right.

Options after the target override what was inferred:
`recondite data show 'people.csv#income?categorical=zip&drop=id&tolerance=0.1'`

`recondite data show notes.csv#text,label --model hf:DIR`
"""


def show_data(
    data: Annotated[str, typer.Argument(help="As in --data.", show_default=False)],
    model: Annotated[
        str,
        typer.Option("--model", help="hf:DIR: its tokenizer reads texts.", show_default=False),
    ] = "",
    truncate: Annotated[
        int | None,
        typer.Option("--truncate", help="Cut texts to so many tokens.", show_default=False),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="The data directory.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Shows records: counts and columns, no record."""
    from recondite.records import load_records

    records = load_records(data, "all", directory=data_dir, model=model, truncate=truncate)
    if as_json:
        print_json({"schema_version": 1, **records.summary(), "parts": list(records.parts())})
        return
    none = "amounts" if records.labels.is_floating_point() else "none: texts to be continued"
    what = f"{len(records.classes)} classes" if records.classes else none
    notes = [f"target: {what}", *records.caveats]
    rows = [[str(place), part] for place, part in enumerate(records.parts(), 1)]
    print_table(f"{records.name}: {len(records):,} {records.kind}", ["", "column"], rows, notes)


def list_data(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="The data directory.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Lists data sets."""
    from recondite.records.catalogue import available
    from recondite.records.files import search_path
    from recondite.records.registry import built_in, registered

    searched = [str(place) for place in search_path(data_dir)]
    found, kinds = available(data_dir), built_in().values()
    if as_json:
        entries = [entry.to_dict() for entry in found]
        known = [
            *({"name": k.name, "takes": k.takes, "package": "recondite"} for k in kinds),
            *({"name": n, "takes": None, "package": p} for n, p in registered().items()),
        ]
        print_json(
            {"schema_version": 1, "searched": searched, "data_sets": entries, "kinds": known}
        )
        return
    rows, notes = [], []
    for entry in found:
        counts = " + ".join(f"{count:,}" for count in entry.records.values())
        rows.append([entry.name, counts or "–", entry.where or "not here"])
        if entry.remedy is not None:
            notes.append(f"{entry.name} ({entry.title}): {entry.remedy}")
    notes += [f"kind {kind.name}: {kind.takes} ({kind.title})" for kind in kinds]
    notes += [f"kind {name}: of the package {package}" for name, package in registered().items()]
    columns = ["data set", "train + test", "where"]
    print_table(f"Data, searched in {' and '.join(searched)}", columns, rows, notes, numbers=(1,))
