"""Options that several commands share, and what they build."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from recondite.accounting.schedules import Schedule, schedule_for
from recondite.cli.output import figure
from recondite.configuration import Option, options
from recondite.mechanisms import Mechanism, mechanisms

__all__ = [
    "DATA_HELP",
    "MECHANISM",
    "MODEL_HELP",
    "NETWORKS",
    "RUN",
    "build_mechanism",
    "build_schedule",
    "check_relation",
    "describe",
    "grouped",
    "shared",
]


# Written out, for the registry imports torch; a test compares them.
NETWORKS = "mlp, mlp2, lenet, lenet-dlg, alexnet, vgg16, resnet10, table-mlp, table-embedding"
MODEL_HELP = f"{NETWORKS}; hf:FOLDER, or package.module:function."
DATA_HELP = "Name (see data list), folder, file, or package.module:function."


def number(text: str) -> float:
    """A number or a fraction such as 128/60000."""
    try:
        return float(Fraction(text.strip())) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no number or fraction such as 128/60000") from None


def numbers(text: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    return tuple(number(part) for part in text.split(","))


def blocks(text: str) -> tuple[int, ...] | str:
    """A number of blocks, their sizes, or the name of a model's own: layers or rows."""
    return text if text in ("layers", "rows") else counts(text)


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    values = numbers(text)
    if not all(math.isfinite(value) and value.is_integer() for value in values):
        raise typer.BadParameter(f"{text!r} must be whole numbers separated by commas")
    return tuple(int(value) for value in values)


def _option(flag: str, text: str, **extra: Any) -> Any:
    return typer.Option(flag, help=text, show_default=False, **extra)


def _number(flag: str, text: str, panel: str) -> Any:
    return Annotated[
        float, _option(flag, text, parser=number, metavar="NUMBER", rich_help_panel=panel)
    ]


# Headings of options in help.
NOISE, BATCHES, PRIVACY, TRAINING = "Noise", "Batches and steps", "Privacy", "Training"
DATA, DEFENCE, ANSWER, OUTPUT = "Data and model", "Defence", "The answer", "Where and what to write"
RUNNING, ATTACK, VICTIM = "How it runs", "The attack", "The victim"
DEFENCES = (
    "none, clip, gaussian, vmf, partitioned, directional; or noise on records: natural, white, "
    "personalized, minimum-power."
)
SAMPLINGS = "poisson (the default), allocation, fixed-size or shuffled."


_MECHANISM_PANEL = {
    "kappa": ("--kappa", "Concentration of VMF noise: one, or one a block.", numbers, "NUMBER"),
    "noise_multiplier": ("--noise-multiplier", "Gaussian σ.", number, "NUMBER"),
    "dim": ("--dim", "Number of coordinates released.", number, "COUNT"),
    "blocks": ("--blocks", "Number of blocks, their sizes, layers or rows.", blocks, "COUNT[,…]"),
    "clip_norm": ("--clip-norm", "Norm records are clipped to.", number, "NUMBER"),
    "max_batch_size": ("--max-batch-size", "Enforced largest batch.", number, "COUNT"),
    "layers": ("--layers", "Sizes of layers clipped apart.", counts, "COUNT,…"),
    "layer_norms": ("--layer-norms", "Norm of each layer.", numbers, "NUMBER,…"),
}
MECHANISM = {
    name: Annotated[str, _option(flag, text, parser=parser, metavar=metavar, rich_help_panel=NOISE)]
    for name, (flag, text, parser, metavar) in _MECHANISM_PANEL.items()
}
MECHANISM["setting"] = Annotated[
    list[str],
    _option("--set", "NAME=VALUE of a defence from another package.", rich_help_panel=NOISE),
]

