"""The gallery: originals beside reconstructions, the person most at risk first.

Images and other kinds of records alike: what one content looks like is ``records/display.py``'s.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recondite.report.points import Point
from recondite.report.quantities import attack_name
from recondite.report.rows import Row, StoredRun, number, section
from recondite.report.words import figure, score, whole

__all__ = ["Contents", "Picture", "Strip", "Withheld", "contents", "gallery", "most_exposed",
           "public", "strip_of"]  # fmt: skip

PICTURES = 8  # of one defence
BYTES = 450_000  # of all contents together, as they stand in the page
SIDE = 96  # larger images are scaled down
IMAGES = "image/png"
_METRICS = ("ssim", "mse", "psnr")  # of rows that name no others
_NAMES = {"ssim": "SSIM", "mse": "MSE", "psnr": "PSNR"}


@dataclass(frozen=True)
class Picture:
    """One victim: the original, what was rebuilt, and the blind guess, with scores.

    Attributes:
      place: Its place among the victims.
      original: The content of the original, of its strip's media type.
      rebuilt: The reconstruction.
      guess: The blind guess; None where none was stored.
      scores: Of the reconstruction, by metric.
      blind: Of the guess, by metric.
      likeness: The score by which victims are ranked; None where it was not measured.
    """

    place: int
    original: bytes
    rebuilt: bytes
    guess: bytes | None
    scores: Mapping[str, float | None]
    blind: Mapping[str, float | None]
    likeness: float | None

    @property
    def told(self) -> str:
        """The scores in words."""
        known = {key: value for key, value in self.scores.items() if value is not None}
        return ", ".join(f"{_NAMES.get(key, key)} {figure(v, 2)}" for key, v in known.items())


@dataclass(frozen=True)
class Contents:
    """Everything that one row stored to show, most at risk first."""

    media: str
    exposure: str
    pictures: tuple[Picture, ...]
    row: Row


@dataclass(frozen=True)
class Strip:
    """The first victims of one row.

    ``better`` says what they are worth beside a blind guess, and ``guessed`` that it is nothing.
    """

    point: int | None
    attack: str
    media: str
    exposure: str
    pictures: tuple[Picture, ...]
    worst: float | None
    mean: float | None
    left_out: int
    size: int
    victim: str
    client: str = ""
    label: str = ""
    better: str = ""
    guessed: bool = False
    beats: bool | None = None


@dataclass(frozen=True)
class Withheld:
    """Why reconstructions are not in the page, counted by reason."""

    private: int = 0
    over_budget: int = 0
    unreadable: int = 0


def gallery(
    points: Sequence[Point], runs: Sequence[StoredRun], first: Iterable[int], *, show_private: bool
) -> tuple[list[Strip], Withheld]:
    """One strip a point, by the attack and seed that rebuilt a record best.

    Args:
      points: The points.
      runs: Their runs.
      first: Points whose images come first, should there be too many.
      show_private: Also show records that are not public.
    """
    left = BYTES
    strips: list[Strip] = []
    private = over = unreadable = 0
    wanted = list(dict.fromkeys([*first, *(point.index for point in points)]))
    for index in wanted:
        rows = most_exposed(points[index])
        if not rows:
            continue
        if not (public(rows[0]) or show_private):
            private += 1
            continue
        if left <= 0:
            over += 1
            continue
        strip = strip_of(rows[0], runs[points[index].run].directory, index)
        if strip is None:
            unreadable += 1
        elif strip.size > left:
            over += 1
        else:
            left -= strip.size
            strips.append(strip)
    strips.sort(key=lambda strip: -math.inf if strip.worst is None else -strip.worst)
    return strips, Withheld(private, over, unreadable)


def most_exposed(point: Point) -> list[Row]:
    """The rows of a point that stored something to show, the best reconstruction first."""
    rows = [row for row in point.rows if section(row, "reconstruction").get("gallery")]
    return sorted(rows, key=lambda row: _risk(section(row, "reconstruction")), reverse=True)


def public(row: Row) -> bool:
    """Whether the row's records are known to be public."""
    return section(row, "data").get("public") is True


def contents(row: Row, directory: Path) -> Contents | None:
    """What one row stored to show; None where it cannot be read."""
    found = section(row, "reconstruction")
    try:
        media, sides, places = _load(directory, str(found.get("gallery")))
    except (OSError, ValueError, KeyError):
        return None
    originals, rebuilt, guesses = sides
    count = min(len(originals), len(rebuilt))
    places = places or list(range(count))
    blind = section(found, "blind")
    keys = [key for key, value in blind.items() if isinstance(value, list)] or list(_METRICS)
    exposure = str(found.get("exposure") or keys[0] if "ssim" not in keys else "ssim")
    mine, theirs = ({key: _scores(of.get(key), places) for key in keys} for of in (found, blind))
    errors = _scores(found.get("mse"), places)
    order = sorted(range(count), key=lambda i: _risk_of(mine[exposure][i], errors[i]))
    pictures = tuple(
        Picture(
            places[i], originals[i], rebuilt[i], guesses[i] if i < len(guesses) else None,
            {key: mine[key][i] for key in keys}, {key: theirs[key][i] for key in keys},
            mine[exposure][i],
        )
        for i in order
    )  # fmt: skip
    return Contents(media, exposure, pictures, row)


