"""recondite compare, demo and report: the main job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from recondite.cli.answers import (
    PARTICIPATION,
    REQUIRE,
    THREAT,
    AnswerOptions,
    answered,
    tell,
    to_dict,
)
from recondite.cli.comparison import show, show_answer
from recondite.cli.dry_run import dry_run_of
from recondite.cli.options import ANSWER, DATA, OUTPUT, RUNNING, grouped
from recondite.cli.output import print_json, progress

__all__ = ["register"]

_ENGINE = Annotated[str, typer.Option("--engine", help="local (processes) or ray.")]
_WORKERS = Annotated[
    int | None, typer.Option("--workers", help="Tasks at a time (one for each core).")
]
_DATA_DIR = Annotated[Path | None, typer.Option("--data-dir", help="Where data sets are.")]
_PRIVATE = Annotated[
    bool,
    typer.Option("--show-private", help="Let the report show images of data not known public."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("compare", help=_COMPARE)(compare)
    app.command("demo", help=_DEMO)(demo)
    app.command("report", help=_REPORT)(report)


_COMPARE = """Compares defences on your data and model: trains, accounts, attacks, reports.

`recondite compare study.yaml`

`recondite compare --template > study.yaml`

`recondite compare runs/study --require "epsilon<=8" --require "accuracy>=0.8"`

Run it again to go on where it stopped. A folder is a finished run. Exit code: 1 if a row failed or
nothing meets what is required, 2 for a mistake.
"""
_DEMO = """The comparison on real digits, in about two minutes on two cores.

`recondite demo --out demo`
"""
_REPORT = """Builds the report of one run, or of several beside each other.

`recondite report runs/study`

