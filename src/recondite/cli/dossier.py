"""recondite dossier: what an assessor needs of a run, and the check of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recondite.cli.output import progress

__all__ = ["register"]

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


def register(parent: typer.Typer) -> None:
    """Adds the commands."""
    parent.add_typer(
        app, name="dossier", help="What an assessor needs of a run: makes it, signs it, checks it."
    )


_MAKE = """Makes the dossier of a run: a page, the same as JSON, the evidence, and digests of all.

`recondite dossier make runs/study --out dossier --sign key.pem`

RUN is the folder of a study, or the folder or record.json of one training.
"""
_VERIFY = """Checks every file of a dossier, and its signature.

`recondite dossier verify dossier --key signer.pem`

Exit code: 1 if something does not verify, 2 for bad input.
"""


@app.command("make", help=_MAKE)
def make(
    run: Annotated[Path, typer.Argument(help="The run.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="A new folder.", show_default=False)],
    sign: Annotated[
        Path | None, typer.Option("--sign", help="Ed25519 private key (PEM) to sign with.")
    ] = None,
) -> None:
    """Makes a dossier."""
    from recondite import dossier

    with progress("making the dossier"):
        folder, signer = dossier.make(run, out, key=sign)
    print(f"dossier: {folder / 'dossier.html'}, and the same as dossier.json")
    print(f"signed by {signer}" if signer else "not signed (--sign KEY)")
    print(f"check it with: recondite dossier verify {folder}")


@app.command("verify", help=_VERIFY)
def verify(
    folder: Annotated[Path, typer.Argument(help="The dossier.", show_default=False)],
    key: Annotated[
        Path | None,
        typer.Option("--key", help="The signer's public key (PEM), from where you trust it."),
    ] = None,
) -> None:
    """Checks a dossier."""
    from recondite import dossier

    found = dossier.verify(folder, key)
    for problem in found.problems:
        print(f"does not verify: {problem}")
    if found.problems:
        raise typer.Exit(1)
    print(f"{found.files} files are what the manifest lists, none added, none missing")
    if found.trusted:
        print(f"signed by the key that was given ({found.fingerprint})")
    elif found.signed:
        print(
            f"signed by {found.fingerprint}; whose key that is, is not known: compare it, or give "
            "--key"
        )
    else:
        print("not signed: whoever can write the folder can have changed all of it")
