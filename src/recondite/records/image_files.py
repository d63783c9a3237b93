"""Image files: only formats that are decoded without running other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite._validate import at_least
from recondite.records.arrays import needed

__all__ = ["SUFFIXES", "Header", "is_picture", "read_header", "read_pictures"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_GREY = ("1", "L", "LA")
_ORIENTATION = 0x0112  # the tag in which a camera says how it was held
_TURNED = (5, 6, 7, 8)
_BLOCK = 1024  # pictures


@dataclass(frozen=True)
class Header:
    """What a picture is before its pixels are read.

    Attributes:
      size: (width, height) as it is seen, after any rotation that the file asks for.
      grey: Whether it has no colours.
    """

    size: tuple[int, int]
    grey: bool


def is_picture(path: Path) -> bool:
    """Tells whether the name is that of a picture we read; hidden files are none."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Opens a picture; whatever is wrong with it, then or when it is decoded, takes one line."""
    image = needed("PIL.Image", "pillow")
    try:
        with image.open(path, formats=_FORMATS) as picture:
            if picture.mode[0] in "IF":
                raise ValueError("it has pixels of more than 8 bits, convert it to 8 bits")
            yield picture
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as a picture: {error}") from error


def read_header(path: Path) -> Header:
    """Reads a picture's size and kind without its pixels."""
    with _opened(path) as picture:
        width, height = picture.size
        if picture.getexif().get(_ORIENTATION) in _TURNED:
            width, height = height, width
        return Header((width, height), picture.mode in _GREY)


def _read(path: Path, mode: str, size: int | None) -> NDArray[np.uint8]:
    resampling = needed("PIL.Image", "pillow").Resampling
    turn = needed("PIL.ImageOps", "pillow").exif_transpose
    with _opened(path) as opened:
        picture = turn(opened).convert(mode)
        if size is not None and picture.size != (size, size):
            picture = picture.resize((size, size), resampling.BILINEAR)
        pixels: NDArray[np.uint8] = np.asarray(picture, dtype=np.uint8)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def read_pictures(
    paths: Sequence[Path], *, grey: bool = False, size: int | None = None
) -> NDArray[np.uint8]:
    """Reads pictures of equal size, (n, c, h, w).

    Args:
      paths: The files.
      grey: One channel instead of three.
      size: Resizes each to size x size (bilinear, antialiased), whatever its proportions.
    """
    if size is not None:
        at_least("size", size, 1)
    if not paths:
        raise ValueError("no pictures to read")
    mode = "L" if grey else "RGB"
    first = _read(paths[0], mode, size)
    out = np.empty((len(paths), *first.shape), dtype=np.uint8)
    # Decoding releases the interpreter's lock. In blocks: a mistake does not wait for all the rest.
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(paths), _BLOCK):
            block = paths[start : start + _BLOCK]
            for index, pixels in enumerate(pool.map(lambda p: _read(p, mode, size), block), start):
                if pixels.shape != first.shape:
                    raise ValueError(
                        f"{paths[index]} differs in size from {paths[0]}: pass a size for all"
                    )
                out[index] = pixels
    return out