RUN = {
    "records": _number("--records", "Number of records.", BATCHES),
    "batch_size": Annotated[
        str,
        _option("--batch-size", "Records in a batch.", parser=number, metavar="COUNT",
                rich_help_panel=BATCHES),
    ],
    "epochs": _number("--epochs", "Passes over the records, with both above.", BATCHES),
    "sampling": Annotated[str, _option("--sampling", SAMPLINGS, rich_help_panel=BATCHES)],
    "rate": _number("--rate", "Or: Poisson sampling rate, with --steps.", BATCHES),
    "steps": _number("--steps", "Optimizer steps (releases), not epochs.", BATCHES),
    "delta": _number("--delta", "δ of (ε, δ).", PRIVACY),
    "group_size": _number("--group-size", "Records that belong to one person (1).", PRIVACY),
    "prior_success": _number("--prior-success", "Success of a guess, for ReRo (1/10).", PRIVACY),
    "neighbouring": Annotated[
        str,
        _option("--neighbouring", "Insist on add-or-remove-one or replace-one.",
                rich_help_panel=PRIVACY),
    ],
}  # fmt: skip


def shared(*groups: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds groups of options to a command, handed to it as one namespace called ``given``."""
    extra = {name: hint for group in groups for name, hint in group.items()}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True)
        kept = [p for name, p in own.parameters.items() if name != "given"]
        added = [
            hint
            if isinstance(hint, inspect.Parameter)
            else inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint
            )
            for name, hint in extra.items()
        ]

        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            given = {name: values.pop(name) for name in extra}
            return command(given=SimpleNamespace(**given), **values)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept] + added
        described: Any = wrapper
        described.__signature__ = inspect.Signature(parameters)
        described.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapper

    return decorate


def grouped(panels: dict[str, str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a command's options under headings in its help.

    Args:
      panels: By heading, the options' parameters, separated by spaces. What has a heading keeps it.
    """
    named = {name: panel for panel, names in panels.items() for name in names.split()}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = inspect.get_annotations(command, eval_str=True)
        for name, hint in hints.items():
            parts = [copy.copy(part) for part in getattr(hint, "__metadata__", ())]
            bare = [part for part in parts if getattr(part, "rich_help_panel", "") is None]
            if name not in named or not bare:
                continue
            for part in bare:
                part.rich_help_panel = named[name]
            # A copy: an option that several commands share has a heading of its own in each.
            annotated: Any = Annotated
            hints[name] = annotated[(hint.__origin__, *parts)]
        command.__annotations__ = hints  # evaluated once: the parts that were changed stay
        if "__signature__" in vars(command):  # which :func:`shared` gave it
            described: Any = command
            described.__signature__ = inspect.Signature([
                one.replace(annotation=hints.get(one.name, one.annotation))
                for one in described.__signature__.parameters.values()
            ])  # fmt: skip
        return command

    return decorate


def training_options() -> dict[str, Any]:
    """The options of a training, from the fields of its configuration."""
    return {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            # Where the defence decides, None says that nothing was typed.
            default=None if option.chosen else option.default,
            annotation=Annotated[
                option.type | None,
                typer.Option(_named(name, option), help=option.help, rich_help_panel=TRAINING),
            ],
        )
        for name, option in options().items()
    }


def _named(name: str, option: Option) -> str:
    return option.flag or _flag(name)


def _settings(given: SimpleNamespace) -> dict[str, Any]:
    """The mechanism options that were typed, by field name."""
    values = {name: getattr(given, name) for name in _MECHANISM_PANEL}
    values["batch_size"] = given.batch_size
    if isinstance(values["kappa"], tuple) and len(values["kappa"]) == 1:
        values["kappa"] = values["kappa"][0]
    if isinstance(values["blocks"], tuple) and len(values["blocks"]) == 1:
        values["blocks"] = values["blocks"][0]
    for setting in given.setting or []:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set must be NAME=VALUE, got {setting!r}")
        values[name] = number(text)
    return {name: value for name, value in values.items() if value is not None}