`recondite report RUN1 RUN2 --figures figures`
"""


_PANELS = {
    DATA: "data_dir own_code",
    RUNNING: "engine workers dry_run retry_failed template",
    ANSWER: "require threat participation",
    OUTPUT: "out parquet mlflow no_report figures show_private as_json",
}


def _template(wanted: bool) -> None:
    """Prints a commented study to copy, and ends."""
    if wanted:
        from importlib import resources

        place = resources.files("recondite.studies").joinpath("template.yaml")
        print(place.read_text(encoding="utf-8"), end="")
        raise typer.Exit()


@grouped(_PANELS)
def compare(
    study: Annotated[
        Path, typer.Argument(help="The study file (YAML), or a finished run.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the results (runs/NAME).")
    ] = None,
    engine: _ENGINE = "local",
    workers: _WORKERS = None,
    data_dir: _DATA_DIR = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the grid and the time it takes; run nothing.")
    ] = False,
    own_code: Annotated[
        bool, typer.Option("--own-code", help="Let --dry-run import package.module:function.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run again what failed before.")
    ] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also write records.parquet.")] = False,
    mlflow: Annotated[
        bool, typer.Option("--mlflow", help="Also log every row to MLflow (MLFLOW_TRACKING_URI).")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Rows only.")] = False,
    show_private: _PRIVATE = False,
    require: REQUIRE = None,
    threat: THREAT = None,
    participation: PARTICIPATION = None,
    as_json: Annotated[bool, typer.Option("--json", help="A summary as JSON.")] = False,
    template: Annotated[
        bool,
        typer.Option(
            "--template",
            help="Print a commented study to copy.",
            is_eager=True,
            callback=_template,
        ),
    ] = False,
) -> None:
    """Runs a study, or answers from a finished run."""
    del template  # printed before anything else is read
    asked = AnswerOptions.of(require, threat, participation)
    if study.is_dir():
        tell([study], asked, as_json=as_json)
        return
    with progress("reading the study"):
        read = _read(study, data_dir, own_code=own_code or not dry_run)
    folder = out or Path("runs") / read.name
    if dry_run:
        dry_run_of(read, folder, workers, data_dir, as_json)
        return
    _compare(
        read,
        folder,
        again=f"recondite compare {study}{'' if out is None else f' --out {out}'}",
        engine=engine,
        workers=workers,
        data_dir=data_dir,
        retry_failed=retry_failed,
        parquet=parquet,
        mlflow=mlflow,
        with_report=not no_report,
        show_private=show_private,
        as_json=as_json,
        asked=asked,
    )


@grouped(_PANELS)
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("demo"),
    engine: _ENGINE = "local",
    workers: _WORKERS = None,
    threat: THREAT = None,
    participation: PARTICIPATION = None,
    as_json: Annotated[bool, typer.Option("--json", help="A summary as JSON.")] = False,
) -> None:
    """Runs the built-in study."""
    from importlib import resources

    asked = AnswerOptions.of(None, threat, participation)
    with progress("reading the study"):
        place = resources.files("recondite.studies").joinpath("demo.yaml")
        with resources.as_file(place) as path:
            read = _read(path, None)
    _compare(read, out, again=f"recondite demo --out {out}", engine=engine, workers=workers,
             data_dir=None, as_json=as_json, asked=asked)  # fmt: skip


@grouped(_PANELS)
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", help="The file (report.html of the run, or here).")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also write PNG, SVG and PDF figures there.")
    ] = None,
    show_private: _PRIVATE = False,
    require: REQUIRE = None,
    threat: THREAT = None,
    participation: PARTICIPATION = None,
) -> None:
    """Builds a report."""
    import recondite.report as reports

    asked = AnswerOptions.of(require, threat, participation)
    with progress("building the report"):
        # Of several runs it belongs to none of them: it goes where the command was typed.
        default = runs[0] / "report.html" if len(runs) == 1 else Path("report.html")
        path = reports.build(runs, out or default, show_private=show_private)
        if figures is not None:
            reports.figures(runs, figures)
    print(f"report: {path}")
    if figures is not None:
        print(f"figures: {figures}")
    if require:
        tell(runs, asked)


def _read(path: Path, data_dir: Path | None, *, own_code: bool = True) -> Any:
    """The study, checked; where code of its own must not run, one that names none."""
    try:
        from recondite.studies.source import StudyError, read
        from recondite.studies.study import check_source
    except ImportError as error:
        raise ValueError(
            f"a comparison needs {error.name}: pip install 'recondite[compare]'"
        ) from None
    try:
        source = read(path)
        if not own_code:
            _no_code(source.data)
        return check_source(source, None if data_dir is None else str(data_dir))[0]
    except StudyError as error:
        for line in error.lines:
            print(line, file=sys.stderr)
        raise typer.Exit(2) from None


def _no_code(content: Any) -> None:
    """Refuses a study whose data or model is code that a look at the study would run."""
    from recondite.records.user_code import is_dotted

    for key in ("data", "model"):
        name = content.get(key) if isinstance(content, dict) else None
        if isinstance(name, str) and is_dotted(name):
            raise ValueError(
                f"{key} {name} is code, and even a dry run imports and calls it: read it first, "
                "then add --own-code"
            )


def _compare(
    study: Any,
    folder: Path,
    *,
    again: str,
    engine: str,
    workers: int | None,
    data_dir: Path | None,
    as_json: bool,
    retry_failed: bool = False,
    parquet: bool = False,
    mlflow: bool = False,
    with_report: bool = True,
    show_private: bool = False,
    asked: AnswerOptions,
) -> None:
    from recondite.cli.monitor import make_monitor
    from recondite.studies.runner import compare as run
    from recondite.studies.store import StoreError

    try:
        outcome = run(
            study,
            folder,
            engine=engine,
            workers=workers,
            data_dir=None if data_dir is None else str(data_dir),
            retry_failed=retry_failed,
            monitor=make_monitor(),
        )
    except KeyboardInterrupt:
        _stop(f"what was finished is kept; go on with: {again}", 130)
    except StoreError as error:
        _stop(str(error), 1)
    if study.search is not None and not outcome.rows:
        _nothing(outcome, study, as_json)
        return
    written = _extras(folder, outcome, study.name, parquet, mlflow)
    if with_report:
        import recondite.report as reports

        with progress("building the report"):
            page = reports.build([folder], folder / "report.html", show_private=show_private)
        written.insert(0, f"report: {page}")
    answers, view, gate = answered([folder], asked)
    if as_json:
        print_json({**_summary(outcome, study), **to_dict(answers, view, gate)})
        if outcome.failed or (gate is not None and not gate[0]):
            raise typer.Exit(1)
        return
    show_answer(answers, view)
    title = f"{study.name}: {study.model} on {outcome.rows[0]['data']['name']}"
    show(answers, view, outcome.rows, title)
    for line in _made(outcome, study, folder, answers.price(view, {})):
        print(line)
    for line in written:
        print(line)
    if outcome.failed:
        print(f"{outcome.failed} failed, with their reasons in the rows (--retry-failed)")
    if gate is not None:
        print(gate[1])
    if outcome.failed or (gate is not None and not gate[0]):
        raise typer.Exit(1)


def _extras(folder: Path, outcome: Any, name: str, parquet: bool, mlflow: bool) -> list[str]:
    from recondite.studies import frame

    written = []
    if parquet:
        written.append(f"table: {frame.to_parquet(folder)}")
    if mlflow:
        count = frame.log_to_mlflow(outcome.rows, name, os.environ.get("MLFLOW_TRACKING_URI"))
        written.append(f"MLflow: {count} runs logged to experiment {name}")
    return written


def _stop(message: str, code: int) -> None:
    print(f"recondite: {message}", file=sys.stderr)
    raise typer.Exit(code)


def _made(outcome: Any, study: Any, folder: Path, price: list[str]) -> list[str]:
    """Where rows are, and how long they took; of a search its price instead, for time tells K."""
    from recondite.cli.monitor import duration

    there = f"rows: {folder / 'records.jsonl'} ({len(outcome.rows)}, {outcome.ran} new"
    if study.search is None:
        return [f"{there}, {duration(outcome.seconds)})"]
    kept = f"keep to yourself: {folder / 'search'}"
    return [*(f"price: {line}" for line in price), kept, f"{there})"]


def _nothing(outcome: Any, study: Any, as_json: bool) -> None:
    """What is told of a search that was to make no run."""
    if as_json:
        print_json(_summary(outcome, study))
        return
    print("the search drew no run, as the Poisson rule may: nothing is told, and nothing was tried")


def _summary(outcome: Any, study: Any) -> dict[str, Any]:
    rows = outcome.rows
    secret = study.search is not None
    return {
        "schema_version": 1,
        "run": str(outcome.run),
        "rows": len(outcome.rows),
        "new": outcome.ran,
        "failed": outcome.failed,
        "seconds": None if secret else round(outcome.seconds, 1),
        **({"search": rows[0]["search"] if rows else None} if secret else {}),
        "results": [
            {key: row[key] for key in ("label", "defence", "value", "seed", "attack", "status",
                                       "reason", "utility", "notions")}
            for row in outcome.rows
        ],
    }  # fmt: skip
