"""Image files: read where no other program has to run, a folder of them, and PNG without a library.

In a folder every subfolder is a class.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite._validate import at_least, probability
from recondite.records.arrays import RawImages, needed, stratified

__all__ = ["SUFFIXES", "Header", "is_picture", "png", "read_folder", "read_header", "read_pictures"]

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
GREY = ("1", "L", "LA")
_ORIENTATION = 0x0112  # the tag in which a camera says how it was held
_TURNED = (5, 6, 7, 8)
_BLOCK = 1024  # images


@dataclass(frozen=True)
class Header:
    """What an image is before its pixels are read.

    Attributes:
      size: (width, height) as it is seen, after any rotation that the file asks for.
      grey: Whether it has no colours.
    """

    size: tuple[int, int]
    grey: bool


def is_picture(path: Path) -> bool:
    """Tells whether the name is that of an image we read; hidden files are none."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Opens an image; whatever is wrong with it, then or when it is decoded, takes one line."""
    image = needed("PIL.Image", "pillow")
    try:
        with image.open(path, formats=_FORMATS) as picture:
            if picture.mode[0] in "IF":
                raise ValueError("it has pixels of more than 8 bits, convert it to 8 bits")
            yield picture
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as an image: {error}") from error


def read_header(path: Path) -> Header:
    """Reads an image's size and kind without its pixels."""
    with _opened(path) as picture:
        width, height = picture.size
        if picture.getexif().get(_ORIENTATION) in _TURNED:
            width, height = height, width
        return Header((width, height), picture.mode in GREY)


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
    """Reads images of equal size, (n, c, h, w).

    Args:
      paths: The files.
      grey: One channel instead of three.
      size: Resizes each to size x size (bilinear, antialiased), whatever its proportions.
    """
    if size is not None:
        at_least("size", size, 1)
    if not paths:
        raise ValueError("no images to read")
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


def _no_link(path: Path) -> Path:
    """The path; a link is refused, for what it leads to need not lie in the folder."""
    if path.is_symlink():
        raise ValueError(f"{path} is a link: put the folder or the image itself there")
    return path


def _listing(root: Path) -> tuple[list[Path], list[int], tuple[str, ...]]:
    """Returns the images, their labels and the classes, in the order of their names."""
    folders = sorted(
        p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".") and _no_link(p)
    )
    paths: list[Path] = []
    labels: list[int] = []
    classes: list[str] = []
    for folder in folders:
        inside = [_no_link(path) for path in sorted(folder.rglob("*"))]
        found = [path for path in inside if is_picture(path) and path.is_file()]
        if found:
            labels += [len(classes)] * len(found)
            paths += found
            classes.append(folder.name)
    if not paths:
        raise ValueError(
            f"{root} holds no images: put those of each class into a subfolder with its name"
        )
    return paths, labels, tuple(classes)


def read_folder(
    root: Path,
    split: str,
    verify: bool = True,
    *,
    size: int | None = None,
    if_differ: int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> RawImages:
    """Reads one split of a folder of images.

    Subfolders ``train`` and ``test``, when both are there, are the splits and hold the classes.
    Otherwise the subfolders are the classes, and the split is drawn with the seed, in each class
    alike. Links inside the folder are refused.

    Args:
      root: The folder.
      split: "train" or "test".
      verify: Nothing is published to compare with: ignored.
      size: Resizes every image to size x size.
      if_differ: The same, but only where images differ in size; either is needed then.
      test_fraction: The share of each class that is held out.
      seed: Of the split.
    """
    del verify
    splits = [root / "train", root / "test"]
    given = all(path.is_dir() and _no_link(path) for path in splits)
    paths, labels, classes = _listing(root / split if given else root)
    if given:
        known = _listing(root / "train")[2]
        unknown = sorted(set(classes) - set(known))
        if unknown:
            raise ValueError(
                f"{root / split} has a class that {root / 'train'} lacks: {unknown[0]}"
            )
        labels = [known.index(classes[label]) for label in labels]
        classes = known
    headers = [read_header(path) for path in paths]
    if size is None and len({header.size for header in headers}) > 1:
        if if_differ is None:
            raise ValueError(
                f"the images in {root} differ in size: resize them with prepare: resize32 in a "
                "study, or --prepare resize32"
            )
        size = if_differ
    grey = all(header.grey for header in headers)
    positions = np.arange(len(paths))
    if not given:
        positions = _drawn(root, np.asarray(labels), split, test_fraction, seed)
    images = read_pictures([paths[i] for i in positions], grey=grey, size=size)
    return RawImages(images, np.asarray(labels, dtype=np.int64)[positions], classes)


def _drawn(
    root: Path,
    labels: np.ndarray[tuple[int], np.dtype[np.int64]],
    split: str,
    held: float,
    seed: int,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    probability("test_fraction", held)
    rng = np.random.default_rng(at_least("seed", seed, 0))
    # Each split gets at least one image where there are two.
    kept = max(1, min(round(len(labels) * (1 - held)), len(labels) - 1))
    train, test = stratified(labels, kept, rng)
    part = train if split == "train" else test
    if not len(part):
        raise ValueError(f"{root} has too few images for a {split} split of its own: add some")
    return part


_PNGGREY, _PNG_COLOUR = 0, 2  # the format's colour types


def png(pixels: NDArray[Any]) -> bytes:
    """Returns one image as the content of a PNG file.

    Args:
      pixels: (c, h, w) in [0, 1], clipped otherwise: NaN is black. With three channels it is a
        colour image; with another number the channels stand side by side, in grey.
    """
    scaled = np.rint(np.clip(np.nan_to_num(pixels, posinf=1.0), 0, 1) * 255).astype(np.uint8)
    if len(scaled) == 3:
        kind, rows = _PNG_COLOUR, scaled.transpose(1, 2, 0)
    else:
        kind, rows = _PNGGREY, np.concatenate(list(scaled), axis=1)[..., None]
    height, width = rows.shape[:2]
    # Each line begins with its filter: 0, none.
    lines = np.concatenate(
        [np.zeros((height, 1), np.uint8), rows.reshape(height, -1)], axis=1
    ).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)
