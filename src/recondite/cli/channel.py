"""recondite channel: noise on records that meets a budget of mutual information."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError
from typing import Annotated, Any

import typer

from recondite._validate import choice
from recondite.cli.options import number
from recondite.cli.output import figure, print_json, print_table, progress
from recondite.notions.bounds import format_bound

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("channel", help=_HELP)(channel)


_HELP = """The noise on records that lets at most a given information through, in nats.

`recondite channel natural --capacity 100 --data data.npy`
"""


def _number(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, parser=number, metavar="NUMBER", show_default=False)


def channel(
    kind: Annotated[str, typer.Argument(help="natural, white, personalized or minimum-power.")],
    data: Annotated[Path, typer.Option("--data", help="Records: .npy array, first axis records.")],
    capacity: Annotated[float, _number("--capacity", "Budget per use of a record, nats.")],
    beta: Annotated[
        Path | None, typer.Option("--beta", help="Importance of each feature: .npy (personalized).")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", help="personalized: 'exact' or the 'paper' bound.")
    ] = None,
    uses: Annotated[int, typer.Option("--uses", help="Times a record is used.")] = 1,
    diameter: Annotated[
        float | None, _number("--diameter", "Largest distance of two records, for ε and ReRo.")
    ] = None,
    delta: Annotated[float | None, _number("--delta", "δ, with --diameter.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Fits a channel."""
    from recondite.channels.registry import CHANNELS, fit

    choice("channel", kind, tuple(CHANNELS))
    extra = _personal(kind, beta, method)
    records = _load("--data", data)
    with progress(f"fitting a {kind} channel"):
        fitted = fit(kind, records, capacity, **extra)
        result = {**fitted.summary(), "information": _totals(fitted, uses)}
        result["local"] = _local(fitted, diameter, delta)
    if as_json:
        from recondite.notions import json_ready

        print_json(json_ready({"schema_version": 1, **result}))
        return
    _show(kind, fitted, result)


def _personal(kind: str, beta: Path | None, method: str | None) -> dict[str, Any]:
    if kind != "personalized":
        if beta is not None or method is not None:
            raise ValueError(
                "--beta and --method belong to the personalized channel: leave them out"
            )
        return {}
    if beta is None:
        raise ValueError("--beta is needed for the personalized channel: a .npy of importances")
    return {"beta": _load("--beta", beta), "method": method or "exact"}


# What else a damaged header does to NumPy, which parses it as Python.
_BROKEN = (TokenError, SyntaxError, TypeError, KeyError, OverflowError, MemoryError, RecursionError)


def _load(flag: str, path: Path) -> Any:
    import numpy as np

    try:
        # Never unpickle: an object array from a stranger could run code.
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{flag}: no file {str(path)!r}") from None
    except (OSError, ValueError, EOFError, *_BROKEN) as error:
        reason = str(error).splitlines()[0] if str(error) else "not readable"
        if "pickle" in reason.lower():  # NumPy would advise to load it unsafely
            reason = (
                "it holds Python objects or is not NumPy's format: save numbers with numpy.save"
            )
        raise ValueError(f"{flag}: {path.name} is no plain .npy array ({reason})") from None


def _totals(fitted: Any, uses: int) -> dict[str, float]:
    return {
        "uses": uses,
        "once": fitted.information(uses, noise="once"),
        "per_step": fitted.information(uses, noise="per_step"),
    }


def _local(fitted: Any, diameter: float | None, delta: float | None) -> dict[str, Any] | None:
    """ε and ReRo of the noisy record itself, as a local Gaussian mechanism."""
    if diameter is None:
        return None
    if delta is None:
        raise ValueError("--delta is needed with --diameter")
    from recondite.accounting import Poisson, epsilon
    from recondite.mechanisms import Gaussian
    from recondite.notions.calibration import measure

    release, once = Gaussian(fitted.local_gaussian(diameter)), Poisson(rate=1.0, steps=1)
    return {
        "diameter": diameter,
        "delta": delta,
        "epsilon": epsilon(release, once, delta),
        "rero": {"prior": 0.1, "bound": measure(release, "rero", once, prior_success=0.1)},
    }


def _show(kind: str, fitted: Any, result: dict[str, Any]) -> None:
    low, high = fitted.noise_std_range
    information, floor = result["information"], result["error_floor"]
    used = f"{information['uses']} {'use' if information['uses'] == 1 else 'uses'}"
    rows = [
        [
            "noise standard deviation",
            f"{figure(low)} … {figure(high)}",
            "of the noise added to a record",
        ],
        [
            "capacity",
            format_bound(fitted.capacity_nats, 10),
            "nats one use reveals of an average record",
        ],
        ["per dimension", format_bound(fitted.capacity_per_dimension), "nats a feature"],
        ["noise drawn once", format_bound(information["once"]), f"nats after {used}"],
        ["noise drawn every use", format_bound(information["per_step"]), "the same"],
        ["error floor", figure(floor["theorem_1"]), "estimate: squared error, Gaussian surrogate"],
        ["linear error", figure(floor["linear_mmse"]), "estimate: best linear reconstruction"],
    ]
    local = result["local"]
    if local:
        rows.append(
            ["ε, one noisy record", format_bound(local["epsilon"]), f"at δ = {local['delta']:g}"]
        )
        bound = format_bound(local["rero"]["bound"])
        rows.append(
            [
                "reconstruction (ReRo)",
                bound,
                "success where a guess is right 10% of the time unaided",
            ]
        )
    title = (
        f"{kind} channel: {fitted.spectrum.records:,} records of {fitted.spectrum.dim:,} features"
    )
    notes = [f"limit: {line}" for line in fitted.limits]
    print_table(title, ["quantity", "value", "what it is"], rows, notes, numbers=(1,))
