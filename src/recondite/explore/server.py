"""The explorer's server: one page, streams of answers and progress, for this machine."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["serve"]

HOST = "127.0.0.1"


def serve(
    runs: Sequence[Path] = (),
    *,
    out: Path = Path("runs"),
    port: int = 0,
    browser: bool = True,
    show_private: bool = False,
    tell: Callable[[str], None] = print,
) -> None:
    """Serves the explorer until it is interrupted.

    Guarantee: it listens on 127.0.0.1 alone and answers nobody without the token of the address
    that it tells (:mod:`recondite.explore.guard`). Studies that were started go on when it ends.

    Args:
      runs: Folders of runs or federations, or records files, to open.
      out: Where studies from the form go.
      port: Where to listen; 0 finds a free port.
      browser: Whether to open a browser.
      show_private: Also show images of data that is not known to be public.
      tell: Where lines for the person go.

    Raises:
      ValueError: In one line: an extra is missing, a path is no run, a port is taken.
    """
    try:
        import uvicorn

        from recondite.explore.pages import application
    except ModuleNotFoundError as error:
        raise ValueError(f"explore needs {error.name}: pip install 'recondite[explore]'") from None
    from recondite.explore.guard import RequestGuard
    from recondite.explore.runs import Runs

    opened = Runs(out, runs)
    listening = _listen(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/?token={token}"
    with tempfile.TemporaryDirectory(prefix="recondite-explore-") as uploads, listening:
        app = application(opened, Path(uploads), show_private=show_private)
        config = uvicorn.Config(
            RequestGuard(app, token, port),
            log_level="error",
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,  # streams have no end of their own
        )
        _ready(address, tell, browser=browser)  # it listens: whoever comes early waits a moment
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    tell("stopped; studies that were started go on, and what they finish is kept")


def _listen(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # there it would let two servers have one port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen()
    except (OSError, OverflowError) as error:
        found.close()
        reason = getattr(error, "strerror", None) or "it is no port"
        raise ValueError(f"port {port} cannot be used: {reason}: choose another, or 0") from None
    return found


def _ready(address: str, tell: Callable[[str], None], *, browser: bool) -> None:
    tell(f"explorer: {address}")
    tell("only this machine can open it; Ctrl-C ends it")
    if browser and not webbrowser.open(address):
        tell("no browser could be opened: open the address yourself")
