"""recondite check: what a training does, against what is claimed of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from recondite.cli.options import (
    MECHANISM,
    RUN,
    build_mechanism,
    build_schedule,
    check_relation,
    number,
    shared,
)
from recondite.cli.output import bar, print_json, print_table

if TYPE_CHECKING:
    from recondite.checking import CheckResult

__all__ = ["register"]

_HELP = """Measures what a training does, and says whether that is what is claimed of it.

`recondite check my_package.training:make_trainer --claim epsilon=8 --delta 1e-5
--rate 16/1000 --steps 500`

The function returns a `recondite.checking.Trainer`. Exit code 0: consistent with the claim. 1:
violates it, or the check cannot tell (a gate must not open for that). 2: the input is wrong.
"""
_SCHEDULE = {
    name: RUN[name]
    for name in ("batch_size", "sampling", "rate", "steps", "epochs", "records", "delta")
} | {"neighbouring": RUN["neighbouring"]}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("check", help=_HELP)(check)


@shared(_SCHEDULE)
def check(
    trainer: Annotated[str, typer.Argument(help="PACKAGE.MODULE:FUNCTION that makes a trainer.")],
    claim: Annotated[str, typer.Option("--claim", help="epsilon=NUMBER, of the whole run.")],
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism", help="Noise that is told: gaussian, vmf, partitioned or directional."
        ),
    ] = "gaussian",
    runs: Annotated[int, typer.Option("--runs", help="Steps a side of each measurement.")] = 1000,
    confidence: Annotated[
        float, typer.Option("--confidence", help="With which 'violates' holds.")
    ] = 0.999,
    skip: Annotated[
        list[str] | None,
        typer.Option("--skip", help="A check to leave out, such as sampling; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeats a check.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Checks a training."""
    from recondite.checking import PrivacyClaim
    from recondite.checking import check as measure
    from recondite.records.user_code import load_object

    if given.delta is None:
        raise ValueError("--delta is needed for a claim about epsilon")
    schedule = build_schedule(given)
    assert schedule is not None  # needed, so that it was given
    unset = dict.fromkeys([*MECHANISM, "batch_size"])
    kind = build_mechanism(mechanism, SimpleNamespace(**unset), start=1.0)
    check_relation(given, kind, schedule)
    stated = PrivacyClaim(_epsilon(claim), given.delta, schedule, kind)
    make = load_object(trainer)
    if not callable(make):
        raise ValueError(f"{trainer} must be a function that makes a trainer")
    with bar(f"checking {trainer}") as said:
        result = measure(
            make,
            stated,
            runs=runs,
            confidence=confidence,
            skip=tuple(skip or ()),
            seed=seed,
            progress=lambda done: said("", done),
        )
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result)
    if result.verdict != "consistent":
        raise typer.Exit(1)


def _epsilon(text: str) -> float:
    name, equals, value = text.partition("=")
    if not equals or name.strip() not in ("epsilon", "ε"):
        raise ValueError(f"--claim must be epsilon=NUMBER, got {text!r}")
    return number(value)


def _show(result: CheckResult) -> None:
    from recondite.checking.findings import WORDS

    rows = [[f.check, WORDS[f.verdict], f.evidence] for f in result.findings]
    notes = [
        f"{result.steps:,} steps; a training that does what is claimed is contradicted with "
        f"probability at most {1 - result.confidence:.2g}; one that is consistent is not proved"
    ]
    title = f"{WORDS[result.verdict]}: {result.claim}"
    print_table(title, ["check", "answer", "evidence"], rows, notes)
