"""recondite attack: what an attacker rebuilds, or whom they recognise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from recondite.cli.options import MECHANISM, number, numbers, shared
from recondite.cli.output import figure, print_json, print_table, settings
from recondite.notions.bounds import format_bound

__all__ = ["register"]

_HELP = """Attacks a victim made for it, or gradients from a file.

`recondite attack inverting-gradients --data mnist-5k --model mlp --defence vmf --kappa 500`

`recondite attack dlg --model lenet-dlg --gradients g.safetensors --shape 1,28,28`

`recondite attack membership-reference --data mnist-5k --records 400 --epochs 60 --references 8`
"""
_NOISE = {name: MECHANISM[name] for name in ("kappa", "noise_multiplier", "blocks")}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("attack", help=_HELP)(attack)


def _option(flag: str, text: str, **extra: Any) -> Any:
    return typer.Option(flag, help=text, show_default=False, **extra)


@shared(_NOISE)
def attack(
    name: Annotated[str, typer.Argument(help="The attack, or list.", show_default=False)],
    data: Annotated[
        str | None, _option("--data", "Data set, folder, or package.module:function.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Network, or package.module:function.")] = (
        "mlp"
    ),
    weights: Annotated[Path | None, _option("--weights", "The victim's weights.")] = None,
    gradients: Annotated[
        Path | None, _option("--gradients", "Safetensors keyed by parameter name.")
    ] = None,
    shape: Annotated[
        str | None, _option("--shape", "Of a record in --gradients: channels,height,width.")
    ] = None,
    classes: Annotated[int, typer.Option("--classes", help="Of a network by name.")] = 10,
    labels: Annotated[str | None, _option("--labels", "Known labels of --gradients.")] = None,
    bounds: Annotated[
        str, typer.Option("--bounds", help="Smallest and largest pixel of --gradients.")
    ] = "0,1",
    infer_labels: Annotated[
        bool, typer.Option("--infer-labels", help="The attacker is not told the labels.")
    ] = False,
    defence: Annotated[
        str, typer.Option("--defence", help="none, clip, gaussian, vmf, …, natural-channel, ….")
    ] = "none",
    capacity: Annotated[
        float | None, _option("--capacity", "Nats of a channel.", parser=number, metavar="NUMBER")
    ] = None,
    clipping: Annotated[str | None, _option("--clipping", "How gradients are bounded.")] = None,
    max_grad_norm: Annotated[float | None, _option("--max-grad-norm", "The bound.")] = None,
    images: Annotated[int, typer.Option("--images", help="Victims.")] = 8,
    batch_size: Annotated[
        int | None, _option("--batch-size", "Records behind one gradient (1).")
    ] = None,
    trained: Annotated[
        bool, typer.Option("--trained", help="Train the victim first (gradient attacks).")
    ] = False,
    epochs: Annotated[int | None, _option("--epochs", "Of the victim's training.")] = None,
    records: Annotated[int | None, _option("--records", "Members of a membership attack.")] = None,
    preset: Annotated[
        str | None, _option("--preset", "A paper's settings; list shows them.")
    ] = None,
    steps: Annotated[int | None, _option("--steps", "Iterations.")] = None,
    restarts: Annotated[int | None, _option("--restarts", "Attempts a victim.")] = None,
    references: Annotated[int | None, _option("--references", "Reference models.")] = None,
    option: Annotated[
        list[str] | None, _option("--option", "NAME=VALUE of the attack's other settings.")
    ] = None,
    threat: Annotated[
        str | None, _option("--threat", "server, eavesdropper, model-user or insider.")
    ] = None,
    prepare: Annotated[str | None, _option("--prepare", "crop16, resize32, …, none.")] = None,
    norm: Annotated[str, typer.Option("--norm", help="group, batch or none.")] = "group",
    seed: Annotated[int, typer.Option("--seed", help="Repeats the attack.")] = 0,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    time_limit: Annotated[
        float | None, _option("--time-limit", "Seconds (with --gradients).")
    ] = None,
    data_dir: Annotated[Path | None, _option("--data-dir", "Where data sets are.")] = None,
    out: Annotated[
        Path | None, _option("--out", "Contact sheet (.png); the record goes beside it (.json).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The record as JSON.")] = False,
    *,
    given: SimpleNamespace,
) -> int:
    """Attacks."""
    if name == "list":
        _list()
        return 0
    from recondite.attacks import registry
    from recondite.attacks.knowledge import threat as threat_named
    from recondite.studies import one_attack as single

    if out is not None and out.suffix != ".png":
        raise ValueError(f"--out must end in .png, got {out.name}")
    options, batch = _options(name, preset, batch_size, option)
    for key, value in (("steps", steps), ("restarts", restarts), ("references", references)):
        if value is not None:
            options[key] = value
    made = registry.build(name, **options)
    if threat is not None:
        threat_named(threat).check(made)
    with _bar(f"{name} on {model}") as said:
        if gradients is not None:
            result = single.attack_file(
                name,
                options,
                model=model,
                gradients=gradients,
                shape=_shape(shape),
                weights=None if weights is None else str(weights),
                classes=classes,
                norm=norm,
                batch_size=batch,
                labels=None if labels is None else [int(x) for x in numbers(labels)],
                bounds=_bounds(bounds),
                seed=seed,
                device=device,
                time_limit=time_limit,
                said=said,
            )
        else:
            victims = {
                "images": images,
                "batch_size": batch,
                "victim": "trained" if trained else "untrained",
                "labels": not infer_labels,
                "records": records,
            }
            training: dict[str, Any] = {"norm": norm, "device": device}
            typed = {
                "epochs": epochs,
                "clipping": clipping,
                "max_grad_norm": max_grad_norm,
                "weights": None if weights is None else str(weights),
            }
            training |= {key: value for key, value in typed.items() if value is not None}
            study = {
                "name": "attack",
                "data": _needed(data),
                "model": model,
                "prepare": prepare,
                "seeds": [seed],
                "training": training,
                "defences": [_defence(defence, capacity, given)],
                "attacks": [{"name": name, **_fields(name, victims), **options}],
            }
            place = None if data_dir is None else str(data_dir)
            result = single.attack_victim(study, data_dir=place, said=said)
    _written(result, out)
    if as_json:
        print_json(result.record)
    else:
        _show(name, model, result.record, out)
    return 130 if result.interrupted else 0


def _fields(name: str, typed: dict[str, Any]) -> dict[str, Any]:
    """Those of a study's keys that the attack reads."""
    from recondite.studies.attackers import reads

    return {k: v for k, v in typed.items() if k in reads(name) and v is not None}


