"""The application: global options, exit codes, errors in one line."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer

from recondite._interrupts import interrupted
from recondite._version import __version__
from recondite.cli import (
    account,
    attack,
    calibrate,
    channel,
    compare,
    data,
    federate,
    leakage,
    train,
)
from recondite.cli.extensions import add_commands
from recondite.cli.output import settings

__all__ = ["app", "main"]

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
train.register(app)
attack.register(app)
compare.register(app)
federate.register(app)
add_commands(app)


# What to install for a command whose libraries are not here.
_EXTRAS = {
    "train": "train,data",
    "data": "data",
    "attack": "attack",
    "compare": "compare",
    "demo": "compare",
    "report": "compare",
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
    return _fail(f"{error.format_message()} (see: recondite --help)", 2)


def _fail(message: str, code: int) -> int:
    print(f"recondite: {' '.join(message.split())}", file=sys.stderr)
    return code


def run(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0, 1 failure, 2 bad input, 130 interrupted."""
    code = 0
    try:
        result = app(args=arguments, standalone_mode=False)
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
