"""A setting as Python, as a command and as a study: each gives the ε that the page shows."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from recondite.explore.question import Query

__all__ = ["copies"]


def copies(asked: Query) -> dict[str, str]:
    """The setting in three languages, by name: ``python``, ``command`` and ``yaml``."""
    return {"python": _python(asked), "command": _command(asked), "yaml": _yaml(asked)}


def _given(asked: Query) -> dict[str, Any]:
    """The parameters of the mechanism that the form sets, and nothing that follows from them."""
    kept = (asked.mechanism.parameter, "dim", "blocks")
    return {name: value for name, value in asked.mechanism.parameters().items() if name in kept}


def _python(asked: Query) -> str:
    """As the README teaches it; a mechanism that is not at the top comes from its own module."""
    kind = type(asked.mechanism)
    values = ", ".join(f"{name}={value!r}" for name, value in _given(asked).items())
    named, first = f"rc.{kind.__name__}", "import recondite as rc\n"
    top = sys.modules["recondite"]  # no import: whoever depends on the top depends on all
    if getattr(top, kind.__name__, None) is not kind:
        named, first = kind.__name__, f"{first}from {kind.__module__} import {kind.__name__}\n"
    return (
        f"{first}\n"
        f"run = rc.{asked.schedule!r}\n"
        f"defence = {named}({values})\n"
        f"account = rc.account(defence, run, delta={asked.delta!r}, "
        f"prior_success={asked.prior!r})\n"
        'print(account.epsilon["pld"])\n'
    )


def _command(asked: Query) -> str:
    options: list[str] = []
    for name, value in _given(asked).items():
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        options += [f"--{name.replace('_', '-')}", text]
    options += ["--records", str(asked.records), "--batch-size", str(asked.batch_size)]
    options += ["--epochs", str(asked.epochs), "--sampling", asked.sampling]
    options += ["--delta", repr(asked.delta), "--prior-success", repr(asked.prior)]
    return shlex.join(["recondite", "account", asked.mechanism.name, *options])


def _yaml(asked: Query) -> str:
    import yaml

    given = {name: value for name, value in _given(asked).items() if name != "dim"}
    study = {
        "name": "explored",
        "data": asked.data,
        "model": asked.model,
        "defences": [{"name": asked.mechanism.name, **given}],
        "training": {
            "records": asked.records,
            "batch_size": asked.batch_size,
            "epochs": asked.epochs,
            "sampling": asked.sampling,
        },
        "delta": asked.delta,
    }
    # The coordinates are the model's own: where they matter, the study's ε is for that model.
    text: str = yaml.safe_dump(study, sort_keys=False)
    return text
