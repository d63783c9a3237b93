"""recondite account: every notion of a run at once."""

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
    shared,
)
from recondite.cli.output import figure, print_json, print_table, progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("account", help=_HELP)(account)


_HELP = """What a run costs in every notion of privacy: ε (tight, Rényi, pure), Bayes' capacity,
mutual information, reconstruction robustness, metric privacy.

`recondite account vmf --kappa 75 --dim 13700 --rate 128/60000 --steps 1407 --delta 1/60000`
"""


@shared(MECHANISM, RUN)
def account(
    mechanism: Annotated[
        str, typer.Argument(help="gaussian, vmf, partitioned, directional or none.")
    ],
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Add the paper's own formulas: no guarantees.")
    ] = False,
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
        result = compute(chosen, schedule, given.delta, as_printed=as_printed, **options)
    if as_json:
        print_json(result.to_dict())
        return
    _show(result)


def _show(result: Any) -> None:
    chances, _ = result.schedule.participations()
    releases = chances if result.mechanism.stage == "record" else result.schedule.steps
    subject = result.mechanism.subject
    whose = "one record" if result.group_size == 1 else f"{result.group_size} records"
    telling = f"telling whether {whose} took part"
    if result.neighbouring.value.startswith("replace"):
        telling = f"telling {whose} from others in their place"
    order = f" (order {result.rdp_order:.3g})" if result.rdp_order else ""
    rows = [
        ["ε, tight", "–", figure(result.epsilon["pld"]), telling],
        [f"ε, Rényi{order}", "–", figure(result.epsilon["rdp"]), "the same, by a looser route"],
        ["ε, paper's approach 1", "–", figure(result.epsilon["paper_1"]), "the same, corrected"],
        ["ε, paper's approach 2", "–", figure(result.epsilon["paper_2"]), "the same, corrected"],
        ["ε, pure (δ = 0)", "–", figure(result.epsilon["pure"]), "the same, without δ"],
        [
            "log Bayes' capacity",
            figure(result.log_bayes_capacity["per_release"]),
            figure(result.log_bayes_capacity["run"]),
            f"log gain of any guess at {subject} (nats)",
        ],
        [
            "mutual information",
            figure(result.mutual_information["per_release"]),
            figure(result.mutual_information["run"]),
            f"nats about {subject}",
        ],
        [
            "reconstruction (ReRo)",
            "–",
            figure(result.rero["bound"]),
            f"success of an attacker whose blind guess has {figure(result.rero['prior'])}",
        ],
    ]
    metric = result.metric_privacy
    if metric is not None:
        per_record = f"times distance of {metric.between}; a record: {figure(metric.per_record)}"
        rows.append(["metric privacy", figure(metric.constant), "–", per_record])
    for name, value in (result.as_printed or {}).items():
        rows.append([f"as printed: {name}", "–", figure(value), "the paper's formula: no bound"])
    notes = [f"not defined: {key}: {why}" for key, why in result.reasons.items()]
    notes += [f"assumes: {line}" for line in result.assumptions]
    settings = ", ".join(f"{k} {v}" for k, v in result.mechanism.parameters().items())
    schedule = ", ".join(f"{k} {v}" for k, v in result.schedule.to_dict().items() if v is not None)
    title = (
        f"{result.mechanism.name}: {settings}\n{schedule}; {result.neighbouring.value}; "
        f"delta {result.delta:.4g}; {releases:,} releases"
    )
    print_table(title, ["upper bound", "one release", "run", "on"], rows, notes, numbers=(1, 2))
