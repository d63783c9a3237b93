"""What every reader returns, and what every reader of files needs: arrays, not tensors."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RawImages", "check_md5", "check_size", "needed", "stratified"]


@dataclass(frozen=True, eq=False)
class RawImages:
    """Images and labels as they lie in the files.

    Attributes:
      images: (n, c, h, w), uint8 in 0..255 or float32 in [0, 1].
      labels: (n,), int64, positions in ``classes``.
      classes: The name of each class.
    """

    images: NDArray[Any]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def followed_by(self, other: RawImages) -> RawImages:
        """Returns these records, then the others."""
        return RawImages(
            np.concatenate([self.images, other.images]),
            np.concatenate([self.labels, other.labels]),
            self.classes,
        )


def check_md5(path: Path, content: bytes | bytearray, expected: str) -> None:
    """Refuses content that is not what was published."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the published file (MD5 of its content {found}, published {expected}): "
            "get it again, or pass verify=False for a file of your own"
        )


def check_size(path: Path, size: int, expected: int) -> None:
    """Refuses a file whose size is not the published one."""
    if size != expected:
        raise ValueError(
            f"{path} is not the published file ({size:,} bytes, published {expected:,}): "
            "get it again, or pass verify=False for a file of your own"
        )


def needed(module: str, package: str) -> Any:
    """Imports an optional module, or says which package to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{package} is needed here: pip install {package}") from error


def stratified(
    labels: NDArray[np.int64], train: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Splits positions so that every class keeps its share in both parts.

    Args:
      labels: The class of each record.
      train: How many records the first part gets in all.
      rng: Decides which.

    Returns:
      The positions of the two parts, each in ascending order.
    """
    kinds, counts = np.unique(labels, return_counts=True)
    exact = counts * (train / len(labels))
    share = np.floor(exact + 1e-9).astype(np.int64)
    # The records that whole shares leave over go to the largest remainders, ties by lot.
    order = np.lexsort((rng.permutation(len(kinds)), share - exact))
    share[order[: train - int(share.sum())]] += 1
    first = [
        rng.permutation(np.flatnonzero(labels == kind))[:quota]
        for kind, quota in zip(kinds, share, strict=True)
    ]
    chosen = np.zeros(len(labels), dtype=bool)
    chosen[np.concatenate(first)] = True
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)
