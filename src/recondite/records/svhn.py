"""SVHN, cropped digits: the .mat files, read with SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recondite.records.arrays import RawImages, check_size
from recondite.records.directories import find_file
from recondite.records.idx import DIGITS

__all__ = ["count_svhn", "read_svhn"]

_BYTES = {"train": 182_040_794, "test": 64_275_384}


def _file(folder: Path, split: str) -> Path:
    return find_file(folder, f"{split}_32x32.mat")


def _scipy(path: Path, function: str, **options: Any) -> Any:
    import scipy.io  # slow, and only here

    try:
        return getattr(scipy.io, function)(path, **options)
    except Exception as error:  # SciPy raises whatever it stumbles over in a damaged file
        raise ValueError(f"{path} is not a MATLAB 5 file that can be read: {error}") from error


def read_svhn(folder: Path, split: str, verify: bool) -> RawImages:
    """Reads one split; the files call the digit 0 ten. The published sizes are checked."""
    path = _file(folder, split)
    if verify:
        check_size(path, path.stat().st_size, _BYTES[split])
    content = _scipy(path, "loadmat", variable_names=("X", "y"))
    if "X" not in content or "y" not in content:
        raise ValueError(f"{path} must hold the arrays X and y")
    images, labels = np.asarray(content["X"]), np.asarray(content["y"]).reshape(-1)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise ValueError(f"{path}: X must hold bytes, (h, w, 3, n), got {images.shape}")
    if labels.dtype.kind not in "iuf" or len(labels) != images.shape[3]:
        raise ValueError(f"{path}: y must hold one label for each of {images.shape[3]} images")
    if not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{path}: y must hold labels from 1 to 10")
    return RawImages(
        np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.astype(np.int64) % 10, DIGITS
    )


def count_svhn(folder: Path, split: str) -> int:
    """Tells how many images a split has, from the headers of its file."""
    path = _file(folder, split)
    shapes = {name: shape for name, shape, _ in _scipy(path, "whosmat")}
    if "X" not in shapes or len(shapes["X"]) != 4:
        raise ValueError(f"{path} must hold the arrays X and y")
    return int(shapes["X"][3])
