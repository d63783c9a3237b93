"""A person's own folder of images: one subfolder a class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recondite._validate import at_least, probability
from recondite.records.arrays import RawImages, stratified
from recondite.records.image_files import is_picture, read_header, read_pictures

__all__ = ["read_folder"]


def _listing(root: Path) -> tuple[list[Path], list[int], tuple[str, ...]]:
    """Returns the pictures, their labels and the classes, in the order of their names."""
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    paths: list[Path] = []
    labels: list[int] = []
    classes: list[str] = []
    for folder in folders:
        found = sorted(path for path in folder.rglob("*") if is_picture(path) and path.is_file())
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
    alike.

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
    given = (root / "train").is_dir() and (root / "test").is_dir()
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
