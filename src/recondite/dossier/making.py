"""``make``: the folder of a dossier, from a run."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from recondite._files import write_atomically
from recondite.dossier import manifest
from recondite.dossier.content import Dossier, compose
from recondite.dossier.questions import PARTS
from recondite.dossier.source import DossierRun, read_source
from recondite.notions import notions
from recondite.report.rows import Row, section
from recondite.report.words import at_most

__all__ = ["make"]

PAGE, DATA, EVIDENCE = "dossier.html", "dossier.json", "evidence"
STUDY = "study.yaml"
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'"


def make(run: str | Path, out: str | Path, *, key: str | Path | None = None) -> tuple[Path, str]:
    """Writes the dossier of a run: a page, the same as JSON, the evidence, a manifest.

    No image and no record of anybody is in it. Accuracies and what attacks reached are: they were
    computed from the records without noise, and no bound of the run covers them.

    Args:
      run: The folder of a study, or the record of a training.
      out: The folder to make; it must not hold anything yet.
      key: An Ed25519 private key (PEM) to sign with.

    Returns:
      The folder, and the fingerprint of the signer's public key ("" without a key).

    Raises:
      ValueError: In one line, for a run, key or folder that cannot be used.
    """
    folder = Path(out)
    signer = None if key is None else manifest.read_private_key(key)
    source = read_source(run)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out {folder} holds something already: give a new folder")
    files = {**source.files, **_study_file(source)}
    digests = {
        f"{EVIDENCE}/{name}": manifest.digest(content) for name, content in sorted(files.items())
    }
    dossier = compose(source, digests)
    page = render(dossier)
    text = json.dumps(dossier.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / EVIDENCE).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(folder / EVIDENCE / name, content)
    write_atomically(folder / DATA, text + "\n")
    write_atomically(folder / PAGE, page)
    listed = manifest.write(folder)
    return folder, "" if signer is None else manifest.sign(folder, listed, signer)


def _study_file(source: DossierRun) -> dict[str, bytes]:
    """The study as ``recondite compare`` reads it: JSON is YAML.

    What is stored of a study holds every key of every attack; rows hold those that it read. So an
    unfinished run has none: it may lack the rows of an attack.
    """
    study: Any = source.run.study.get("study")
    if source.kind != "study" or source.missing or not isinstance(study, dict):
        return {}
    attacks: dict[str, Row] = {}
    for row in source.run.rows:
        if row.get("attack") in (None, "none"):
            continue
        given = section(row, "attack_options")
        own = {key: value for key, value in given.items() if key != "options" and value is not None}
        one = {"name": row["attack"], **own, **section(given, "options")}
        attacks.setdefault(json.dumps(one, sort_keys=True), one)
    body = {**study, "attacks": list(attacks.values())}
    return {STUDY: (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode()}


def render(dossier: Dossier) -> str:
    """The page: no script, nothing loaded, everything escaped."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ValueError(
            "the dossier needs jinja2: install it with pip install 'recondite[compare]'"
        ) from None
    template = resources.files("recondite.dossier").joinpath("assets", "dossier.html")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    labels = {key: one.label for key, one in notions().items()}
    environment.filters["notion"] = lambda key: labels.get(key, str(key).replace("_", " "))
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        dossier=dossier, parts=PARTS, policy=POLICY, at_most=at_most
    )
