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
    number,
    shared,
)
from recondite.cli.output import figure, print_json, print_table, progress
from recondite.notions.registry import target as find
from recondite.notions.registry import targets

if TYPE_CHECKING:
    from recondite.notions.calibration import Calibration

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("calibrate", help=_CALIBRATE)(calibrate)
    app.command("match", help=_MATCH)(match)


_CALIBRATE = """The weakest noise that meets a target, never one that misses it.

`recondite calibrate vmf --dim 13700 --epsilon 8 --rate 128/60000 --steps 1407 --delta 1/60000`
"""
_MATCH = """The noise of another mechanism that is equal in one notion of privacy.

`recondite match gaussian --noise-multiplier 1.23 --max-batch-size 160 --to vmf
--by bayes-capacity --dim 13700`
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
        ),
    ]
    for name, notion in targets(ours=True).items()
}


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
    mechanism: Annotated[str, typer.Argument(help="gaussian, vmf, partitioned or directional.")],
    other: Annotated[
        str | None,
        typer.Option("--target", help="NAME=VALUE of a notion from another package."),
    ] = None,
    per: Annotated[str, _PER] = "release",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Calibrates noise to a target."""
    from recondite.notions.calibration import calibrate as compute

    notion, target = _target(given, other)
    chosen = build_mechanism(mechanism, given, start=1.0)
    schedule = build_schedule(given, needed=_of_run(notion, per))
    if schedule is not None:
        check_relation(given, chosen, schedule)
    with progress(f"calibrating {mechanism}") as tick:
        found = compute(
            chosen, target, notion, schedule, scope=per, progress=tick, **_extras(given)
        )
    if as_json:
        print_json(found.to_dict())
        return
    _show(found)


@shared(MECHANISM, RUN)
def match(
    source: Annotated[str, typer.Argument(help="The mechanism to match.")],
    to: Annotated[str, typer.Option("--to", help="The mechanism whose noise is sought.")],
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
    _show(found, f"{source} ({original.parameter} {figure(original.strength)}) = ")


def _show(found: Calibration, prefix: str = "") -> None:
    notion = find(found.notion)
    scope = "of the run" if found.scope is None else f"one {found.scope}"
    scope = "whole run" if found.scope == "run" else scope
    unit = f" ({notion.unit})" if notion.unit else ""
    # Calibration rounded it already; one digit more would be another value.
    title = f"{prefix}{found.mechanism.name} with {found.parameter} = {found.value:.6g}"
    achieved = notion.format(found.achieved, 6)
    rows = [[f"{notion.label}{unit}, {scope}", figure(found.target, 6), achieved]]
    note = "achieved is a bound computed at the value shown; less noise would miss the target"
    print_table(title, ["notion", "target", "achieved"], rows, [note], numbers=(1, 2))
