"""How it was made: studies, versions, seeds, times, machines, and what the bounds rest on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from recondite._version import __version__
from recondite.report.plain import explained, means_of, plain_name
from recondite.report.points import Point
from recondite.report.quantities import defence_name
from recondite.report.rows import Row, StoredRun, number, section
from recondite.report.words import figure, several

__all__ = ["made", "per_defence", "scope", "simulated"]

_HIDDEN = {"keys"}  # long lists of hashes that tell a reader nothing
_LONGEST = 60_000
_SOFTWARE = ("recondite", "python", "torch")


def made(run: StoredRun) -> Row:
    """The facts of one run, as pairs of a name and text, and its study as JSON."""
    first = run.rows[0]
    data, model = section(first, "data"), section(first, "model")
    machine = run.study.get("machine") or section(first, "machine")
    software = {k: v for k, v in machine.items() if k in _SOFTWARE}
    versions = {**software, **(run.study.get("versions") or {})}
    facts = {
        "Study": run.name,
        "Data": _data(data),
        "Model": _model(model),
        "Training, alike for all": _flat(_shared(run)),
        "Seeds": _seeds(run.rows),
        "Attacks": ", ".join(sorted({str(r.get("attack")) for r in run.rows if r.get("attack")})),
        "Rows": f"{several(len(run.done), 'result')}, {several(len(run.failed), 'failure')}",
        "Written": _between(str(row["created"]) for row in run.rows if row.get("created")),
        "Time": _time(run.rows),
        "Machine": _flat({k: v for k, v in machine.items() if k not in _SOFTWARE}),
        "Versions": _flat(versions) or f"recondite {__version__}",
    }
    notes = dict.fromkeys(str(note) for row in run.rows for note in row.get("notes") or [])
    shown = {key: value for key, value in run.study.items() if key not in _HIDDEN}
    text = json.dumps(shown, indent=2, ensure_ascii=False, default=str)
    return {
        "name": run.name,
        "facts": [(name, text) for name, text in facts.items() if text],
        "notes": list(notes)[:20],
        "study": "" if not shown else text[:_LONGEST],
    }


def per_defence(points: Sequence[Point], runs: Sequence[StoredRun]) -> list[Row]:
    """How each defence was trained where they differ, what it compares, what its bounds rest on.

    Settings of one defence that say the same share a line.
    """
    lines: dict[tuple[int, str, str, tuple[str, ...]], list[Point]] = {}
    shared, means = {run.index: _shared(run) for run in runs}, means_of(points)
    for point in points:
        row = point.rows[-1]
        trained = _settings(row)
        own = {k: v for k, v in trained.items() if k not in shared[point.run]}
        rests = tuple(str(one) for one in section(row, "privacy").get("assumptions") or [])
        lines.setdefault((point.run, point.defence, _flat(own), rests), []).append(point)
    return [
        {
            "run": runs[run].name,
            "defence": defence_name(defence),
            "plain": plain_name(defence, same[0].label),
            "about": explained(same[0]),
            "means": means[defence],
            "labels": ", ".join([*(point.label for point in same[:12]), *["…"][: len(same) > 12]]),
            "training": training or "as for all",
            "relation": same[0].neighbouring or "none: no bound compares data sets",
            "protects": same[0].protects if same[0].neighbouring else "nothing",
            "assumptions": list(rests),
        }
        for (run, defence, training, rests), same in lines.items()
    ]  # fmt: skip


def _settings(row: Row) -> Row:
    return {
        key: value
        for key, value in section(row, "training").items()
        if key != "seconds" and not isinstance(value, list)
    }


def _shared(run: StoredRun) -> Row:
    """Settings that every training of a run has alike."""
    every = [_settings(row) for row in run.done if section(row, "training")]
    first = every[0] if every else {}
    return {k: v for k, v in first.items() if all(one.get(k) == v for one in every)}


def simulated(runs: Sequence[StoredRun]) -> bool:
    """Whether any row's noise came from a seed."""
    return any(bool(row.get("simulation")) for run in runs for row in run.rows)


def scope(points: Sequence[Point]) -> list[str]:
    """What ε in this report covers, and what it does not."""
    lines = [
        "Every ε here is for one training run. Choosing among the runs of this study, or "
        "publishing this report, is not part of it and costs extra.",
        "Scores of attacks are what these attacks reached, not what is possible: only the bounds "
        "hold against attacks nobody has tried.",
    ]
    plain = sorted({p.label for p in points if not p.bounded})
    if plain:
        lines.insert(
            1,
            f"Models without a bound were trained on the way ({', '.join(plain[:4])}"
            f"{', …' if len(plain) > 4 else ''}) on the same records: whoever gets one of them, or "
            "its gradients, is not held back by any ε.",
        )
    subjects = sorted({p.protects for p in points if p.bounded and p.neighbouring})
    relations = sorted({p.neighbouring for p in points if p.neighbouring})
    if len(subjects) > 1 or len(relations) > 1:
        lines.append(
            "The defences do not all promise about the same thing ("
            + "; ".join([*subjects, *relations])
            + "): compare their bounds with care."
        )
    return lines


def _data(data: Row) -> str:
    parts = [str(data.get("name") or "")]
    records, test = number(data.get("records")), number(data.get("test_records"))
    if records:
        parts.append(several(int(records), "record"))
    if test:
        parts.append(f"{several(int(test), 'test record')}")
    if data.get("shape"):
        parts.append("×".join(str(side) for side in data["shape"]))
    parts += [str(data[key]) for key in ("preparation",) if data.get(key)]
    parts.append("public" if data.get("public") is True else "not known to be public")
    return ", ".join(part for part in parts if part)


def _model(model: Row) -> str:
    count = number(model.get("parameters"))
    size = f", {several(int(count), 'parameter')}" if count else ""
    return f"{model.get('name') or ''}{size}"


def _seeds(rows: Sequence[Row]) -> str:
    seeds = sorted({str(row.get("seed")) for row in rows if row.get("seed") is not None})
    if len(seeds) <= 12:
        return ", ".join(seeds)
    return f"{', '.join(seeds[:12])}, … ({len(seeds)} in all)"


def _between(stamps: Iterable[str]) -> str:
    found = sorted(stamp[:19].replace("T", " ") for stamp in stamps)
    if not found:
        return ""
    return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def _time(rows: Sequence[Row]) -> str:
    parts = []
    for key, name in (("train", "training"), ("attack", "attacks"), ("account", "accounting")):
        # Attacks of one cell share its training: its time is counted once.
        cells = {
            (r.get("label"), r.get("seed"), r.get("attack") if key == "attack" else None): seconds
            for r in rows
            if (seconds := number(section(r, "seconds").get(key))) is not None
        }
        if cells:
            parts.append(f"{name} {_duration(math.fsum(cells.values()))}")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{figure(seconds, 2)} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{str(key).replace('_', ' ')} {_flat(item)}"
            for key, item in value.items()
            if item is not None and not isinstance(item, dict | list)
        )
    return str(value)