def _options(
    name: str, preset: str | None, batch_size: int | None, typed: list[str] | None
) -> tuple[dict[str, Any], int]:
    from recondite.attacks.presets import preset as preset_named

    options: dict[str, Any] = {}
    batch = batch_size
    if preset is not None:
        found = preset_named(preset)
        if found.attack != name:
            raise ValueError(f"preset {preset} is of {found.attack}, not of {name}")
        options, batch = dict(found.options), batch_size or found.batch_size
    for text in typed or []:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--option must be NAME=VALUE, got {text!r}")
        options[key.replace("-", "_")] = _value(value)
    return options, batch or 1


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _needed(data: str | None) -> str:
    if data is None:
        raise ValueError("--data or --gradients is needed: a victim to make, or what one leaked")
    return data


def _shape(text: str | None) -> tuple[int, int, int]:
    if text is None:
        raise ValueError("--shape is needed with --gradients: channels,height,width")
    sides = [int(value) for value in numbers(text)]
    if len(sides) != 3:
        raise ValueError(f"--shape must be channels,height,width, got {text!r}")
    return sides[0], sides[1], sides[2]


def _bounds(text: str) -> tuple[float, float]:
    values = numbers(text)
    if len(values) != 2:
        raise ValueError(f"--bounds must be two numbers, smallest,largest, got {text!r}")
    return values[0], values[1]