def named_settings(flag: str, typed: list[str] | None) -> dict[str, Any]:
    """Settings that were typed as NAME=VALUE."""
    found: dict[str, Any] = {}
    for text in typed or []:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{flag} must be NAME=VALUE, got {text!r}")
        found[key.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if "," in text:
        return [_value(part) for part in text.split(",")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def build_mechanism(
    name: str, given: SimpleNamespace, *, start: float | None = None, also: str | None = None
) -> Mechanism:
    """The mechanism that the options describe.

    Args:
      name: Its name.
      given: The options.
      start: A strength to use when none was typed (calibration searches it).
      also: Another mechanism the same options describe, whose fields are allowed too.
    """
    known = mechanisms()
    for option in (name, also or name):
        if option not in known:
            near = difflib.get_close_matches(str(option), known, 1)
            meant = f": did you mean {near[0]}?" if near else ""
            raise ValueError(f"mechanism must be one of {', '.join(known)}, got {option!r}{meant}")
    typed = _settings(given)
    own = {field.name for field in dataclasses.fields(known[name])}
    allowed = own | {field.name for field in dataclasses.fields(known[also or name])}
    for field in typed:
        if field not in allowed and field != "batch_size":
            flag = "--" + field.replace("_", "-")
            raise ValueError(f"{flag} is not an option of {also or name}: leave it out")
    values = {field: value for field, value in typed.items() if field in own}
    parameter = known[name].parameter
    if start is not None and also is not None:
        values.pop(parameter, None)
    if start is not None and parameter:
        values.setdefault(parameter, start)
    if parameter and parameter not in values:
        raise ValueError(f"--{parameter.replace('_', '-')} is needed for {name}")
    return known[name](**values)


_EPOCHS = ("epochs", "batch_size", "records")
# Options that describe a schedule of each kind: one of these sets, and nothing besides.
_DESCRIBED: dict[str, tuple[tuple[str, ...], ...]] = {
    "poisson": (("rate", "steps"), _EPOCHS, ("batch_size", "records", "steps")),
    "allocation": (_EPOCHS,),
    "fixed-size": (("batch_size", "records", "steps"), _EPOCHS),
    "shuffled": (_EPOCHS,),
}


def build_schedule(given: SimpleNamespace, *, needed: bool = True) -> Schedule | None:
    """The schedule that the options describe; Poisson batches unless they say otherwise."""
    parts = ("rate", "steps", "epochs", "records")
    typed = {name for name in parts if getattr(given, name) is not None}
    if given.sampling is None and not typed:
        if needed:
            raise ValueError(
                "a schedule is needed: give --records, --batch-size and --epochs, or --rate and "
                "--steps"
            )
        return None
    sampling = given.sampling or "poisson"
    if sampling not in _DESCRIBED:
        raise ValueError(f"--sampling must be one of {', '.join(_DESCRIBED)}, got {sampling!r}")
    if given.batch_size is not None and typed - {"rate", "steps"}:
        typed.add("batch_size")
    ways = _DESCRIBED[sampling]
    # The way that needs least more is what was meant.
    names = min(ways, key=lambda way: (len(typed - set(way)), len(set(way) - typed)))
    missing = [_flag(name) for name in names if getattr(given, name) is None]
    surplus = sorted(typed - set(names))
    if missing:
        raise ValueError(f"{', '.join(missing)} is needed for {sampling} batches")
    if surplus:
        raise ValueError(f"{_flag(surplus[0])} does not belong to {sampling} batches: leave it out")
    return schedule_for(sampling, **{name: getattr(given, name) for name in names})


def describe(schedule: Schedule, given: SimpleNamespace) -> str:
    """The schedule in a line, in four digits; that Poisson is the default is said."""
    parts = schedule.to_dict()
    chosen = "" if given.sampling is not None else " (the default)"
    numbers = [
        f"{name.replace('_', ' ')} {f'{value:,}' if isinstance(value, int) else figure(value)}"
        for name, value in parts.items()
        if name != "sampling" and value is not None
    ]
    return f"{parts['sampling']} batches{chosen}: {', '.join(numbers)}"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def check_relation(given: SimpleNamespace, mechanism: Mechanism, schedule: Schedule) -> None:
    """Refuses a neighbouring relation that this run is not accounted under."""
    if given.neighbouring is None:
        return
    actual = schedule.neighbouring(mechanism)
    if given.neighbouring in (actual.value, actual.value.removesuffix("-one")):
        return
    if mechanism.stage == "record":
        from recondite.mechanisms import Neighbouring

        mechanism.loss(Neighbouring.ADD_OR_REMOVE)
    raise ValueError(
        f"--neighbouring must be {actual.value} for {schedule.sampling} batches: other "
        "relations need another schedule"
    )
