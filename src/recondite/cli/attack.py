"""recondite attack: what an attacker rebuilds, or whom they recognise."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from recondite import _validate
from recondite._deprecated import attack_name
from recondite.cli.answers import PARTICIPATION
from recondite.cli.attack_output import print_attacks, print_found, print_rows, write_found
from recondite.cli.options import (
    ATTACK,
    DATA,
    DATA_HELP,
    DEFENCE,
    DEFENCES,
    MECHANISM,
    MODEL_HELP,
    OUTPUT,
    VICTIM,
    grouped,
    named_settings,
    number,
    numbers,
    shared,
)
from recondite.cli.output import bar, print_json
from recondite.configuration import CLIPPINGS

__all__ = ["register"]

# Written out, for the registry imports torch; a test compares them.
_NAMES = (
    "dlg, idlg, inverting-gradients, see-through-gradients, analytic, mean-image, multi-step, "
    "crafted-weights, strongest, importance-weights, gauss-newton, adaptive, "
    "tabular-inversion, spear, model-inversion, released-record, channel-posterior, "
    "membership-threshold, membership-reference, membership-lira, membership-rmia, "
    "membership-white-box, identification, span-check, canary-audit; list explains them."
)
_HELP = f"""Attacks a victim made for it, gradients from files, or a model of yours.

`recondite attack inverting-gradients --data mnist-5k --model mlp --defence vmf --kappa 500`

`recondite attack dlg --model lenet-dlg --gradients g.safetensors --shape 1,28,28`

`recondite attack strongest --model mlp --weights w.safetensors --gradients g.safetensors
--defence vmf --kappa 5000 --public mnist-5k --prepare crop16`

`recondite attack membership-threshold --model mlp --weights w.safetensors --members mnist-5k
--non-members mnist-5k`

`recondite attack membership-reference --data mnist-5k --records 400 --epochs 60 --references 8`

