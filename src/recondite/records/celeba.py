"""CelebA: aligned faces with one of their 40 attributes as the label.

Tan et al., "Defending against data reconstruction attacks in federated learning" (2024), resize it
to 32x32. Assumptions, because they do not say: the label is the attribute "Smiling", which divides
the images nearly in half, and the resizing ignores the proportions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recondite.records.archives import extract
from recondite.records.arrays import RawImages
from recondite.records.directories import find_file
from recondite.records.image_files import read_pictures

__all__ = ["count_celeba", "read_celeba"]

_PUBLISHED = 202_599
_PARTS = {"train": "0", "test": "2"}  # 1 is for validation
_ATTRIBUTES = "list_attr_celeba.txt"
_PARTITION = "list_eval_partition.txt"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _attribute(path: Path, attribute: str) -> dict[str, int]:
    """Returns 0 or 1 for each image."""
    lines = _lines(path)
    if len(lines) < 3 or not lines[0].strip().isdigit():
        raise ValueError(f"{path} must start with the number of images and the attributes' names")
    names = lines[1].split()
    if attribute not in names:
        raise ValueError(f"attribute must be one of {', '.join(names)}, got {attribute!r}")
    column = names.index(attribute) + 1
    found: dict[str, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != len(names) + 1 or fields[column] not in ("-1", "1"):
            raise ValueError(f"{path}, line {number}: must have an image and {len(names)} of ±1")
        found[fields[0]] = int(fields[column] == "1")
    if len(found) != int(lines[0]):
        raise ValueError(f"{path} announces {int(lines[0]):,} images but lists {len(found):,}")
    return found


def _members(folder: Path, split: str) -> list[str]:
    path = find_file(folder, _PARTITION)
    rows = [line.split() for line in _lines(path)]
    if any(len(row) not in (0, 2) for row in rows):
        raise ValueError(f"{path} must have an image and its part (0, 1 or 2) on each line")
    names = [row[0] for row in rows if row and row[1] == _PARTS[split]]
    if not names:
        raise ValueError(f"{path} lists no image of the {split} split")
    outside = next((name for name in names if Path(name).name != name), None)
    if outside is not None:
        raise ValueError(f"{path} names {outside!r}, which is not the name of a file")
    return names


def read_celeba(
    folder: Path,
    split: str,
    verify: bool,
    *,
    attribute: str = "Smiling",
    size: int | None = 32,
) -> RawImages:
    """Reads one split of the published partition; its number of images is checked."""
    labels = _attribute(find_file(folder, _ATTRIBUTES), attribute)
    if verify and len(labels) != _PUBLISHED:
        raise ValueError(
            f"{folder / _ATTRIBUTES} lists {len(labels):,} images, published {_PUBLISHED:,}: "
            "get it again, or pass verify=False for files of your own"
        )
    names = _members(folder, split)
    unknown = next((name for name in names if name not in labels), None)
    if unknown is not None:
        raise ValueError(f"{folder / _ATTRIBUTES} has no line for {unknown}")
    pictures = folder / "img_align_celeba"
    if not pictures.is_dir():
        extract(find_file(folder, "img_align_celeba.zip"), pictures)
    images = read_pictures([find_file(pictures, name) for name in names], size=size)
    values = np.asarray([labels[name] for name in names], dtype=np.int64)
    return RawImages(images, values, (f"not {attribute}", attribute))


def count_celeba(folder: Path, split: str) -> int:
    """Tells how many images a split has."""
    return len(_members(folder, split))
