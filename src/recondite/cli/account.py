"""recondite account: every notion of a run at once."""

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
    describe,
    shared,
)
from recondite.cli.output import figure, print_json, print_table, progress

if TYPE_CHECKING:
    from recondite.accounting.selection import ChoicePrices
    from recondite.notions import Account

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("account", help=_HELP)(account)


_HELP = """What a run costs in every notion of privacy: ε (tight, Rényi, pure), Bayes' capacity,
mutual information, reconstruction robustness, metric privacy, and those of other packages.

`recondite account vmf --kappa 75 --dim 13700 --rate 128/60000 --steps 1407 --delta 1/60000`

`recondite account gaussian --noise-multiplier 1.1 --records 60000 --batch-size 128 --epochs 3
--delta 1e-5`

MECHANISM is gaussian, vmf, partitioned, directional, parameter-channel, none, or one that another
package brings.
"""


@shared(MECHANISM, RUN)
def account(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="gaussian, vmf, partitioned, directional, parameter-channel, none, or another’s."
        ),
    ],
    selected_from: Annotated[
        int | None,
        typer.Option("--selected-from", help="Also what choosing the best of so many runs costs."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Accounts for a run."""
    from recondite.notions import account as compute

    chosen = build_mechanism(mechanism, given)
    schedule = build_schedule(given)
    assert schedule is not None
    check_relation(given, chosen, schedule)
    if given.delta is None:
        raise ValueError("--delta is needed, for example --delta 1/60000")
    extra = {name: getattr(given, name) for name in ("group_size", "prior_success")}
    options = {name: value for name, value in extra.items() if value is not None}
    if "group_size" in options:
        from recondite import _validate

        options["group_size"] = _validate.at_least("group_size", options["group_size"], 1)
    with progress("accounting"):
        result = compute(chosen, schedule, given.delta, **options)
        prices = _choosing(result, selected_from)
        instead = _instead(result)
    if as_json:
        from recondite.notions import json_ready

        more = {"selection": prices and prices.to_dict(), "instead": instead}
        print_json({**result.to_dict(), **json_ready({k: v for k, v in more.items() if v})})
        return
    _show(result, prices, instead, describe(schedule, given))


def _choosing(result: Account, runs: int | None) -> ChoicePrices | None:
    """What the best of so many runs costs."""
    if runs is None:
        return None
    from recondite import _validate
    from recondite.accounting.selection import choice_prices

    count = _validate.at_least("selected_from", runs, 2)
    composition = result.schedule.composition(result.mechanism, result.group_size)
    return choice_prices(composition, result.delta, count)


def _instead(result: Account) -> dict[str, float]:
    """ε of other ways to draw batches that cost far less than the one that was asked about."""
    from recondite.accounting import epsilon

    if result.group_size > 1:
        return {}
    return {
        other.sampling: epsilon(result.mechanism, other, result.delta)
        for other in result.schedule.cheaper()
        if result.mechanism.stage != "record"
    }


def _show(
    result: Account, prices: ChoicePrices | None, instead: dict[str, float], schedule: str
) -> None:
    from recondite.notions import format_bound, notions, round_bound

    rows = [list(line) for notion in notions().values() for line in notion.lines(result)]
    if prices is not None:
        table = f"ε, best of {prices.runs}, or a table of all"
        secret = f"ε, best of a secret number, {prices.runs} on average"
        drawn = "drawn before anything runs, only the winner released"
        rows.append([table, "–", format_bound(prices.every), f"{prices.runs} runs composed"])
        rows.append([secret, "–", format_bound(prices.secret), drawn])
    notes = []
    if prices is not None and prices.secret >= prices.every:
        notes.append(
            "a secret number does not pay here: composition costs no more, and lets a table of all "
            "runs be shown"
        )
    notes += [
        f"with {sampling} batches instead: ε at most {format_bound(value)} (add-or-remove-one)"
        for sampling, value in instead.items()
    ]
    notes += [f"not defined: {key}: {why}" for key, why in result.reasons.items()]
    notes += [f"assumes: {line}" for line in result.assumptions]
    settings = ", ".join(
        f"{name.replace('_', ' ')} {figure(value, 6) if isinstance(value, float) else value}"
        for name, value in result.mechanism.parameters().items()
    )
    title = (
        f"{result.mechanism.name}: {settings}\n{schedule}; {result.neighbouring.value}; "
        f"delta {round_bound(result.delta):.4g}; {result.release.releases:,} releases"
    )
    print_table(
        title, ["upper bound", "one release", "run", "on"], rows, notes, numbers=(1, 2), wrap=True
    )
