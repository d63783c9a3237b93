"""recondite calibrate and recondite match: from a target to noise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recondite.cli.options import (
    MECHANISM,
    RUN,
    build_mechanism,
    build_schedule,
    check_relation,
    describe,
    number,
    shared,
)
from recondite.cli.output import figure, print_json, print_table, progress
from recondite.notions.registry import target as find
from recondite.notions.registry import targets

if TYPE_CHECKING:
    from recondite.accounting.selection import RunCount
    from recondite.notions.calibration import Calibration

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("calibrate", help=_CALIBRATE)(calibrate)
    app.command("match", help=_MATCH)(match)


_CALIBRATE = """The weakest noise that meets a target, never one that misses it.

`recondite calibrate vmf --dim 13700 --epsilon 8 --rate 128/60000 --steps 1407 --delta 1/60000`

MECHANISM is gaussian, vmf, partitioned or directional.
"""
_MATCH = """The noise of another mechanism that is equal in one notion of privacy.

`recondite match gaussian --noise-multiplier 1.23 --max-batch-size 160 --to vmf
--by bayes-capacity --dim 13700`

SOURCE is gaussian, vmf, partitioned or directional.
"""

# Those of other packages are not loaded before they are asked for: --target NAME=VALUE.
TARGETS = {
    name.replace("-", "_"): Annotated[
        float,
        typer.Option(
            f"--{name}",
            help=f"Largest {notion.label}{f' ({notion.unit})' if notion.unit else ''}.",
            parser=number,
            metavar="NUMBER",
            show_default=False,
            rich_help_panel="Target: exactly one",
        ),
    ]
    for name, notion in targets(ours=True).items()
}


_KINDS = "gaussian, vmf, partitioned or directional"
_PER = typer.Option("--per", help="Capacity and information of one 'release' or the 'run'.")


def _extras(given: SimpleNamespace) -> dict[str, Any]:
    names = ("delta", "group_size", "prior_success")
    return {name: getattr(given, name) for name in names if getattr(given, name) is not None}


def _target(given: SimpleNamespace, other: str | None) -> tuple[str, float]:
    """The one target that was typed."""
    named = {name.replace("_", "-"): getattr(given, name) for name in TARGETS}
    if other is not None:
        name, equals, text = other.partition("=")
        if not equals:
            raise ValueError(f"--target must be NAME=VALUE, got {other!r}")
        named[name] = number(text)
    typed = [(name, value) for name, value in named.items() if value is not None]
    if len(typed) != 1:
        flags = ", ".join(f"--{name}" for name in targets(ours=True))
        raise ValueError(f"give exactly one target: one of {flags}, or --target NAME=VALUE")
    return typed[0]


def _of_run(notion: str, per: str) -> bool:
    """Whether a schedule is needed."""
    return not find(notion).scoped or per == "run"


@shared(TARGETS, MECHANISM, RUN)
def calibrate(
    mechanism: Annotated[str, typer.Argument(help=f"{_KINDS}.")],
    other: Annotated[
        str | None,
        typer.Option("--target", help="NAME=VALUE of a notion from another package."),
    ] = None,
    per: Annotated[str, _PER] = "release",
    selected_from: Annotated[
        int | None,
        typer.Option("--selected-from", help="The best of so many runs meets the target."),
    ] = None,
    secret: Annotated[
        bool,
        typer.Option("--secret", help="Their number is drawn, secret, and this its mean."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Calibrates noise to a target."""
    from recondite.notions.calibration import calibrate as compute

    notion, target = _target(given, other)
    _with_delta(notion, given)
    chosen = build_mechanism(mechanism, given, start=1.0)
    schedule = build_schedule(given, needed=_of_run(notion, per))
    if schedule is not None:
        check_relation(given, chosen, schedule)
    runs = _runs(selected_from, secret)
    with progress(f"calibrating {mechanism}") as tick:
        found = compute(
            chosen, target, notion, schedule,
            scope=per, progress=tick, chosen_from=runs, **_extras(given),
        )  # fmt: skip
    if as_json:
        more = {} if selected_from is None else {"selected_from": selected_from, "secret": secret}
        print_json({**found.to_dict(), **more})
        return
    note = "" if selected_from is None else f", the best of {selected_from} runs"
    drawn = [] if schedule is None else [describe(schedule, given)]
    of = f"{note} on average, their number drawn and secret" if secret else note
    _show(found, drawn, of=of)


def _with_delta(notion: str, given: SimpleNamespace) -> None:
    if given.delta is None and find(notion).needs_delta:
        raise ValueError(f"--delta is needed with {notion}, for example --delta 1/60000")


def _runs(selected_from: int | None, secret: bool) -> RunCount | int:
    """How many runs the released one is the best of."""
    if selected_from is None:
        if secret:
            raise ValueError("--secret needs --selected-from, the mean number of runs")
        return 1
    from recondite import _validate
    from recondite.accounting.selection import NegativeBinomialRuns

    count = _validate.at_least("selected_from", selected_from, 2)
    return NegativeBinomialRuns.with_mean(count) if secret else count


@shared(MECHANISM, RUN)
def match(
    source: Annotated[str, typer.Argument(help=f"The mechanism to match: {_KINDS}.")],
    to: Annotated[str, typer.Option("--to", help=f"Whose noise is sought: {_KINDS}.")],
    by: Annotated[
        str, typer.Option("--by", help=f"{', '.join(targets(ours=True))}, or another package's.")
    ],
    per: Annotated[str, _PER] = "release",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Finds the noise of another mechanism that equals this one."""
    from recondite.notions.calibration import match as compute

    _with_delta(by, given)
    original = build_mechanism(source, given, also=to)
    other = build_mechanism(to, given, start=1.0, also=source)
    schedule = build_schedule(given, needed=_of_run(by, per))
    if schedule is not None:
        check_relation(given, original, schedule)
        check_relation(given, other, schedule)
    with progress(f"matching {to} to {source}"):
        found = compute(original, other, by, schedule, scope=per, **_extras(given))
    if as_json:
        source_json = {"mechanism": original.name, "parameters": original.parameters()}
        print_json({**found.to_dict(), "source": source_json})
        return
    drawn = [] if schedule is None else [describe(schedule, given)]
    _show(found, drawn, f"{source} ({original.parameter} {figure(original.strength)}) = ")


def _show(found: Calibration, drawn: list[str], prefix: str = "", of: str = "") -> None:
    notion = find(found.notion)
    scope = "of the run" if found.scope is None else f"one {found.scope}"
    scope = "whole run" if found.scope == "run" else scope
    unit = f" ({notion.unit})" if notion.unit else ""
    # Calibration rounded it already, except where no rounded value meets the target.
    short = f"{found.value:.6g}"
    value = short if float(short) == found.value else repr(found.value)
    title = f"{prefix}{found.mechanism.name} with {found.parameter} = {value}"
    achieved = notion.format(found.achieved)
    rows = [[f"{notion.label}{unit}, {scope}{of}", figure(found.target, 6), achieved]]
    note = "achieved is a bound computed at the value shown; less noise would miss the target"
    print_table(title, ["notion", "target", "achieved"], rows, [*drawn, note], numbers=(1, 2))
