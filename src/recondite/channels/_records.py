"""Records in, one float matrix out: arrays, tensors, sequences and datasets, seen in blocks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CentredRecords", "Transform", "is_torch", "load_records"]

FloatArray = NDArray[np.float64]
Transform = Callable[[Any], Any]

_BATCH = 256  # records handed to an encoder at a time
_BLOCK = 1 << 24  # entries of a float64 block: 128 MiB


def is_torch(value: Any) -> bool:
    """Tells whether ``value`` is an object of torch's, without importing torch."""
    return any(kind.__module__.split(".")[0] == "torch" for kind in type(value).__mro__)


def _array(value: Any, name: str) -> NDArray[Any]:
    """Returns a real NumPy array, without a copy where there is one to share."""
    if is_torch(value):
        if not hasattr(value, "detach"):
            raise ValueError(f"{name} must hold tensors or arrays, got {type(value).__name__}")
        tensor = value.detach().cpu()
        # NumPy has no bfloat16; float32 holds every value of it.
        value = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must hold records of equal shape") from error
    if array.dtype.kind not in "iufb":
        raise ValueError(f"{name} must hold real numbers, got {array.dtype}")
    return array


def _record(item: Any) -> Any:
    """Returns the record of an item, which may be a (record, label) pair."""
    if not isinstance(item, tuple):
        return item
    if not item or all(isinstance(part, Number) for part in item):
        raise ValueError(
            "data holds tuples of plain numbers, which could be records or (record, label) pairs: "
            "pass an array instead"
        )
    return item[0]


def _batches(data: Any, size: int) -> Iterator[Any]:
    """Yields batches of at most ``size`` records, in the kind (array or tensor) they came in."""
    if (is_torch(data) and hasattr(data, "detach")) or isinstance(data, np.ndarray):
        for start in range(0, len(data), size):
            yield data[start : start + size]
        return
    for start in range(0, len(data), size):
        items = [_record(data[i]) for i in range(start, min(start + size, len(data)))]
        if is_torch(items[0]) and hasattr(items[0], "detach"):
            import torch  # only where tensors came in

            yield torch.stack(items)
        else:
            try:
                yield np.stack([_array(item, "data") for item in items])
            except ValueError as error:
                raise ValueError("data must hold records of equal shape") from error


def _no_gradients(batch: Any) -> contextlib.AbstractContextManager[Any]:
    if is_torch(batch):
        import torch  # only where tensors came in

        return torch.no_grad()
    return contextlib.nullcontext()


def load_records(data: Any, transform: Transform | None = None) -> NDArray[Any]:
    """Returns ``data`` as an (n, d) array, one flattened record a row.

    Args:
      data: An array or tensor (n, ...); or a sequence or map-style dataset of records or of
        (record, label) tuples.
      transform: An encoder that takes a batch (m, ...) and returns (m, ...), for instance a
        torch module; the result holds its embeddings.
    """
    if not is_torch(data) and not isinstance(data, (list, tuple)) and hasattr(data, "__array__"):
        data = np.asarray(data)
    whole = isinstance(data, np.ndarray) or (is_torch(data) and hasattr(data, "detach"))
    if not whole and not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise ValueError(
            f"data must be an array, a tensor or a dataset with a length, got {type(data).__name__}"
        )
    if whole and data.ndim == 0:
        raise ValueError("data must have one row for each record, got a single number")
    count = len(data)
    if count < 2:
        raise ValueError(f"data must hold at least 2 records for a covariance, got {count}")
    if whole and transform is None:
        return _rows(_array(data, "data"), count)
    out: NDArray[Any] | None = None
    done = 0
    for batch in _batches(data, _BATCH):
        with _no_gradients(batch):
            rows = _array(batch if transform is None else transform(batch), "data")
        if rows.ndim == 0 or len(rows) != len(batch):
            raise ValueError(
                "transform must return one row for each record of the batch it is given"
            )
        rows = _rows(rows, len(batch))
        if out is None:
            narrow = rows.dtype.kind == "f" or rows.dtype.itemsize <= 2
            dtype = np.result_type(rows.dtype, np.float32) if narrow else np.dtype(np.float64)
            out = np.empty((count, rows.shape[1]), dtype=dtype)
        if rows.shape[1] != out.shape[1]:
            raise ValueError("data must hold records of equal shape")
        out[done : done + len(rows)] = rows
        done += len(rows)
    assert out is not None
    return out


def _rows(array: NDArray[Any], count: int) -> NDArray[Any]:
    rows = array.reshape(count, -1)
    if rows.shape[1] == 0:
        raise ValueError("data must hold at least one feature for each record")
    return rows


@dataclass(frozen=True, eq=False)
class CentredRecords:
    """Rows minus their mean, times an optional scale per column: never held as a whole.

    Attributes:
      rows: The (n, d) records in whatever real dtype they came in, not copied.
      mean: Their mean in float64.
      scale: What each centred column is multiplied with, or None for 1.
    """

    rows: NDArray[Any]
    mean: FloatArray
    scale: FloatArray | None = None

    @classmethod
    def of(cls, rows: NDArray[Any]) -> CentredRecords:
        """Returns the centred view of ``rows``; refuses NaN and infinity."""
        with np.errstate(invalid="ignore", over="ignore"):
            mean: FloatArray = np.asarray(np.mean(rows, axis=0, dtype=np.float64))
        # A NaN or an infinity anywhere in a column makes its mean one.
        if not np.isfinite(mean).all():
            raise ValueError("data must be finite, got NaN, infinity or an overflow")
        return cls(rows, mean)

    @property
    def unchanged(self) -> bool:
        """Whether the caller's array still is what it was when it was centred."""
        return bool(np.array_equal(np.mean(self.rows, axis=0, dtype=np.float64), self.mean))

    def rescaled(self, scale: FloatArray) -> CentredRecords:
        """Returns the same records with every centred column multiplied."""
        combined = scale if self.scale is None else self.scale * scale
        return CentredRecords(self.rows, self.mean, combined)

    def by_rows(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yields (rows, block): contiguous float64 blocks of whole records."""
        step = max(1, _BLOCK // self.rows.shape[1])
        for start in range(0, self.rows.shape[0], step):
            part = slice(start, min(start + step, self.rows.shape[0]))
            block = np.subtract(self.rows[part], self.mean, dtype=np.float64)
            yield part, block if self.scale is None else block * self.scale

    def by_columns(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yields (columns, block): contiguous float64 blocks of all records."""
        step = max(1, _BLOCK // self.rows.shape[0])
        for start in range(0, self.rows.shape[1], step):
            part = slice(start, min(start + step, self.rows.shape[1]))
            block = np.subtract(self.rows[:, part], self.mean[part], dtype=np.float64)
            block = block if self.scale is None else block * self.scale[part]
            yield part, np.ascontiguousarray(block)

    def trace(self) -> float:
        """Returns the total variance (n−1 in the denominator)."""
        total = math.fsum(float(np.vdot(block, block)) for _, block in self.by_rows())
        return total / float(self.rows.shape[0] - 1)
