"""recondite train: the whole of private training in one command."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from recondite.cli.options import (
    DATA,
    DATA_HELP,
    DEFENCE,
    DEFENCES,
    MECHANISM,
    MODEL_HELP,
    OUTPUT,
    build_mechanism,
    grouped,
    named_settings,
    number,
    shared,
    training_options,
)
from recondite.cli.output import print_json, print_table, settings
from recondite.configuration import TrainingConfig, options, suited
from recondite.defences import Defence, find, owners
from recondite.notions.bounds import format_bound
from recondite.studies.shapes import Row

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("train", help=_HELP)(train)


_HELP = """Trains a model with a defence; writes a checkpoint, the weights and a JSON record.

`recondite train --data mnist-5k --model mlp --defence gaussian --epsilon 3 --epochs 10`

`recondite train --data mnist-5k --model mlp --defence natural --capacity 100 --epochs 10`
"""
_NOISE = {name: MECHANISM[name] for name in ("kappa", "noise_multiplier", "blocks", "setting")}


_FLAGS = {"fit_on": "channel-data"}


def _number(flag: str, text: str) -> Any:
    return typer.Option(flag, help=text, parser=number, metavar="NUMBER", show_default=False)


@grouped({
    DATA: "data model data_dir",
    DEFENCE: "defence delta epsilon max_epsilon capacity noise channel_data beta max_information "
    "secret audit",
    OUTPUT: "out as_json",
})  # fmt: skip
@shared(training_options(), _NOISE)
def train(
    data: Annotated[str, typer.Option("--data", help=DATA_HELP)],
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP)],
    defence: Annotated[
        str,
        typer.Option(
            "--defence",
            help=DEFENCES,
        ),
    ] = "none",
    delta: Annotated[float | None, _number("--delta", "δ (one over the records).")] = None,
    epsilon: Annotated[float | None, _number("--epsilon", "Calibrate noise to this ε.")] = None,
    max_epsilon: Annotated[float | None, _number("--max-epsilon", "Stop before this ε.")] = None,
    capacity: Annotated[
        float | None, _number("--capacity", "Channels: nats one noisy copy of a record tells.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option("--noise", help="Channels: once (default) or per_step.")
    ] = None,
    channel_data: Annotated[
        str | None, typer.Option("--channel-data", help="Channels: public data to fit on.")
    ] = None,
    beta: Annotated[
        Path | None, typer.Option("--beta", help="Personalized channel: .npy of weights.")
    ] = None,
    max_information: Annotated[
        float | None, _number("--max-information", "Channels: stop before these nats a record.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option("--secret", help="Channels: file of the noise's secret.")
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit the noise with canaries too (seconds).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for checkpoint, weights and record.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where data sets are.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The record as JSON.")] = False,
    *,
    given: SimpleNamespace,
) -> None:
    """Trains a model."""
    from recondite.training.trainer import DIVERGED
    from recondite.training.trainer import train as run

    kind = find(defence, argument="--defence")
    chosen = {name: getattr(given, name) for name in options()}
    typed = {
        "capacity": capacity,
        "noise": noise,
        "fit_on": channel_data,
        "beta": None if beta is None else str(beta),
    }
    config = TrainingConfig(
        data, model, _defence(kind, typed, given, epsilon), **suited(kind, chosen)
    )
    with _bar(f"{model} on {data}, {defence}") as update:
        record, _ = run(
            config,
            out=out,
            data_dir=data_dir,
            delta=delta,
            target_epsilon=epsilon,
            max_epsilon=max_epsilon,
            max_information=max_information,
            secret=secret,
            audit=audit,
            progress=update,
        )
    if as_json:
        print_json(record.to_dict())
    else:
        _show(record.to_dict(), out)
    if record.diverged:
        print(f"warning: {DIVERGED}", file=sys.stderr)
        raise typer.Exit(1)


def _defence(
    kind: Defence, typed: Mapping[str, Any], given: SimpleNamespace, epsilon: float | None
) -> Any:
    """The defence that the options describe."""
    noise = {name: getattr(given, name) for name in _NOISE}
    if not kind.on_gradients:
        set_here = named_settings("--set", noise.pop("setting")) if kind.on_records else {}
        for name, value in noise.items():
            if value:
                flag = name.replace("setting", "set").replace("_", "-")
                raise ValueError(f"--{flag} belongs to noise on gradients: leave it out")
    own = {name: value for name, value in typed.items() if value is not None}
    for name in own:
        if not kind.on_records or name not in (kind.parameter, *kind.settings):
            flag = "--" + _FLAGS.get(name, name)
            raise ValueError(f"{flag} belongs to {owners(name)}: leave it out")
    if kind.on_gradients:
        unset = dict.fromkeys(
            ("dim", "clip_norm", "layers", "layer_norms", "batch_size", "max_batch_size")
        )
        start = None if epsilon is None else 1.0
        return build_mechanism(kind.name, SimpleNamespace(**unset, **noise), start=start)
    for name in set_here:
        if name not in kind.settings:
            known = ", ".join(kind.settings)
            raise ValueError(f"--set {name} is not a setting of {kind.name}: it has {known}")
    return kind.build(own.pop("capacity", None), **{**own, **set_here})


@contextmanager
def _bar(what: str) -> Iterator[Any]:
    """A progress bar on standard error: steps, time left, loss (not private) and ε so far."""
    if settings.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1, state="")

        def update(now: Any) -> None:
            cost = "" if now.epsilon is None else f"  ε {format_bound(now.epsilon)}"
            if now.information is not None:
                cost = f"  {format_bound(now.information)} nats a record"
            state = f"loss {now.loss:.3f} (not private){cost}"
            bar.update(task, total=now.steps, completed=now.step, state=state)

        yield update


def _show(record: Row, out: Path | None) -> None:
    privacy, results = record["privacy"], record["results"]
    rows = [
        *_utility(results),
        ["steps", f"{record['training']['steps']:,}", f"{record['training']['seconds']:.1f} s"],
    ]
    if privacy is None:
        rows.append(["ε", "∞", "nothing protects the records"])
    else:
        rows += _costs(privacy)
    if record["audit"] is not None:
        rows.append(_audited(record["audit"]))
    defence = record["defence"]
    settings_text = ", ".join(f"{k} {_short(v)}" for k, v in defence["parameters"].items())
    what = f"{record['model']['name']} on {record['data']['name']}"
    title = f"{what}: {defence['name']} ({settings_text})"
    notes = list(record["notes"])
    if out is not None:
        ledger = "channel.jsonl" if "information" in (privacy or {}) else "ledger.json"
        notes.append(f"written to {out}: record.json, weights.safetensors, {ledger}")
    print_table(title, ["quantity", "value", ""], rows, notes, numbers=(1,))


def _utility(results: Row) -> list[list[str]]:
    """How well the model does: accuracy, AUC of two classes, R² of amounts, perplexity of texts."""
    rows = []
    for part, said in (("test", "test"), ("train", "training")):
        for key, label, share in (
            ("accuracy", "accuracy", True),
            ("auc", "AUC", False),
            ("r2", "R²", False),
            ("perplexity", "perplexity", False),
        ):
            value = results.get(f"{part}_{key}")
            if value is not None:
                text = f"{100 * value:.2f} %" if share else f"{value:.3f}"
                rows.append([f"{said} {label}", text, "not private"])
    return rows


def _costs(privacy: Row) -> list[list[str]]:
    """One line for each notion that a table has room for."""
    from recondite.notions import figures

    told = privacy.get("information")
    where = ""
    if told is not None:
        uses = f"{told['uses']} {'use' if told['uses'] == 1 else 'uses'}"
        where = f", of a record, {'drawn once' if told['noise'] == 'once' else uses}"
    return [
        [
            notion.label if told is None else one.column,
            notion.format(notion.row(privacy)[key]),
            f"{notion.remark(privacy)}{where}",
        ]
        for key, (notion, one) in figures().items()
        if one.column
    ]


def _audited(audit: Row) -> list[str]:
    at = f"one full-batch step at δ = {audit['result']['delta']:g}"
    claim = f"claim {format_bound(audit['claim'])}, {at}"
    verdict = ": REFUTED" if audit["refuted"] else ""
    return [
        "canary audit",
        f"at least {format_bound(audit['lower'], direction='lower')}",
        f"{claim}{verdict}",
    ]


def _short(value: Any) -> str:
    """A parameter for a title: long lists by their length."""
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} ({min(value)}–{max(value)})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
