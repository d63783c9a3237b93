"""CIFAR-10 and CIFAR-100 in their binary form: label bytes, then 3,072 planar RGB bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recondite._validate import choice
from recondite.records.arrays import RawImages, check_md5, check_size
from recondite.records.files import find_file

__all__ = ["count_cifar10", "count_cifar100", "read_cifar10", "read_cifar100"]

_PIXELS = 3 * 32 * 32
_CIFAR10 = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_CIFAR10_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_CIFAR100_RECORDS = {"train": 50_000, "test": 10_000}


def _rows(
    path: Path, labels: int, content: bytes
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    width = labels + _PIXELS
    if not content or len(content) % width:
        raise ValueError(
            f"{path} has {len(content):,} bytes, not a whole number of {width:,}-byte records: "
            "get it again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, width)


def _records(
    path: Path,
    rows: np.ndarray[tuple[int, int], np.dtype[np.uint8]],
    column: int,
    names: tuple[str, ...],
) -> RawImages:
    labels = rows[:, column].astype(np.int64)
    if labels.max() >= len(names):
        raise ValueError(f"{path} has the label {labels.max()}, of {len(names)} classes")
    images = rows[:, rows.shape[1] - _PIXELS :].reshape(-1, 3, 32, 32)
    return RawImages(images, labels, names)


def read_cifar10(folder: Path, split: str, verify: bool) -> RawImages:
    """Reads the batches of one split."""
    parts = []
    for name in _CIFAR10[split]:
        path = find_file(folder, name)
        content = path.read_bytes()
        rows = _rows(path, 1, content)
        if verify:
            check_md5(path, content, _CIFAR10_MD5[name])
        parts.append(_records(path, rows, 0, _CIFAR10_CLASSES))
    images = np.concatenate([part.images for part in parts])
    return RawImages(images, np.concatenate([part.labels for part in parts]), _CIFAR10_CLASSES)


def count_cifar10(folder: Path, split: str) -> int:
    """Tells how many images a split has, from the sizes of its files."""
    sizes = (find_file(folder, name).stat().st_size for name in _CIFAR10[split])
    return sum(size // (1 + _PIXELS) for size in sizes)


def read_cifar100(folder: Path, split: str, verify: bool, *, labels: str = "fine") -> RawImages:
    """Reads one split with its 100 fine labels, or its 20 coarse ones.

    The published sizes are checked, not checksums.
    """
    choice("labels", labels, ("fine", "coarse"))
    path = find_file(folder, f"{split}.bin")
    content = path.read_bytes()
    rows = _rows(path, 2, content)
    if verify:
        check_size(path, len(content), _CIFAR100_RECORDS[split] * (2 + _PIXELS))
    count = 100 if labels == "fine" else 20
    names = _names(folder / f"{labels}_label_names.txt", count)
    return _records(path, rows, 1 if labels == "fine" else 0, names)


def _names(path: Path, count: int) -> tuple[str, ...]:
    if not path.is_file():
        return tuple(str(number) for number in range(count))
    names = tuple(path.read_text(encoding="utf-8").split())
    if len(names) != count:
        raise ValueError(f"{path} should name {count} classes but names {len(names)}")
    return names


def count_cifar100(folder: Path, split: str) -> int:
    """Tells how many images a split has, from the size of its file."""
    return find_file(folder, f"{split}.bin").stat().st_size // (2 + _PIXELS)
