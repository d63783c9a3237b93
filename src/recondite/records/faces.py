"""Faces: CelebA with one of its 40 attributes as the label, and Labeled Faces in the Wild.

Tan et al., "Defending against data reconstruction attacks in federated learning" (2024), resize
CelebA to 32x32. Assumptions, because they do not say: the label is the attribute "Smiling", which
divides the images nearly in half, and the resizing ignores the proportions.

Of LFW, Faustini et al., "Applying directional noise to deep learning", keep the 106 people with at
least 14 images, draw 14 of each at random (1,484 images) and split them into 1,113 and 371. They
call that 80% and 20%; it is 75% and 25%, and the counts are kept here. They count 3,737 images
before drawing; the 106 people have 3,735. Assumptions, because the papers do not say: the split is
stratified (10 or 11 training images a person) and images are resized to 32x32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recondite._validate import at_least
from recondite.records.arrays import RawImages, stratified
from recondite.records.files import extract, find_file
from recondite.records.image_files import is_picture, read_pictures

__all__ = ["count_celeba", "count_lfw", "read_celeba", "read_lfw"]

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


_PEOPLE = 106


def _people(folder: Path, minimum: int) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for person in sorted(path for path in folder.iterdir() if path.is_dir()):
        pictures = sorted(path for path in person.iterdir() if is_picture(path))
        if len(pictures) >= minimum:
            found[person.name] = pictures
    return found


def read_lfw(
    folder: Path,
    split: str,
    verify: bool,
    *,
    per_person: int = 14,
    size: int | None = 32,
    seed: int = 0,
) -> RawImages:
    """Reads one split of the undersampled faces.

    Args:
      folder: One subfolder a person.
      split: "train" (three quarters) or "test".
      verify: Refuses a folder that does not have 106 people with 14 images.
      per_person: The images drawn of each person who has as many.
      size: Resizes to size x size, or None to keep the size of the files.
      seed: Of the draw and of the split; both splits must be read with the same one.
    """
    at_least("per_person", per_person, 2)
    people = _people(folder, per_person)
    if not people:
        raise ValueError(f"{folder} has nobody with at least {per_person} images")
    if verify and per_person == 14 and len(people) != _PEOPLE:
        raise ValueError(
            f"{folder} has {len(people)} people with at least 14 images, published {_PEOPLE}: get "
            "it again, or pass verify=False for a folder of your own"
        )
    rng = np.random.default_rng(at_least("seed", seed, 0))
    paths: list[Path] = []
    for pictures in people.values():
        drawn = rng.choice(len(pictures), size=per_person, replace=False)
        paths += [pictures[index] for index in np.sort(drawn)]
    labels = np.repeat(np.arange(len(people)), per_person)
    train, test = stratified(labels, len(labels) * 3 // 4, rng)
    part = train if split == "train" else test
    images = read_pictures([paths[index] for index in part], size=size)
    return RawImages(images, labels[part], tuple(name.replace("_", " ") for name in people))


def count_lfw(folder: Path, split: str) -> int:
    """Tells how many images a split of the papers' protocol has."""
    total = 14 * len(_people(folder, 14))
    train = total * 3 // 4
    return train if split == "train" else total - train
