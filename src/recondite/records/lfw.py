"""Labeled Faces in the Wild, as the directional-privacy papers use it.

Faustini et al., "Applying directional noise to deep learning", keep the 106 people with at least
14 images, draw 14 of each at random (1,484 images) and split them into 1,113 and 371. They call
that 80% and 20%; it is 75% and 25%, and the counts are kept here. They count 3,737 images before
drawing; the 106 people have 3,735.

Assumptions, because the papers do not say: the split is stratified (10 or 11 training images a
person) and images are resized to 32x32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recondite._validate import at_least
from recondite.records.arrays import RawImages, stratified
from recondite.records.image_files import is_picture, read_pictures

__all__ = ["count_lfw", "read_lfw"]

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
