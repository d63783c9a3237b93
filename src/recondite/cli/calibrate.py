"""recondite calibrate and recondite match: from a target to noise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any

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

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("calibrate", help=_CALIBRATE)(calibrate)
    app.command("match", help=_MATCH)(match)


_CALIBRATE = """The weakest noise that meets a target, never one that misses it.

`recondite calibrate vmf --dim 13700 --epsilon 8 --rate 128/60000 --steps 1407 --delta 1/60000`
"""
_MATCH = """The noise of another mechanism with equal ε, capacity, information or ReRo.

`recondite match gaussian --noise-multiplier 1.23 --max-batch-size 160 --to vmf
--by bayes-capacity --dim 13700`
"""

_UNITS = {
    "epsilon": "epsilon of the run",
    "bayes-capacity": "log Bayes' capacity (nats)",
    "mutual-information": "mutual information (nats)",
    "rero": "reconstruction success",
}


def _target(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, parser=number, metavar="NUMBER", show_default=False)


_PER = typer.Option("--per", help="Capacity and information of one 'release' or the 'run'.")


def _extras(given: SimpleNamespace) -> dict[str, Any]:
    names = ("delta", "group_size", "prior_success")
    return {name: getattr(given, name) for name in names if getattr(given, name) is not None}


@shared(MECHANISM, RUN)
def calibrate(
    mechanism: Annotated[str, typer.Argument(help="gaussian, vmf, partitioned or directional.")],
    epsilon: Annotated[float | None, _target("--epsilon", "Largest ε.")] = None,
    bayes_capacity: Annotated[
        float | None, _target("--bayes-capacity", "Largest log Bayes' capacity, nats.")
    ] = None,
    mutual_information: Annotated[
        float | None, _target("--mutual-information", "Largest mutual information, nats.")
    ] = None,
    rero: Annotated[float | None, _target("--rero", "Largest reconstruction success.")] = None,
    per: Annotated[str, _PER] = "release",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Calibrates noise to a target."""
    from recondite.calibration import calibrate as compute

    targets = {
        "epsilon": epsilon,
        "bayes-capacity": bayes_capacity,
        "mutual-information": mutual_information,
        "rero": rero,
    }
    named = {notion: value for notion, value in targets.items() if value is not None}
    if len(named) != 1:
        flags = ", ".join(f"--{notion}" for notion in targets)
        raise ValueError(f"give exactly one target: one of {flags}")
    notion, target = named.popitem()
    chosen = build_mechanism(mechanism, given, start=1.0)
    schedule = build_schedule(given, needed=notion in ("epsilon", "rero") or per == "run")
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
        str, typer.Option("--by", help="epsilon, bayes-capacity, mutual-information or rero.")
    ],
    per: Annotated[str, _PER] = "release",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Finds the noise of another mechanism that equals this one."""
    from recondite.calibration import match as compute

    original = build_mechanism(source, given, also=to)
    other = build_mechanism(to, given, start=1.0, also=source)
    schedule = build_schedule(given, needed=by in ("epsilon", "rero") or per == "run")
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


def _show(found: Any, prefix: str = "") -> None:
    scope = f", one {found.scope}" if found.scope == "release" else ""
    scope = ", whole run" if found.scope == "run" else scope
    title = f"{prefix}{found.mechanism.name} with {found.parameter} = {found.value:.6g}"
    rows = [
        [f"{_UNITS[found.notion]}{scope}", figure(found.target, 6), figure(found.achieved, 6)],
    ]
    note = (
        "achieved is an upper bound computed at the value shown; less noise would miss the target"
    )
    print_table(title, ["notion", "target", "achieved"], rows, [note], numbers=(1, 2))
