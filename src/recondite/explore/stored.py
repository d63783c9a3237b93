"""What stored runs measured near a setting: accuracy and reconstructions, never interpolated."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from recondite.explore.question import Query, Refused
from recondite.report.gallery import IMAGES as IMAGE_TYPE
from recondite.report.gallery import public, strip_of
from recondite.report.points import Point, make_points
from recondite.report.quantities import attack_name
from recondite.report.rows import Row, StoredRun, alike, section
from recondite.report.words import percent, score

__all__ = ["accurate", "images", "nearest"]

IMAGES = 6  # pairs of one strip


def images(row: Row, directory: Path, *, show_private: bool) -> dict[str, Any] | None:
    """The images of one row for the page; None where there are none or they are not to be shown."""
    if not section(row, "reconstruction").get("gallery"):
        return None
    if not (public(row) or show_private):
        return {"withheld": True, "pictures": [], "label": str(row.get("label") or "")}
    try:
        written = (directory / str(section(row, "reconstruction")["gallery"])).stat().st_mtime_ns
    except OSError:
        return None
    return _strip(directory, json.dumps(row, sort_keys=True), written)


@lru_cache(maxsize=256)
def _strip(directory: Path, row: str, written: int) -> dict[str, Any] | None:
    """Encoded once for a row and its file: a study that grows is shown again and again."""
    del written
    strip = strip_of(json.loads(row), directory)
    if strip is None:
        return None
    return {
        "withheld": False,
        "label": strip.label,
        "attack": strip.attack,
        "better": strip.better,
        "media": strip.media,
        "pictures": [
            {
                "original": _address(strip.media, one.original),
                "rebuilt": _address(strip.media, one.rebuilt),
                "score": score(one.likeness),
            }
            for one in strip.pictures[:IMAGES]
        ],
    }


def _address(media: str, content: bytes) -> str:
    """An image as a data address, anything else as text."""
    if media == IMAGE_TYPE:
        return f"data:{media};base64,{base64.b64encode(content).decode()}"
    return content.decode(errors="replace")


def nearest(question: Query, runs: Sequence[StoredRun], *, show_private: bool) -> dict[str, Any]:
    """The stored setting of the same defence whose noise is nearest, said as what it is.

    Nothing is interpolated: accuracy and images are those of one stored setting, which is named
    with its run, together with how it differs from the setting asked about.
    """
    points = [p for p in make_points(runs) if p.defence == question.mechanism.name and p.value]
    if not points:
        where = ", ".join(run.name for run in runs) or "no run is open"
        return {"found": False, "line": f"No stored run has {question.mechanism.name} ({where})."}
    wanted = question.mechanism.strength
    point = min(points, key=lambda one: (_distance(one, wanted), -one.run))
    run = runs[point.run]
    attacked = [row for row in point.rows if section(row, "reconstruction").get("gallery")]
    best = max(attacked, key=alike, default=None)
    shown = None if best is None else images(best, run.directory, show_private=show_private)
    return {
        "found": True,
        "run": run.name,
        "label": point.label,
        "accuracy": percent(point.mean("accuracy")),
        "attack": "" if best is None else attack_name(str(best.get("attack") or "attack")),
        "differs": _differences(question, point),
        "images": shown,
    }


def accurate(question: Query, runs: Sequence[StoredRun]) -> Query:
    """The most noise at which a stored run of the same defence still was so accurate.

    Raises:
      Refused: No stored setting is.
    """
    if question.solve != "noise":
        raise Refused("solve", "an accuracy is looked up by noise in stored runs: solve for noise")
    points = [p for p in make_points(runs) if p.defence == question.mechanism.name and p.value]
    if not points:
        raise Refused("lock", f"no open run has measured {question.mechanism.name}: open one")
    good = [p for p in points if (p.mean("accuracy") or 0.0) >= question.target]
    if not good:
        best = max(p.mean("accuracy") or 0.0 for p in points)
        raise Refused("target", f"the best that a stored run measured is {percent(best)}")
    noisiest = max if question.mechanism.weaker == "smaller" else min
    return question.at(strength=noisiest(p.value for p in good if p.value is not None))


def _distance(point: Point, wanted: float) -> float:
    value = point.value or 0.0
    return abs(math.log(value / wanted)) if value > 0 and wanted > 0 else math.inf


def _differences(question: Query, point: Point) -> list[str]:
    """How the stored setting differs from the one asked about, in words."""
    training, data = section(point.rows[0], "training"), section(point.rows[0], "data")
    here = {
        question.mechanism.parameter: (point.value, question.mechanism.strength),
        "epochs": (training.get("epochs"), question.epochs),
        "batch size": (training.get("batch_size"), question.batch_size),
        "records": (training.get("records") or data.get("records"), question.records),
    }
    return [
        f"{name.replace('_', ' ')} {_plain(stored)} there, {_plain(asked)} here"
        for name, (stored, asked) in here.items()
        if isinstance(stored, int | float) and not math.isclose(stored, asked, rel_tol=1e-3)
    ]


def _plain(value: float) -> str:
    return f"{value:,.6g}" if value < 1e4 or value != int(value) else f"{value:,.0f}"