NAME is one of {_NAMES}
"""
Options = dict[str, Any]  # settings by name, as somebody typed them
_NOISE = {name: MECHANISM[name] for name in ("kappa", "noise_multiplier", "blocks")}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("attack", help=_HELP)(attack)


def _option(flag: str, text: str, **extra: Any) -> Any:
    return typer.Option(flag, help=text, show_default=False, **extra)


@grouped({
    DATA: "data model weights gradients public originals members non_members pixels shape classes "
    "labels bounds prepare truncate adapter standardise norm data_dir",
    DEFENCE: "defence capacity clipping max_grad_norm",
    VICTIM: "images batch_size trained epochs records infer_labels",
    ATTACK: "preset steps restarts references option threat participation seed device time_limit",
    OUTPUT: "out as_json reveal",
})  # fmt: skip
@shared(_NOISE)
def attack(
    name: Annotated[str, typer.Argument(help=_NAMES, show_default=False)],
    data: Annotated[str | None, _option("--data", DATA_HELP)] = None,
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP)] = "mlp",
    weights: Annotated[Path | None, _option("--weights", "The victim's weights.")] = None,
    gradients: Annotated[
        list[Path] | None,
        _option("--gradients", "Safetensors by parameter name; again: releases of the same."),
    ] = None,
    public: Annotated[
        str | None, _option("--public", "Records that the attacker has: data set, folder, file.")
    ] = None,
    originals: Annotated[
        str | None, _option("--originals", "What --gradients is of, to score: the same.")
    ] = None,
    members: Annotated[
        str | None, _option("--members", "Records that --weights was trained on: the same.")
    ] = None,
    non_members: Annotated[
        str | None, _option("--non-members", "Others of the same kind: the same.")
    ] = None,
    pixels: Annotated[str | None, _option("--pixels", "published, half or unit.")] = None,
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
    defence: Annotated[str, typer.Option("--defence", help=DEFENCES)] = "none",
    capacity: Annotated[
        float | None, _option("--capacity", "Nats of a channel.", parser=number, metavar="NUMBER")
    ] = None,
    clipping: Annotated[str | None, _option("--clipping", ", ".join(CLIPPINGS) + ".")] = None,
    max_grad_norm: Annotated[float | None, _option("--max-grad-norm", "The bound.")] = None,
    images: Annotated[int, typer.Option("--images", help="Victims.")] = 8,
    batch_size: Annotated[
        int | None, _option("--batch-size", "Records behind one gradient (1).")
    ] = None,
    trained: Annotated[
        bool, typer.Option("--trained", help="Train the victim first (gradient attacks).")
    ] = False,
    epochs: Annotated[int | None, _option("--epochs", "Of the victim's training.")] = None,
    records: Annotated[
        int | None, _option("--records", "Members; with --members, records trained on.")
    ] = None,
    preset: Annotated[
        str | None, _option("--preset", "A paper's settings; list shows them.")
    ] = None,
    steps: Annotated[int | None, _option("--steps", "Iterations.")] = None,
    restarts: Annotated[int | None, _option("--restarts", "Attempts a victim.")] = None,
    references: Annotated[int | None, _option("--references", "Reference models.")] = None,
    option: Annotated[
        list[str] | None, _option("--option", "NAME=VALUE of the attack's other settings.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        _option("--set", "NAME=VALUE of the attack's settings, else of the defence's."),
    ] = None,
    threat: Annotated[
        str | None, _option("--threat", "What is released: update, training or model.")
    ] = None,
    participation: PARTICIPATION = None,
    prepare: Annotated[str | None, _option("--prepare", "crop16, resize32, …, none.")] = None,
    truncate: Annotated[int | None, _option("--truncate", "Cut texts to so many tokens.")] = None,
    adapter: Annotated[str | None, _option("--adapter", "lora:RANK, with --model hf:DIR.")] = None,
    norm: Annotated[str, typer.Option("--norm", help="group, batch or none.")] = "group",
    seed: Annotated[int, typer.Option("--seed", help="Repeats the attack.")] = 0,
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Scale records by their own statistics.")
    ] = False,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show exposed rows of a table, or texts.")
    ] = False,
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
        print_attacks()
        return 0
    from recondite.attacks import registry
    from recondite.attacks.base import AttackRequest
    from recondite.studies.given_gradients import attack_file
    from recondite.studies.given_model import attack_members
    from recondite.studies.one_attack import attack_victim

    if out is not None and out.suffix != ".png":
        raise ValueError(f"--out must end in .png, got {out.name}")
    if participation is not None:
        _validate.choice("participation", participation, ("secret", "known"))
    name = attack_name(name)  # the one it has now
    options, batch = _options(name, preset, batch_size, option)
    ours, theirs = _set(name, defence, setting)
    options |= ours
    for key, value in (("steps", steps), ("restarts", restarts), ("references", references)):
        if value is not None:
            options[key] = value
    plain = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    made = registry.build(name, **plain)
    made.check_threat(AttackRequest(threat=threat))
    defended = _defence(defence, capacity, given) | theirs
    place = None if data_dir is None else str(data_dir)
    trained_by: Options = {"norm": norm, "device": device}
    typed = {
        "epochs": epochs, "clipping": clipping, "max_grad_norm": max_grad_norm, "pixels": pixels,
        "truncate": truncate, "adapter": adapter,
    }  # fmt: skip
    trained_by |= {key: value for key, value in typed.items() if value is not None}
    if standardise:
        trained_by["standardise"] = True
    _together(
        gradients=gradients, public=public, originals=originals, members=members, data=data,
        non_members=non_members, pixels=pixels, epochs=epochs,
    )  # fmt: skip
    with bar(f"{name} on {model}") as said:
        if gradients:
            result = attack_file(
                name,
                options,
                model=model,
                gradients=gradients,
                shape=_shape(shape, public),
                weights=None if weights is None else str(weights),
                classes=classes,
                norm=norm,
                batch_size=batch,
                labels=None if labels is None else [int(x) for x in numbers(labels)],
                bounds=_bounds(bounds),
                defence=defended,
                clipping=clipping,
                max_grad_norm=max_grad_norm,
                public=public,
                originals=originals,
                prepare=prepare,
                data_dir=place,
                seed=seed,
                device=device,
                time_limit=time_limit,
                said=said,
            )
        elif members is not None or non_members is not None:
            result = attack_members(
                name,
                options,
                model=model,
                weights=None if weights is None else str(weights),
                members=members,
                non_members=non_members,
                public=public,
                data=data,
                prepare=prepare,
                records=records,
                training=trained_by,
                defence=defended,
                data_dir=place,
                seed=seed,
                said=said,
            )
        else:
            victims = {
                "images": images,
                "batch_size": batch,
                "victim": "trained" if trained else "untrained",
                "labels": not infer_labels,
                "records": records,
                "threat": threat,
                "participation": participation,
            }
            if weights is not None:
                trained_by["weights"] = str(weights)
            study = {
                "name": "attack",
                "data": _needed(data),
                "model": model,
                "prepare": prepare,
                "seeds": [seed],
                "training": trained_by,
                "defences": [defended],
                "attacks": [{"name": name, **_fields(name, victims), **options}],
            }
            result = attack_victim(study, data_dir=place, said=said)
    written = write_found(result, out)
    if as_json:
        print_json(result.record)
    else:
        print_found(name, model, result.record, written)
        print_rows(result, reveal=reveal)
    return 130 if result.interrupted else 0


def _fields(name: str, typed: Options) -> Options:
    """Those of a study's keys that the attack reads."""
    from recondite.studies.attackers import reads

    return {k: v for k, v in typed.items() if k in reads(name) and v is not None}


