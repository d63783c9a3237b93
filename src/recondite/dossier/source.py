"""What a dossier is made from: the folder of a study, or the record of one training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from recondite.report.rows import Row, StoredRun, read_runs, section
from recondite.studies import store
from recondite.studies.defences import kinds
from recondite.studies.rows import notions

__all__ = ["DossierRun", "read_source"]

RECORD = "record.json"
BEGUN = ("ledger.json", "channel.jsonl", "checkpoint.pt")


@dataclass(frozen=True)
class DossierRun:
    """A run that was read.

    Attributes:
      run: Its rows, as the report reads them.
      kind: "study" or "training".
      finished: Whether it says that it ran to its end.
      missing: Rows that were asked for and are not there.
      status: Both in one sentence.
      searched: Trainings that were only run to find strengths.
      files: The evidence, by name: handed over with the dossier as it is.
    """

    run: StoredRun
    kind: str
    finished: bool
    missing: int
    status: str
    searched: int
    files: dict[str, bytes]


def read_source(path: str | Path) -> DossierRun:
    """Reads a run.

    Args:
      path: The folder of a study, the folder of a training, or the JSON of its record.

    Raises:
      ValueError: In one line, where there is no run that can be read.
    """
    place = Path(path)
    if not place.exists():
        raise ValueError(f"run {place} is not there: give the folder of a run, or a record's JSON")
    if place.is_dir() and (place / store.RECORDS).exists():
        return _study(place)
    if place.is_dir() and not (place / RECORD).exists():
        if any((place / name).exists() for name in BEGUN):
            raise ValueError(
                f"run {place} is a training that has not finished: run the same command again, "
                f"then make the dossier of its {RECORD}"
            )
        raise ValueError(f"run {place} holds neither {store.RECORDS} nor {RECORD}")
    return _training(place / RECORD if place.is_dir() else place)


def _study(folder: Path) -> DossierRun:
    run = read_runs([folder])[0]
    asked = run.study.get("keys")
    there = {row.get("key") for row in run.rows}
    missing = sum(key not in there for key in asked) if isinstance(asked, list) else 0
    finished = bool(run.study.get("finished")) and not missing
    failed = len(run.failed)
    if finished:
        status = f"The run finished: {len(run.rows)} rows, {failed} of them failed."
    elif missing:
        status = (
            f"The run is not finished: {missing} of {missing + len(run.rows)} rows are missing, "
            f"{failed} failed. What follows speaks of the rows that are there."
        )
    else:
        status = (
            f"The run does not say that it finished: {len(run.rows)} rows are there, {failed} of "
            "them failed. What follows speaks of these rows."
        )
    names = (store.RECORDS, store.STUDY, "targets.jsonl")
    files = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
    searched = sum(
        str(line.get("kind")) != "target" for line in store.read_lines(folder / "targets.jsonl")
    )
    return DossierRun(run, "study", finished, missing, status, searched, files)


def _training(path: Path) -> DossierRun:
    try:
        content = path.read_bytes()
        record = json.loads(content)
    except (OSError, ValueError):
        record = None
    if not isinstance(record, dict) or record.get("kind") != "training":
        raise ValueError(f"run {path} is no record of a training: give {RECORD} of a run")
    parts = ("data", "model", "defence", "training", "results")
    lacking = [name for name in parts if not section(record, name)]
    account = record.get("privacy")
    if account is not None and not {"delta", "reasons", "schedule"} <= set(
        section(record, "privacy")
    ):
        lacking.append("whole privacy account")
    if lacking:
        raise ValueError(f"run {path} has no {lacking[0]}: it is no whole record of a training")
    rows = _rows(record)
    name = str(section(record, "model").get("name") or path.parent.name)
    run = StoredRun(0, name, path.parent, rows, {"machine": record.get("machine") or {}})
    status = "The training finished: its record is written at the end."
    return DossierRun(run, "training", True, 0, status, 0, {RECORD: content})


def _rows(record: Row) -> tuple[Row, ...]:
    """The record as rows of a study: one for the training, one for its audit."""
    defence, privacy = section(record, "defence"), record.get("privacy")
    name, parameters = str(defence.get("name") or "none"), section(defence, "parameters")
    kind = kinds().get(name)
    value = parameters.get(kind.parameter) if kind is not None and kind.parameter else None
    strength = float(value) if isinstance(value, int | float) else None
    kept = ("clipping", "max_grad_norm", "sampling", "secure")
    base: Row = {
        "key": "training",
        "study": None,
        "status": "done",
        "defence": name,
        "label": name if kind is None else kind.label(strength, {}),
        "value": strength,
        "seed": None,
        "attack": "none",
        "data": section(record, "data"),
        "model": section(record, "model"),
        "training": {
            **section(record, "training"),
            **{key: defence.get(key) for key in kept},
        },
        "utility": section(record, "results"),
        "privacy": privacy,
        "notions": notions(name, privacy),
        "machine": section(record, "machine"),
        "created": record.get("created"),
        "simulation": bool(record.get("simulation")),
        "notes": record.get("notes") or [],
    }
    audit = section(record, "audit")
    if not audit:
        return (base,)
    claims = [_claim(audit)]
    return base, {
        **base,
        "key": "audit",
        "attack": "canary-audit",
        "threat": "training",
        "claims": claims,
    }


def _claim(audit: Row) -> Row:
    result = section(audit, "result")
    return {
        "notion": "epsilon",
        "claim": audit.get("claim"),
        "lower": audit.get("lower"),
        "how": "canary audit",
        "delta": result.get("delta"),
        "confidence": result.get("confidence"),
        "about": f"one full-batch step at δ = {result.get('delta')}",
        "violated": bool(audit.get("refuted")),
    }
