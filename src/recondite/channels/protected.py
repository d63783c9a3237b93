"""Protected records: a data set that serves noisy copies, and the account of their uses."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from recondite.channels._draws import FreshNoise, OnceNoise
from recondite.channels._items import Features
from recondite.channels.ledger import BudgetSpent, Counted, Ledger

__all__ = ["Protected", "ProtectedDataset"]

_CHUNK = 1 << 18  # entries of noise drawn at a time for the cache: they fit a CPU's own
_LABELS = (
    "not protected: the noise is on the features only, and secret labels add at most "
    "ln(number of classes) nats a record"
)


class Protected(ABC):
    """What protected data sets and protected loaders have in common: the ledger's account."""

    @property
    @abstractmethod
    def _protected(self) -> ProtectedDataset:
        """The protected data set."""

    @property
    def ledger(self) -> Ledger:
        """The ledger of uses."""
        ledger = self._protected._ledger
        if ledger is None:
            raise ValueError("a copy of a protected data set has no ledger: ask the original")
        return ledger

    @property
    def uses(self) -> int:
        """Uses of the record that was used most.

        With `once` noise the number of distinct draws, however often they are served; with
        `per_step` noise the number of times it was served.
        """
        return self.ledger.uses

    @property
    def budget_spent(self) -> bool:
        """Whether serving stopped because ``total_information`` would have been exceeded."""
        return self.ledger.message is not None

    @property
    def guarantee(self) -> bool:
        """Whether the noise protects: not if it follows from a seed."""
        return self._protected._guarantee

    @property
    def note(self) -> str:
        """Where the noise comes from, in one line."""
        return self._protected._note

    def information(self) -> dict[str, Any]:
        """Returns what the uses so far tell of the records, in nats, ready for JSON.

        ``per_record`` bounds the mutual information of the features of the record that was used
        most with all its noisy copies; the same ``per_dimension``, and divided by the logarithm
        of the number of records (``against_log_records``: from 1 on it could single a record
        out). ``data_set`` bounds that of all records together.
        """
        ledger = self.ledger
        nats = ledger.nats
        return {
            "per_record": nats,
            "per_dimension": nats / ledger.channel.dim,
            "against_log_records": nats / math.log(ledger.records) if ledger.records > 1 else None,
            "data_set": nats * ledger.records,
            "uses": ledger.uses,
            "records": ledger.records,
            "noise": self._protected._mode,
            "channel": ledger.channel.name,
            "capacity_nats": ledger.channel.capacity_nats,
            "total_information": ledger.total,
            "budget_spent": self.budget_spent,
            "guarantee": self.guarantee,
            "note": self.note,
            "labels": _LABELS,
            "limits": list(ledger.channel.limits),
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns the ledger for a checkpoint; it holds no secret and no noise."""
        return self.ledger.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Adds the uses in a checkpoint to those counted here; none is counted twice."""
        self.ledger.load_state_dict(state)

    def __repr__(self) -> str:
        ledger = self.ledger
        return (
            f"{type(self).__name__}(records={ledger.records}, channel={ledger.channel.name!r}, "
            f"noise={self._protected._mode!r}, uses={ledger.uses})"
        )


class ProtectedDataset(Protected):
    """A map-style data set that serves noisy copies of the records of another.

    Built by :meth:`Channel.protect`. With ``noise="per_step"`` every access is a use: it is
    counted here, or by a protected loader before it hands the index to its workers.
    """

    def __init__(
        self,
        records: Any,
        ledger: Ledger,
        source: OnceNoise | FreshNoise,
        features: Features,
        *,
        transform: Callable[[Any], Any] | None,
        cached: bool,
        seeded: bool,
        note: str,
    ) -> None:
        self._records = records
        self._ledger: Ledger | None = ledger
        self._source: OnceNoise | FreshNoise | None = source
        self._features = features
        self._transform = transform
        self._cached = cached
        self._guarantee = not seeded
        self._note = note
        self._mode = "once" if isinstance(source, OnceNoise) else "per_step"
        self._length = ledger.records
        self._cache: Any = None
        self._rest: list[Any] = []

    @property
    def _protected(self) -> ProtectedDataset:
        return self

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[Any]) -> list[Any]:
        """Returns several records at once, as the fetcher of torch's loaders asks for them."""
        places = [self._place(index) for index in indices]
        if self._mode == "per_step":
            places = self._count(places)
        elif self._ledger is not None and not _in_worker() and not self._ledger.within_budget():
            raise BudgetSpent(self._ledger.message)
        self.prepare()
        if not places:
            return []
        if self._cache is not None:
            items = [self._rest[place] for place in places]
            noisy = [self._cache[place] for place in places]
        else:
            items = [self._records[int(place)] for place in places]
            noisy = self._noised(places, items)
        if self._transform is not None:
            # A copy, lest a transform that works in place changes the noisy record for good.
            noisy = [self._transform(value + 0) for value in noisy]
        return [self._features.put(item, value) for item, value in zip(items, noisy, strict=True)]

    def prepare(self) -> None:
        """Draws all `once` noise and keeps the noisy copies, where they are to be kept.

        From then on the raw records are not touched. In a worker there is nothing to gain.
        """
        if not self._cached or self._cache is not None or _in_worker():
            return
        assert isinstance(self._source, OnceNoise)
        dim = self.ledger.channel.dim
        step = max(1, _CHUNK // dim)
        rest: list[Any] = []
        cache: Any = None
        for start in range(0, self._length, step):
            places = list(range(start, min(start + step, self._length)))
            items = [self._records[place] for place in places]
            noisy = self._source.added(places, items, [self._features.get(i) for i in items])
            rest += [self._features.put(item, None) for item in items]
            if cache is None:
                whole = (self._length, *noisy.shape[1:])
                cache = noisy if len(noisy) == self._length else _empty_like(noisy, whole)
            cache[start : start + len(places)] = noisy
        self._rest, self._cache = rest, cache
        self._records = self._source = None

    def _noised(self, places: list[int], items: list[Any]) -> list[Any]:
        values = [self._features.get(item) for item in items]
        if isinstance(self._source, FreshNoise):
            first = places[0]
            before = first.served_before if isinstance(first, Counted) else 0
            return list(self._source.added(values, before))
        assert self._source is not None
        # One by one: a matrix product rounds differently for batches of different sizes.
        parts = zip(places, items, values, strict=True)
        return [self._source.added([int(p)], [item], [value])[0] for p, item, value in parts]

    def _place(self, index: Any) -> int:
        if isinstance(index, Counted):
            return index
        try:
            number = index.__index__()
        except AttributeError:
            raise ValueError(f"records are found by number, got {index!r}") from None
        if not -self._length <= number < self._length:
            raise IndexError(f"index {number} is out of range for {self._length} records")
        return int(number % self._length)

    def _count(self, places: list[int]) -> list[int]:
        if all(isinstance(place, Counted) for place in places):
            return places
        if self._ledger is None or _in_worker():
            raise ValueError(
                "per_step noise cannot be counted in a worker: protect the loader, not its data set"
            )
        counted = self._ledger.serve(places)
        if counted is None:
            raise BudgetSpent(self._ledger.message)
        return [*counted]

    def __getstate__(self) -> dict[str, Any]:
        # What a worker gets: the ledger stays at home, and what is cached needs no secret.
        return {**self.__dict__, "_ledger": None}


def _in_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _empty_like(batch: Any, shape: tuple[int, ...]) -> Any:
    if hasattr(batch, "new_empty"):
        return batch.new_empty(shape)
    return np.empty(shape, dtype=batch.dtype)
