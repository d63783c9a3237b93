"""MNIST and Fashion-MNIST: the idx format, plain or compressed."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from recondite.records.arrays import RawImages, check_md5
from recondite.records.directories import find_file

__all__ = ["CLOTHES", "DIGITS", "FASHION_MD5", "MNIST_MD5", "count_split", "read_idx", "read_split"]

DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
# Of the decompressed bytes: compressing again changes the file but not the data.
MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
FASHION_MD5 = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
_PREFIX = {"train": "train", "test": "t10k"}
_LARGEST = 2**31  # bytes; a header that claims more is a damaged one
_UINT8 = 8


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if compressed else path.open("rb")


def _header(path: Path, file: BinaryIO) -> tuple[bytes, tuple[int, ...]]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] != _UINT8 or not 1 <= start[3] <= 4:
        raise ValueError(f"{path} is not an idx file of bytes: get it again")
    rest = file.read(4 * start[3])
    if len(rest) < 4 * start[3]:
        raise ValueError(f"{path} ends within its header: get it again")
    return start + rest, struct.unpack(f">{start[3]}I", rest)


def read_idx(path: Path, md5: str | None = None) -> NDArray[np.uint8]:
    """Reads an idx file of unsigned bytes, never more of it than its header announces.

    Args:
      path: The file, plain or compressed with gzip, whatever its name says.
      md5: What the decompressed bytes must hash to, or None not to check.
    """
    try:
        with _open(path) as file:
            header, shape = _header(path, file)
            size = math.prod(shape)
            if size > _LARGEST:
                raise ValueError(f"{path} claims to hold {size:,} bytes: get it again")
            content = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if len(content) != size:
        more = "more" if len(content) > size else f"{len(content):,}"
        raise ValueError(f"{path} should hold {size:,} bytes of data but has {more}: get it again")
    if md5 is not None:
        check_md5(path, header + content, md5)
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _files(folder: Path, split: str) -> tuple[Path, Path]:
    images = f"{_PREFIX[split]}-images-idx3-ubyte"
    labels = f"{_PREFIX[split]}-labels-idx1-ubyte"
    return find_file(folder, f"{images}.gz", images), find_file(folder, f"{labels}.gz", labels)


def read_split(
    folder: Path, split: str, verify: bool, *, md5: dict[str, str], classes: tuple[str, ...]
) -> RawImages:
    """Reads the images and labels of one split."""
    arrays = []
    for path in _files(folder, split):
        arrays.append(read_idx(path, md5[path.name.removesuffix(".gz")] if verify else None))
    images, labels = arrays
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(
            f"the {split} images and labels in {folder} do not belong together: shapes "
            f"{images.shape} and {labels.shape}"
        )
    return RawImages(images[:, None], labels.astype(np.int64), classes)


def count_split(folder: Path, split: str) -> int:
    """Tells how many images a split has, from the header."""
    path = _files(folder, split)[0]
    try:
        with _open(path) as file:
            return _header(path, file)[1][0]
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