def strip_of(row: Row, directory: Path, point: int | None = None) -> Strip | None:
    """The first images of one row; None where they cannot be read."""
    held = contents(row, directory)
    if held is None:
        return None
    found, shown = section(row, "reconstruction"), held.pictures[:PICTURES]
    return Strip(
        point=point,
        attack=attack_name(str(row.get("attack") or "attack")),
        media=held.media,
        exposure=held.exposure,
        pictures=shown,
        worst=number(found.get(f"{held.exposure}_worst")),
        mean=number(found.get(f"{held.exposure}_mean")),
        left_out=len(held.pictures) - len(shown),
        size=sum(4 * (len(p.original) + len(p.rebuilt)) // 3 + 60 for p in shown),
        victim=str(found.get("victim") or ""),
        client=str(row.get("client") or ""),
        label=str(row.get("label") or row.get("defence") or ""),
        better=_better(found),
        guessed=found.get("beats_guessing") is False,
        beats=found.get("beats_guessing"),
    )


def _better(found: Row) -> str:
    """What the reconstruction is worth beside the blind guess, by the measure that shows most."""
    if not section(found, "blind"):
        return "a blind guess was not measured"
    gains = []
    for key, gain in section(found, "gain").items():
        ends = gain if isinstance(gain, dict) else {}
        value, low, high = (number(ends.get(name)) for name in ("value", "low", "high"))
        if value is not None and low is not None and high is not None and key != "psnr":
            gains.append((low, key, value, high))
    if found.get("beats_guessing") is None or not gains:
        return "too few victims to tell it from guessing"
    low, key, value, high = max(gains)
    if key == "mse":
        text = f"{_share(value)} of a guess’s error gone (95%: {_share(low)} to {_share(high)})"
    else:
        ends_told = f"95%: {score(low)} to {score(high)}"
        name = _NAMES.get(key, key)
        text = f"{name} {'+' if value > 0 else ''}{score(value)} over a guess ({ends_told})"
    return text if found["beats_guessing"] else f"no better than guessing: {text}"


def _share(value: float) -> str:
    """Of an error that is gone: never more than all, whatever an interval by Student's t says."""
    return whole(min(1.0, value))


def _risk(found: Row) -> tuple[float, float]:
    key = str(found.get("exposure") or "ssim")
    worst, mse = number(found.get(f"{key}_worst")), number(found.get("mse_worst"))
    return -math.inf if worst is None else worst, -math.inf if mse is None else -mse


def _risk_of(likeness: float | None, mse: float | None) -> tuple[float, float]:
    """Orders the most similar first; images without scores last."""
    return math.inf if likeness is None else -likeness, math.inf if mse is None else mse


def _scores(values: Any, places: list[int]) -> list[float | None]:
    values = values if isinstance(values, list) else []
    return [number(values[i]) if 0 <= i < len(values) else None for i in places]


def _load(directory: Path, name: str) -> tuple[str, list[list[bytes]], list[int]]:
    """The media type; originals, reconstructions and guesses as contents of it; their places."""
    path = (directory / name).resolve()
    if directory.resolve() not in path.parents:
        raise ValueError("gallery: the file is outside of its run")
    with np.load(path, allow_pickle=False) as arrays:
        media = str(arrays["media"]) if "media" in arrays else IMAGES
        sides = [arrays["originals"], arrays["reconstructions"]]
        sides.append(arrays["guesses"] if "guesses" in arrays else sides[0][:0])
        places = [int(one) for one in arrays["places"]] if "places" in arrays else []
    if places and len(places) != len(sides[0]):
        raise ValueError("gallery: a place for each of its contents")
    return media, [_contents(array, media) for array in sides], places


def _contents(array: Any, media: str) -> list[bytes]:
    if media != IMAGES:
        if array.ndim != 1 or array.dtype.kind != "U":
            raise ValueError("gallery: contents must be text of shape (n,)")
        return [str(text).encode() for text in array]
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[-1] not in (1, 3):
        raise ValueError("gallery: images must be uint8 of shape (n, height, width, 1 or 3)")
    return [_png(image) for image in array]


def _png(array: Any) -> bytes:
    from PIL import Image  # an extra

    image = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
