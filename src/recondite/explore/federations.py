"""A federation while it runs: clients by rounds, budgets left, the best reconstruction, alarms.

Everything is read from what its server and its clients write: the server's checkpoint and evidence,
and the clients' ledgers where they lie on this machine. Nothing is written, nobody is asked.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from recondite._validate import probability
from recondite.explore.runs import Opened, ledgers_of, results_of
from recondite.explore.stored import images
from recondite.explore.watching import alarms
from recondite.federated.cost import Spent, spent
from recondite.federated.ledger import Line, ReleaseLedger
from recondite.notions.bounds import round_bound
from recondite.report.points import make_points
from recondite.report.rows import Row, StoredRun, alike, number, read_runs, section
from recondite.report.words import at_least, at_most, figure, percent, score

__all__ = ["snapshot", "stamp"]

DELTA = 1e-5
CLIENTS = 200  # rows of the table
_WATCHED = ("records.jsonl", "checkpoint.json", "rounds.csv", "study.json")


def stamp(opened: Opened) -> tuple[Any, ...]:
    """Changes whenever :func:`snapshot` would."""
    inside, ledgers = results_of(opened.path), ledgers_of(opened.path)
    paths = [inside / name for name in _WATCHED]
    if ledgers is not None:
        paths += sorted(ledgers.glob("*/releases.jsonl"))
    found = []
    for path in paths:
        try:
            now = path.stat()
        except OSError:
            continue
        found.append((path.name, path.parent.name, now.st_size, now.st_mtime_ns))
    return tuple(found)


def snapshot(
    opened: Opened,
    *,
    budget: float | None = None,
    delta: float = DELTA,
    show_private: bool = False,
) -> dict[str, Any]:
    """Everything the page shows of a federation.

    Args:
      opened: The federation's folder.
      budget: ε that every client may spend; None takes what the server's settings say.
      delta: δ of every ε.
      show_private: Also show images of data that is not known to be public.
    """
    probability("delta", delta)
    inside = results_of(opened.path)
    rounds, settings = _rounds(inside)
    allowed = budget if budget is not None else number(settings.get("budget-epsilon")) or None
    runs = _evidence(inside)
    rows = [row for run in runs for row in run.done if isinstance(row.get("round"), int)]
    clients, troubles = _clients(ledgers_of(opened.path), delta, allowed)
    counted = bool(clients)
    clients = clients or _seen(rows)
    best = max(rows, key=alike, default=None)
    numbers = {int(row["round"]) for row in rows} | {row["round"] for row in rounds}
    numbers |= {n for client in clients for n in client["released"]}
    last = max(numbers, default=0)
    total = number(settings.get("rounds"))
    latest = sorted(rows, key=lambda row: -row["round"])[:CLIENTS]
    contradicted = alarms(make_points(runs)) if runs else []
    return {
        **opened.to_dict(),
        "rounds": rounds,
        "last": last,
        "total": None if total is None else int(total),
        "clients": clients[:CLIENTS],
        "left_out": max(0, len(clients) - CLIENTS),
        "counted": counted,
        "budget": allowed,
        "delta": delta,
        "attacked": [_attacked(row) for row in latest],
        "best": None if best is None else _best(best, runs, show_private=show_private),
        "alarms": [*contradicted, *troubles],
        "simulation": any(client["simulation"] for client in clients),
        "finished": (inside / "rounds.csv").exists(),
    }


def _rounds(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rounds with their accuracy, and the server's settings: of the checkpoint, or of the end."""
    state = _read_json(folder / "checkpoint.json")
    if state:
        return _accuracies(state.get("rows") or []), dict(state.get("settings") or {})
    study = _read_json(folder / "study.json")
    if study.get("rounds"):
        return _accuracies(study["rounds"]), dict(study.get("study") or {})
    try:
        with (folder / "rounds.csv").open(newline="", encoding="utf-8") as file:
            return _accuracies(list(csv.DictReader(file))), {}
    except OSError:
        return [], {}


def _accuracies(rows: Sequence[Any]) -> list[dict[str, Any]]:
    out = []
    for row in rows:
        try:
            out.append({"round": int(row["round"]), "accuracy": percent(float(row["accuracy"]))})
        except (KeyError, TypeError, ValueError):
            continue
    return out


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _evidence(folder: Path) -> list[StoredRun]:
    """What the auditor wrote so far; none before its first row."""
    try:
        return read_runs([folder])
    except ValueError:
        return []


def _clients(
    ledgers: Path | None, delta: float, budget: float | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Every client by its own ledger, and what is wrong with any: one line each."""
    found, troubles = [], []
    for path in sorted([] if ledgers is None else ledgers.glob("*/releases.jsonl"), key=_place):
        name = path.parent.name
        try:
            if b"\n" not in path.read_bytes():
                continue  # being made
            lines = ReleaseLedger(path.parent).lines()
            cost = _spent(json.dumps(lines, sort_keys=True), delta)
        except (ValueError, OSError) as error:
            troubles.append(f"{name}: {' '.join(str(error).split())}")
            continue
        found.append(_client(name, lines, cost, budget))
        if budget is not None and cost.epsilon is not None and cost.epsilon > budget:
            troubles.append(f"{name}: spent ε {at_most(cost.epsilon)}, above its budget {budget:g}")
    return found, troubles


@lru_cache(maxsize=512)
def _spent(lines: str, delta: float) -> Spent:
    """Clients of a simulation share their releases' laws: each is composed once."""
    return spent(json.loads(lines), delta)


def _client(name: str, lines: Sequence[Line], cost: Spent, budget: float | None) -> dict[str, Any]:
    left = share = None
    if budget is not None and cost.epsilon is not None:
        left = max(0.0, round_bound(budget - cost.epsilon, 4, "lower"))
        share = max(0.0, min(1.0, left / budget))
    return {
        "name": name,
        "released": sorted({one for line in lines if (one := line.get("round"))}),
        "epsilon": at_most(cost.epsilon),
        "information": at_most(cost.information),
        "left": "–" if left is None else at_least(left),
        "share": share,
        "protects": cost.protects,
        "against": cost.against,
        "simulation": cost.simulation,
        "reasons": cost.reasons,
    }


def _seen(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Clients of which only the server's evidence is here: what they spent is not known."""
    found: dict[str, set[int]] = {}
    for row in rows:
        found.setdefault(str(row.get("client") or "–"), set()).add(int(row["round"]))
    unknown: dict[str, Any] = {
        "epsilon": "–",
        "information": "–",
        "left": "–",
        "share": None,
        "reasons": {},
    }
    return [
        {"name": name, "released": sorted(rounds), **unknown, "protects": "", "against": "",
         "simulation": False}
        for name, rounds in sorted(found.items())
    ]  # fmt: skip


def _place(path: Path) -> tuple[str, int]:
    head, _, tail = path.parent.name.rpartition("-")
    return (head, int(tail)) if tail.isdigit() else (path.parent.name, 0)


def _attacked(row: Row) -> dict[str, Any]:
    rebuilt = section(row, "reconstruction")
    return {
        "round": row["round"],
        "client": str(row.get("client") or "–"),
        "label": str(row.get("label") or row.get("defence") or ""),
        "ssim": score(number(rebuilt.get("ssim_worst"))),
        "agreement": figure(number(rebuilt.get("agreement"))),
        "estimate": row.get("ground_truth") is False,
    }


def _best(row: Row, runs: Sequence[StoredRun], *, show_private: bool) -> dict[str, Any]:
    shown = images(row, runs[0].directory, show_private=show_private)
    return {**_attacked(row), "images": shown}
