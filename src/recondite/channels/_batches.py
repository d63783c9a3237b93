"""Batches that a protected data set makes itself, because it holds all features in one piece."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite.channels._items import is_tensor, rows_at

__all__ = ["Batch", "Collate", "Columns"]


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
