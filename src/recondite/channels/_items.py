"""Where the features are in what a data set returns: taking them out, putting noisy ones back."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.channels._records import is_torch

__all__ = [
    "Batch",
    "Collate",
    "Columns",
    "FeaturesPlace",
    "add_noise",
    "as_numbers",
    "empty_like",
    "is_tensor",
    "place_of",
    "rows_at",
    "stacked",
]


def is_tensor(value: Any) -> bool:
    """Tells whether ``value`` is a torch tensor, without importing torch."""
    return is_torch(value) and hasattr(value, "detach")


@dataclass(frozen=True)
class FeaturesPlace:
    """The place of the features in an item: a position, a key, or None for the item itself."""

    place: Any = None

    @classmethod
    def of(cls, item: Any, given: Any) -> FeaturesPlace:
        """Returns the place: the one given, or the first part of a tuple, or the item itself."""
        if given is not None:
            place = cls(given)
        elif isinstance(item, Mapping):
            keys = ", ".join(str(key) for key in item)
            raise ValueError(f"features must name the key of the features, one of: {keys}")
        else:
            place = cls(0 if isinstance(item, (tuple, list)) else None)
        place.get(item)
        return place

    def get(self, item: Any) -> Any:
        """Returns the features of an item."""
        try:
            value = item if self.place is None else item[self.place]
        except (KeyError, IndexError, TypeError):
            raise ValueError(
                f"features={self.place!r} is not in a record of type {type(item).__name__}"
            ) from None
        if not (isinstance(value, np.ndarray) or is_tensor(value)):
            raise ValueError(
                "the features of a record must be an array or a tensor, got "
                f"{type(value).__name__}: convert them in the data set"
            )
        return value

    def put(self, item: Any, value: Any) -> Any:
        """Returns the item with other features; the item itself stays as it is."""
        if self.place is None:
            return value
        if isinstance(item, tuple):
            at = range(len(item))[self.place]
            parts = [*item[:at], value, *item[at + 1 :]]
            return item._make(parts) if hasattr(item, "_make") else tuple(parts)
        changed = copy.copy(item)
        changed[self.place] = value
        return changed


def as_numbers(value: Any) -> NDArray[Any]:
    """Returns features, array or tensor, as an array of finite real numbers."""
    if is_tensor(value):
        # The total is quick to take, and finite only if every number is; but it may overflow.
        tensor = value.detach().cpu()
        known_finite = not tensor.is_complex() and math.isfinite(tensor.sum())
        value = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    else:
        known_finite = False
    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise ValueError(f"records must hold real numbers, got {array.dtype}")
    if not known_finite and not np.isfinite(array).all():
        raise ValueError("records must be finite, got NaN or infinity")
    return array


def stacked(values: list[Any]) -> Any:
    """Returns the features of several records as one new array or tensor, of a floating type."""
    if len({(type(value), value.dtype, tuple(value.shape)) for value in values}) > 1:
        raise ValueError("records must be of equal shape and type")
    if is_tensor(values[0]):
        import torch  # only where tensors came in

        batch = torch.stack(values).detach()
        as_numbers(batch)
        return batch if batch.is_floating_point() else batch.to(torch.get_default_dtype())
    array = np.stack(values)
    as_numbers(array)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def place_of(index: Any, count: int) -> int:
    """Returns the number of a record among ``count``, from either end."""
    try:
        number = index.__index__()
    except AttributeError:
        raise ValueError(f"records are found by number, got {index!r}") from None
    if not -count <= number < count:
        raise IndexError(f"index {number} is out of range for {count} records")
    return int(number % count)


def empty_like(batch: Any, shape: tuple[int, ...]) -> Any:
    """Returns a new array or tensor of the kind of ``batch``."""
    return batch.new_empty(shape) if is_tensor(batch) else np.empty(shape, dtype=batch.dtype)


def rows_at(batch: Any, places: NDArray[np.int64]) -> Any:
    """Returns a copy of some rows of an array or tensor."""
    if not is_tensor(batch):
        return batch[places]
    import torch  # only where tensors came in

    return batch.index_select(0, torch.from_numpy(places).to(batch.device))


def add_noise(batch: Any, noise: NDArray[Any]) -> Any:
    """Adds noise (n, d) to n records in place, rounded to their precision first."""
    shape = tuple(batch.shape)
    if math.prod(shape[1:]) != noise.shape[1]:
        raise ValueError(f"records must have {noise.shape[1]} features each, got {shape[1:]}")
    if is_tensor(batch):
        import torch  # only where tensors came in

        batch += torch.from_numpy(np.ascontiguousarray(noise)).reshape(shape).to(batch)
    else:
        batch += noise.reshape(shape).astype(batch.dtype, copy=False)
    return batch


@dataclass(frozen=True)
class Batch:
    """A batch that is collated already."""

    value: Any


@dataclass(frozen=True)
class Collate:
    """Collates records as ``inner`` does, and leaves a batch that is collated as it is."""

    inner: Any

    def __call__(self, records: Any) -> Any:
        """Returns the batch."""
        return records.value if isinstance(records, Batch) else self.inner(records)


@dataclass(frozen=True)
class Columns:
    """All records collated into tensors: rows of them are what collating those records gives."""

    value: Any

    @classmethod
    def of(cls, records: list[Any], collate: Any) -> Columns | None:
        """Returns the columns of records, or None where they are not lists or dicts of tensors."""
        try:
            value = collate(records)
        except (RuntimeError, TypeError):  # parts of different shapes
            return None
        parts = value.values() if type(value) is dict else value
        plain = type(value) in (dict, list) and all(is_tensor(part) for part in parts)
        return cls(value) if plain else None

    def at(self, places: NDArray[np.int64]) -> Any:
        """Returns the batch of these records."""
        if isinstance(self.value, dict):
            return {key: rows_at(part, places) for key, part in self.value.items()}
        return [rows_at(part, places) for part in self.value]
