"""The application: global options, exit codes, errors in one line, commands of other packages.

Those come through the entry-point group ``recondite.commands``. An entry's name is the command's.
It loads a function, whose annotated parameters are the options as Typer reads them and whose
docstring is the help, or a Typer application, whose commands come below the name. It is imported
whenever the command line starts: it must not load torch.
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from recondite._interrupts import interrupted
from recondite._plugins import entry_points
from recondite._version import __version__
from recondite.cli import (
    account,
    attack,
    calibrate,
    channel,
    check,
    compare,
    data,
    dossier,
    explore,
    federate,
    layers,
    leakage,
    train,
)
from recondite.cli.output import settings

__all__ = ["ELSEWHERE", "GROUP", "add_commands", "app", "main"]

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
            if not callable(command):
                raise TypeError("it is no function and no Typer application")
        except Exception as error:  # one broken package must not take the other commands away
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


app = typer.Typer(
    name="recondite",
    help="What an attacker could rebuild from what you release, and what it costs to stop it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"recondite {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress on standard error.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")
    ] = False,
) -> None:
    """Options of every command."""
    del version
    settings.quiet, settings.debug = quiet, debug


account.register(app)
calibrate.register(app)
leakage.register(app)
channel.register(app)
data.register(app)
layers.register(app)
train.register(app)
attack.register(app)
check.register(app)
compare.register(app)
dossier.register(app)
federate.register(app)
explore.register(app)
add_commands(app)


# What to install for a command whose libraries are not here.
_EXTRAS = {
    "train": "train,data",
    "data": "data",
    "attack": "attack",
    "check": "train",
    "compare": "compare",
    "demo": "compare",
    "report": "compare",
    "dossier": "compare",
    "explore": "explore",
    "federate": "federated",
}


def _missing(error: ModuleNotFoundError, arguments: list[str]) -> str:
    """One line that says what to install."""
    command = next((word for word in arguments if word in _EXTRAS), None)
    extra = "all" if command is None else _EXTRAS[command]
    return f"{command or 'this'} needs {error.name}: pip install 'recondite[{extra}]'"


# What the parser raises for bad input is a class of Click's in older releases of Typer and one of
# Typer's own in newer ones, which no longer bring Click along: Typer itself is asked which.
_ANCESTORS = typer.BadParameter.__mro__
_BAD_INPUT: type[Exception] = _ANCESTORS[_ANCESTORS.index(Exception) - 1]


def _refused(error: Any) -> int:
    """Says in one line what was wrong with the options; without any, what there is to choose."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    # Typer and Click both add what was meant: once is enough.
    message = re.sub(r"( Did you mean [^?]*\?)\1", r"\1", error.format_message())
    message = message.removesuffix(" Did you mean '--help'?")  # the nearest of nothing near
    return _fail(f"{_known_as(error) or message} (see: recondite --help)", 2)


# What people type who come from papers and other libraries.
_ALIASES = {
    "--sigma": "--noise-multiplier",
    "--noise": "--noise-multiplier",
    "--learning-rate": "--lr",
    "--eps": "--epsilon",
    "--q": "--rate",
    "--sample-rate": "--rate",
    "--n": "--records",
    "--clip": "--max-grad-norm",
    "--defense": "--defence",
}


def _known_as(error: Any) -> str | None:
    """What an option of another name is called here, where the command has it."""
    typed = getattr(error, "option_name", None)
    ours = _ALIASES.get(str(typed))
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    for one in context.command.params:
        if one.param_type_name == "argument" and typed == f"--{one.name}":
            words, at = [one.name.upper()], context
            while at.parent is not None:
                words, at = [at.info_name, *words], at.parent
            usage = " ".join(["recondite", *words])
            return f"No such option {typed!r}. Write it without: {usage}."
    if ours is None:
        return None
    has = any(ours in parameter.opts for parameter in context.command.params)
    return f"No such option {typed!r}. It is called {ours} here." if has else None


def _fail(message: str, code: int) -> int:
    print(f"recondite: {' '.join(message.split())}", file=sys.stderr)
    return code


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """A warning of ours is one line without the place in our code; others keep their look."""
    usual = warnings.showwarning

    def show(*given: Any) -> None:
        message, category, filename = given[:3]
        if category is UserWarning and not settings.debug and "recondite" in Path(filename).parts:
            print(f"recondite: {' '.join(str(message).split())}", file=sys.stderr)
        else:
            usual(*given)

    with warnings.catch_warnings():
        shown: Any = show
        warnings.showwarning = shown
        yield


def _alone(arguments: list[str]) -> typer.Typer:
    """The application with the typed command only: to build them all takes as long as an account.

    All of it where help is asked for, or something that is no command.
    """
    word = next((word for word in arguments if word not in ("-q", "--quiet", "--debug")), None)
    commands = [command for command in app.registered_commands if command.name == word]
    groups = [group for group in app.registered_groups if group.name == word]
    if not (commands or groups):
        return app
    small = copy.copy(app)
    small.registered_commands, small.registered_groups = commands, groups
    return small


def _built(asked: typer.Typer, arguments: list[str] | None) -> Any:
    command = typer.main.get_command(asked)
    if "--help" in (sys.argv[1:] if arguments is None else arguments):
        _describe_arguments(command)
    return command


def _describe_arguments(command: Any) -> None:
    """Gives arguments the help that was written for them: Click from 8.5 on forgets Typer's."""
    for part in getattr(command, "commands", {}).values():
        _describe_arguments(part)
    written = getattr(command.callback, "__wrapped__", None)
    hints = {} if written is None else inspect.get_annotations(written, eval_str=True)
    for argument in command.params:
        for part in getattr(hints.get(argument.name), "__metadata__", ()):
            if argument.param_type_name == "argument" and not argument.help:
                argument.help = getattr(part, "help", None)


def run(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0, 1 failure, 2 bad input, 130 interrupted."""
    code = 0
    try:
        asked = _alone(sys.argv[1:] if arguments is None else arguments)
        with _plain_warnings():
            result = _built(asked, arguments)(args=arguments, standalone_mode=False)
        code = result if isinstance(result, int) else 0
        if code == 130:  # Typer turns an interruption into this code and says nothing
            _fail("interrupted", code)
    except _BAD_INPUT as error:
        code = _refused(error)
    except (typer.Abort, KeyboardInterrupt):
        code = _fail("interrupted", 130)
    except ValueError as error:
        if settings.debug:
            traceback.print_exc()
        code = _fail(str(error), 2)
    except ModuleNotFoundError as error:
        if settings.debug:
            traceback.print_exc()
        code = _fail(_missing(error, sys.argv[1:] if arguments is None else arguments), 2)
    except BrokenPipeError:
        code = 0
    except Exception as error:  # the last resort: one line for what nobody foresaw
        if interrupted(error):
            return _fail("interrupted", 130)
        if settings.debug:
            traceback.print_exc()
        kind = type(error).__name__
        code = _fail(f"{kind}: {error} (run again with --debug for the traceback)", 1)
    return code


def main() -> None:
    """Entry point."""
    sys.exit(run())
