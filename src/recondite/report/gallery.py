"""The gallery: originals above reconstructions, the person most at risk first."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recondite.report.points import Point
from recondite.report.quantities import attack_name
from recondite.report.rows import Row, Run, number, section

__all__ = ["Picture", "Strip", "Withheld", "gallery", "strip_of"]

PICTURES = 8  # of one defence
BYTES = 1_300_000  # of all pictures together, as they stand in the page
SIDE = 96  # larger originals are scaled down


@dataclass(frozen=True)
class Picture:
    """One original and what was rebuilt of it, as data addresses, with its scores."""

    original: str
    rebuilt: str
    ssim: float | None
    mse: float | None
    psnr: float | None


@dataclass(frozen=True)
class Strip:
    """The pictures of one row, most similar first."""

    point: int | None
    attack: str
    pictures: tuple[Picture, ...]
    worst: float | None
    mean: float | None
    left_out: int
    size: int
    victim: str
    client: str = ""
    label: str = ""


@dataclass(frozen=True)
class Withheld:
    """Why pictures are not in the page, counted by reason."""

    private: int = 0
    over_budget: int = 0
    unreadable: int = 0


def gallery(
    points: Sequence[Point], runs: Sequence[Run], first: Iterable[int], *, show_private: bool
) -> tuple[list[Strip], Withheld]:
    """One strip a point, by the attack and seed that rebuilt an image best.

    Args:
      points: The points.
      runs: Their runs.
      first: Points whose pictures come first, should there be too many.
      show_private: Also show pictures of data that is not public.
    """
    left = BYTES
    strips: list[Strip] = []
    private = over = unreadable = 0
    wanted = list(dict.fromkeys([*first, *(point.index for point in points)]))
    for index in wanted:
        rows = [r for r in points[index].rows if section(r, "reconstruction").get("gallery")]
        if not rows:
            continue
        row = max(rows, key=lambda item: _risk(section(item, "reconstruction")))
        if not (_public(row) or show_private):
            private += 1
            continue
        if left <= 0:
            over += 1
            continue
        strip = strip_of(row, runs[points[index].run].directory, index)
        if strip is None:
            unreadable += 1
        elif strip.size > left:
            over += 1
        else:
            left -= strip.size
            strips.append(strip)
    strips.sort(key=lambda strip: -math.inf if strip.worst is None else -strip.worst)
    return strips, Withheld(private, over, unreadable)


def strip_of(row: Row, directory: Path, point: int | None = None) -> Strip | None:
    """The pictures of one row; None where they cannot be read."""
    found = section(row, "reconstruction")
    try:
        originals, rebuilt = _load(directory, str(found.get("gallery")))
    except (OSError, ValueError, KeyError):
        return None
    count = min(len(originals), len(rebuilt))
    scores = {key: _scores(found.get(key), count) for key in ("ssim", "mse", "psnr")}
    order = sorted(range(count), key=lambda i: _risk_of(scores["ssim"][i], scores["mse"][i]))
    pictures = tuple(
        Picture(_png(originals[i]), _png(rebuilt[i]), *(scores[key][i] for key in scores))
        for i in order[:PICTURES]
    )
    return Strip(
        point=point,
        attack=attack_name(str(row.get("attack") or "attack")),
        pictures=pictures,
        worst=number(found.get("ssim_worst")),
        mean=number(found.get("ssim_mean")),
        left_out=count - len(pictures),
        size=sum(len(p.original) + len(p.rebuilt) for p in pictures),
        victim=str(found.get("victim") or ""),
        client=str(row.get("client") or ""),
        label=str(row.get("label") or row.get("defence") or ""),
    )


def _public(row: Row) -> bool:
    return section(row, "data").get("public") is True


def _risk(found: dict[str, Any]) -> tuple[float, float]:
    worst, mse = number(found.get("ssim_worst")), number(found.get("mse_worst"))
    return -math.inf if worst is None else worst, -math.inf if mse is None else -mse


def _risk_of(ssim: float | None, mse: float | None) -> tuple[float, float]:
    """Orders the most similar first; pictures without scores last."""
    return math.inf if ssim is None else -ssim, math.inf if mse is None else mse


def _scores(values: Any, count: int) -> list[float | None]:
    values = values if isinstance(values, list) else []
    return [number(values[i]) if i < len(values) else None for i in range(count)]


def _load(directory: Path, name: str) -> tuple[Any, Any]:
    path = (directory / name).resolve()
    if directory.resolve() not in path.parents:
        raise ValueError("gallery: the file is outside of its run")
    with np.load(path, allow_pickle=False) as arrays:
        originals, rebuilt = arrays["originals"], arrays["reconstructions"]
    for array in (originals, rebuilt):
        if array.dtype != np.uint8 or array.ndim != 4 or array.shape[-1] not in (1, 3):
            raise ValueError("gallery: pictures must be uint8 of shape (n, height, width, 1 or 3)")
    return originals, rebuilt


def _png(array: Any) -> str:
    from PIL import Image  # an extra

    image = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
