"""Pairs of batches that differ in few records, and records that are likely to show something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

__all__ = ["BatchPair", "among", "groups", "singles", "small", "unusual"]

Batch = tuple[Any, ...]

# A record far outside the data is clipped, if the model is wrong about it; one a little outside is
# clipped with any label; one near zero hardly moves a sum.
_FACTORS, _SMALL = (100.0, -100.0, 3.0), 1e-3
_OWN, _LABELS, _LOOKED_AT = 3, 4, 64
_REPLACING = 12
_BASE = 4


@dataclass(frozen=True)
class BatchPair:
    """Two batches. Those of several pairs may be the same objects: they are then tried once.

    Attributes:
      first: The one with more, or other, records.
      second: The other.
      distance: Records to add and to remove to get from one to the other.
      replaced: Whether one has as many records as the other.
      what: In words.
    """

    first: Batch
    second: Batch
    distance: int
    replaced: bool
    what: str


def unusual(records: Sequence[Any], canaries: Sequence[Any] = ()) -> list[Any]:
    """Records to try: the given ones, then the data's own, enlarged, turned and relabelled.

    Only pairs of a floating-point input and something else are enlarged; others stay as they are.
    """
    looked = [records[i] for i in range(min(len(records), _LOOKED_AT))]
    labels = {repr(parts[-1]): record for record in looked if (parts := _parts(record))}
    others = list(labels.values())[:_LABELS]
    factors = _FACTORS if _scaled(looked[0], 2.0) is not looked[0] else (1.0,)
    found = list(canaries)
    for record in looked[:_OWN]:
        turned = [_scaled(record, factor) for factor in factors]
        found += [_relabelled(one, other) for other in others for one in turned] or turned
    return found + looked[: 2 * _OWN]


def small(records: Sequence[Any]) -> Any:
    """A record that weighs little, where it can be made smaller."""
    return _scaled(records[0], _SMALL)


def groups(
    records: Sequence[Any], tried: Sequence[Any], size: int, *, replaced: bool
) -> list[BatchPair]:
    """A few ordinary records, with and without ``size`` copies of another one.

    Copies move a sum further than noise does; one of them by at least their mean.
    """
    base: Batch = tuple(records[i] for i in range(min(_BASE, len(records))))
    made: list[Batch] = [(*base, *(record,) * size) for record in tried]
    if not replaced:
        return [
            BatchPair(batch, base, size, False, f"{size} copies of one record") for batch in made
        ]
    what = f"{size} copies of one record replaced"
    both = combinations(made[:_REPLACING], 2)
    return [BatchPair(one, other, 2 * size, True, what) for one, other in both]


def singles(
    tried: Sequence[Any], padding: Batch, *, replaced: bool, empty: bool
) -> list[BatchPair]:
    """One record beside none, beside one that weighs little, and in place of another.

    Args:
      tried: The records.
      padding: Records that weigh little, as many as a batch needs to have.
      replaced: Whether records are replaced only, never added or removed.
      empty: Whether a batch may be empty.
    """
    made: list[Batch] = [(*padding[1:], record) for record in tried]
    found = [
        BatchPair(one, other, 2, True, "one record in place of another")
        for one, other in combinations(made, 2)
    ]
    if replaced:
        return found
    beside: list[Batch] = [(*padding, record) for record in tried]
    found += [
        BatchPair(batch, padding, 1, False, "one record beside a small one") for batch in beside
    ]
    none: Batch = ()
    if empty:
        found += [BatchPair(batch, none, 1, False, "one record beside none") for batch in made]
    return found


def among(tried: Sequence[Any], others: Batch, *, replaced: bool) -> list[BatchPair]:
    """One record beside many ordinary ones, whose gradients it must leave alone.

    A loss that compares records, or a batch that is scaled by its own mean, moves all of them.

    Args:
      tried: The records.
      others: The ordinary ones.
      replaced: Whether records are replaced only, never added or removed.
    """
    made: list[Batch] = [(*others, record) for record in tried]
    if not replaced:
        return [BatchPair(batch, others, 1, False, "one record among others") for batch in made]
    what = "one record among others replaced"
    return [BatchPair(one, other, 2, True, what) for one, other in combinations(made, 2)]


def _floating(value: Any) -> bool:
    return bool(
        value.is_floating_point()
        if hasattr(value, "is_floating_point")
        else isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating)
    )


def _parts(record: Any) -> tuple[Any, ...] | None:
    return tuple(record) if isinstance(record, tuple | list) and len(record) > 1 else None


def _scaled(record: Any, factor: float) -> Any:
    if _floating(record):
        return record * factor
    parts = _parts(record)
    if parts is None or not _floating(parts[0]):
        return record
    return (parts[0] * factor, *parts[1:])


def _relabelled(record: Any, other: Any) -> Any:
    parts, theirs = _parts(record), _parts(other)
    return record if parts is None or theirs is None else (*parts[:-1], theirs[-1])
