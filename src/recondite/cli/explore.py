"""recondite explore: the page, alive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explore", help=_HELP)(explore)


_HELP = """Calibrate and look, run a study and watch it, follow a federation: in your browser.

`recondite explore runs/study`

It listens on this machine only, and the address it prints has a secret token. Studies that were
started go on when it ends.
"""


def explore(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of runs or federations, or records files.", show_default=False
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where studies from the form go.")] = Path(
        "runs"
    ),
    port: Annotated[
        int, typer.Option("--port", help="Where to listen; 0 finds a free port.", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address; open nothing.")
    ] = False,
    show_private: Annotated[
        bool, typer.Option("--show-private", help="Show images of data not known to be public.")
    ] = False,
) -> None:
    """Serves the explorer."""
    from recondite.explore.server import serve

    def tell(line: str) -> None:
        print(line, file=sys.stdout, flush=True)

    serve(runs or [], out=out, port=port, browser=not no_browser, show_private=show_private,
          tell=tell)  # fmt: skip