def _defence(name: str, capacity: float | None, given: SimpleNamespace) -> dict[str, Any]:
    values = {**vars(given), "capacity": capacity}
    if isinstance(values["kappa"], tuple):
        values["kappa"] = list(values["kappa"])
    if isinstance(values["blocks"], tuple):
        values["blocks"] = (
            values["blocks"][0] if len(values["blocks"]) == 1 else list(values["blocks"])
        )
    return {"name": name, **{key: value for key, value in values.items() if value is not None}}


def _list() -> None:
    from recondite.attacks.presets import PRESETS
    from recondite.attacks.registry import classes

    rows = [
        [
            name,
            ", ".join(sorted(kind.threats)),
            ", ".join(sorted(item.value for item in kind.needs)),
        ]
        for name, kind in classes().items()
    ]
    print_table("Attacks", ["name", "threatens", "must know"], rows)
    found = [
        [name, item.attack, item.paper, "; ".join(item.assumptions) or "–"]
        for name, item in PRESETS.items()
    ]
    print_table("Presets", ["name", "attack", "paper", "assumed"], found)


@contextmanager
def _bar(what: str) -> Iterator[Any]:
    """A progress bar on standard error."""
    if settings.quiet or not sys.stderr.isatty():
        yield lambda stage, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)

        def said(stage: str, done: float) -> None:
            bar.update(task, completed=done, description=f"{what}: {stage}" if stage else what)

        yield said


def _written(result: Any, out: Path | None) -> None:
    if out is None:
        return
    from recondite.studies.sheet import contact_sheet
    from recondite.training.record import write_json

    if result.reconstructions is not None:
        contact_sheet(result.reconstructions, result.originals, out)
    write_json(out.with_suffix(".json"), result.record)


def _show(name: str, model: str, record: dict[str, Any], out: Path | None) -> None:
    found, members = record.get("reconstruction"), record.get("membership")
    rows: list[list[str]] = []
    if members is not None:
        interval = f"95% interval {members['auc_low']:.3f} to {members['auc_high']:.3f}"
        rows.append(["AUC", f"{members['auc']:.3f}", interval])
        for rate, text in (("0.001", "0.1%"), ("0.01", "1%")):
            rows.append([f"TPR at {text} FPR", f"{members[f'tpr_at_{rate}']:.4f}", ""])
        sure = "a bound" if members.get("epsilon_lower_holds") else "an estimate"
        rows.append(["ε at least", format_bound(members["epsilon_lower"], direction="lower"), sure])
    if found is not None and "mse" in found:
        rows += [
            ["MSE, median", figure(found["mse_median"]), found["scale"]],
            ["MSE, most exposed image", figure(found["mse_worst"]), ""],
            ["PSNR, mean", f"{found['psnr_mean']:.2f} dB", ""],
            ["SSIM, mean", f"{found['ssim_mean']:.3f}", "1 is a copy"],
            ["SSIM, most exposed image", f"{found['ssim_worst']:.3f}", ""],
        ]
        if found.get("labels_right") is not None:
            rows.append(["labels found", f"{100 * found['labels_right']:.0f} %", ""])
    elif found is not None:
        for index, loss in enumerate(found["matching_loss"][:16]):
            agreed = found["agreement"][index] if found["agreement"] else None
            note = "" if agreed is None else f"attempts agree to {agreed:.3g} a pixel"
            rows.append([f"matching loss, victim {index + 1}", f"{loss:.3e}", note])
    for claim in [] if found or members else record.get("claims", ()):  # all that it found
        promised = format_bound(claim["claim"], direction="upper")
        verdict = "refuted" if claim["violated"] else "not refuted"
        rows.append(
            [
                f"{claim['notion']}, at least",
                format_bound(claim["lower"], direction="lower"),
                f"{claim['how']}, {claim['about']}; claimed at most {promised}: {verdict}",
            ]
        )
    notes = list(record["notes"])
    if found is not None:
        notes.append(f"{found['images']} images, {found['iterations']} iterations")
    if out is not None:
        notes.append(f"written to {out} and {out.with_suffix('.json').name}")
    label = record.get("label")
    title = f"{name} on {model}" + (f", {label}" if label else "")
    print_table(title, ["quantity", "value", ""], rows, notes, numbers=(1,))
