"""Commands of other packages, through the entry-point group ``recondite.commands``.

An entry's name is the command's. It loads a function, whose annotated parameters are the options
as Typer reads them and whose docstring is the help, or a Typer application, whose commands come
below the name. It is imported whenever the command line starts: it must not load torch.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import typer

__all__ = ["ELSEWHERE", "GROUP", "add_commands"]

GROUP = "recondite.commands"
# Commands that a package of ours adds: without it they say in one line what to install.
ELSEWHERE = {"as-printed": "recondite-papers", "reproduce": "recondite-papers"}
# Whatever is typed after the name of a command that is not here, --help included, is not read.
_UNREAD = {"ignore_unknown_options": True, "allow_extra_args": True}

Command = Callable[..., Any] | typer.Typer


def add_commands(app: typer.Typer) -> None:
    """Adds what other packages register; it cannot replace a command of ours."""
    taken = {command.name for command in app.registered_commands}
    taken |= {group.name for group in app.registered_groups}
    for entry in entry_points(group=GROUP):
        if entry.name in taken:
            continue
        taken.add(entry.name)
        try:
            command: Command = entry.load()
        except (ImportError, AttributeError) as error:
            # One broken package must not take the other commands away.
            _refuse(app, entry.name, f"{entry.name} could not be loaded: {error}")
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)
    for name, package in ELSEWHERE.items():
        if name not in taken:
            line = f"{name} comes with {package}: pip install {package}"
            _refuse(app, name, line)
            app.info.epilog = line


def _refuse(app: typer.Typer, name: str, line: str) -> None:
    """A command that help does not list, and that ends with one line and exit code 2."""

    def refused() -> None:
        raise ValueError(line)

    app.command(name, hidden=True, add_help_option=False, context_settings=_UNREAD)(refused)
