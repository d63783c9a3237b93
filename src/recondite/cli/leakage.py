"""recondite leakage: discrete channels from CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recondite.cli.output import figure, print_json, print_table, progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("leakage", help=_HELP)(leakage)


_HELP = """What a discrete channel leaks, or which of two channels is safer.

CSV without a header: rows are secrets, columns observations; rows of the gain are actions; a
missing prior is uniform.

`recondite leakage channel.csv --prior prior.csv --gain gain.csv`
"""


def leakage(
    channel: Annotated[Path, typer.Argument(help="Row-stochastic matrix.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(help="A second channel to compare with.", show_default=False)
    ] = None,
    prior: Annotated[
        Path | None, typer.Option("--prior", help="Probabilities of the secrets.")
    ] = None,
    gain: Annotated[Path | None, typer.Option("--gain", help="Gain of each action.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measures leakage."""
    from recondite.leakage import files

    first = files.read_channel(channel)
    pi = None if prior is None else files.read_prior(prior)
    g = None if gain is None else files.read_gain(gain)
    if other is not None:
        _compare(first, files.read_channel(other), channel, other, as_json)
        return
    result, reasons = _measure(first, pi, g)
    if as_json:
        print_json({"schema_version": 1, **result, "reasons": reasons})
        return
    meaning = {
        "prior_vulnerability": "the attacker's best expected gain before observing",
        "posterior_vulnerability": "and after",
        "multiplicative_leakage": "after / before, for this prior and gain",
        "additive_leakage": "after - before",
        "bayes_capacity": "largest after / before of any prior and non-negative gain",
        "log_bayes_capacity": "its logarithm, nats",
        "mutual_information": "Shannon's, nats, for this prior",
    }
    rows = [[key.replace("_", " "), figure(result[key], 6), text] for key, text in meaning.items()]
    title = f"{channel.name}: {first.secrets} secrets, {first.observations} observations"
    notes = [f"not defined: {key}: {why}" for key, why in reasons.items()]
    print_table(title, ["measure", "value", "what it is"], rows, notes, numbers=(1,))


def _measure(channel: Any, prior: Any, gain: Any) -> tuple[dict[str, Any], dict[str, str]]:
    reasons: dict[str, str] = {}
    before = channel.prior_vulnerability(prior, gain)
    after = channel.posterior_vulnerability(prior, gain)
    ratio: float | None = None
    try:
        ratio = channel.multiplicative_leakage(prior, gain)
    except ValueError as reason:
        reasons["multiplicative_leakage"] = str(reason)
    return {
        "secrets": channel.secrets,
        "observations": channel.observations,
        "prior_vulnerability": before,
        "posterior_vulnerability": after,
        "multiplicative_leakage": ratio,
        "additive_leakage": after - before,
        "bayes_capacity": channel.bayes_capacity(),
        "log_bayes_capacity": channel.log_bayes_capacity(),
        "mutual_information": channel.shannon_mutual_information(prior),
    }, reasons


def _compare(a: Any, b: Any, path_a: Path, path_b: Path, as_json: bool) -> None:
    from recondite.leakage.refinement import compare_channels

    with progress("comparing channels"):
        verdict = compare_channels(a, b)
    if as_json:
        print_json({"schema_version": 1, **verdict.to_dict()})
        return
    names = {"a": path_a.name, "b": path_b.name, "equal": "equal", None: "neither"}
    rows = [
        ["Bayes' capacity", figure(verdict.capacity_a, 6), figure(verdict.capacity_b, 6)],
        [
            "refined by the other",
            _yes(verdict.a_refined_by_b),
            _yes(verdict.b_refined_by_a),
        ],
    ]
    notes = [
        f"safer against reconstruction (smaller Bayes' capacity): {names[verdict.safer]}",
        f"safer against every attacker (refinement): {names[verdict.safer_for_all]}",
    ]
    columns = ["measure", path_a.name, path_b.name]
    print_table("Two channels compared", columns, rows, notes, numbers=(1, 2))


def _yes(refinement: Any) -> str:
    return "yes" if refinement.holds else "no"