def _options(
    name: str, preset: str | None, batch_size: int | None, typed: list[str] | None
) -> tuple[Options, int]:
    from recondite.attacks.presets import preset as preset_named

    options: Options = {}
    batch = batch_size
    if preset is not None:
        found = preset_named(preset)
        if found.attack != name:
            raise ValueError(f"preset {preset} is of {found.attack}, not of {name}")
        options, batch = dict(found.options), batch_size or found.batch_size
    return options | named_settings("--option", typed), batch or 1


def _set(name: str, defence: str, typed: list[str] | None) -> tuple[Options, Options]:
    """What --set says of the attack, and what of the defence: by who has a setting of the name."""
    from recondite.attacks.registry import attack_named
    from recondite.defences import find

    given = named_settings("--set", typed)
    known = attack_named(name).setting_names()
    kind = find(defence, unproven=True) if given else None
    own = () if kind is None else (*kind.settings, kind.parameter)
    for key in given:
        if key in known and key in own:
            raise ValueError(
                f"--set {key} is a setting of attack {name} and of defence {defence}: give the "
                "attack's with --option"
            )
    theirs = {key: given.pop(key) for key in list(given) if key in own}
    return given, theirs


def _needed(data: str | None) -> str:
    if data is None:
        raise ValueError(
            "--data or --gradients is needed: a victim to make, or what one leaked (or --weights "
            "with --members and --non-members)"
        )
    return data


def _together(**typed: Any) -> None:
    """Refuses options that nothing would read: what is given is used, or said to be in the way."""
    wanted: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
        (("public",), ("gradients", "members"), "--gradients or --members"),
        (("originals",), ("gradients",), "--gradients"),
    )
    for names, others, said in wanted:
        for name in names:
            if typed[name] is not None and not any(typed[other] for other in others):
                raise ValueError(f"--{name} goes with {said}: a victim made here knows its own")
    if typed["gradients"]:
        for name in ("data", "members", "non_members", "pixels", "epochs"):
            if typed[name] is not None:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} is not read with --gradients: leave one of them out")


def _shape(text: str | None, public: str | None) -> tuple[int, int, int] | None:
    if text is None and public is not None:
        return None
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


def _defence(name: str, capacity: float | None, given: SimpleNamespace) -> Options:
    values = {**vars(given), "capacity": capacity}
    if isinstance(values["kappa"], tuple):
        values["kappa"] = list(values["kappa"])
    if isinstance(values["blocks"], tuple):
        values["blocks"] = (
            values["blocks"][0] if len(values["blocks"]) == 1 else list(values["blocks"])
        )
    return {"name": name, **{key: value for key, value in values.items() if value is not None}}
