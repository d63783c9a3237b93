"""Protected records: what data sets and loaders that serve noisy copies have in common."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from recondite.channels._items import (
    Batch,
    Collate,
    Columns,
    FeaturesPlace,
    empty_like,
    is_tensor,
    rows_at,
)
from recondite.channels.ledger import Counted, RecordLedger

__all__ = ["Augmentation", "Protected", "ProtectedDataset", "in_worker"]

Augmentation = Callable[[Any], Any]

_CHUNK = 1 << 18  # entries read at a time: they stay in the cache of a CPU
_LABELS = (
    "not protected: the noise is on the features only, and secret labels add at most "
    "ln(number of classes) nats a record"
)


class Protected(ABC):
    """What protected data sets and protected loaders tell of the uses of their records."""

    @property
    @abstractmethod
    def _protected(self) -> ProtectedDataset:
        """The protected data set."""

    @property
    def ledger(self) -> RecordLedger:
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
            "noise": self._protected.noise,
            "channel": ledger.channel.name,
            "capacity_nats": ledger.channel.capacity_nats,
            "total_information": ledger.total,
            "budget_spent": self.budget_spent,
            "guarantee": self.guarantee and not ledger.simulation,
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
            f"noise={self._protected.noise!r}, uses={ledger.uses})"
        )


class ProtectedDataset(Protected):
    """A map-style data set that serves noisy copies of the records of another.

    Built by :meth:`Channel.protect`.

    Args:
      records: The data set to protect.
      ledger: Its ledger.
      features: Where the features are in a record.
      transform: Applied to noisy features when they are served, or None.
      cached: Whether to keep the features of all records in memory, from the first use on.
    """

    noise: ClassVar[str]

    _guarantee = True
    _note = ""

    def __init__(
        self,
        records: Any,
        ledger: RecordLedger,
        features: FeaturesPlace,
        *,
        transform: Augmentation | None,
        cached: bool,
    ) -> None:
        self._records = records
        self._ledger: RecordLedger | None = ledger
        self._features = features
        self._transform = transform
        self._cached = cached
        self._length = ledger.records
        self._kept: Any = None
        self._rest: list[Any] = []
        self._columns: Columns | None = None
        self._collate: Any = None

    @property
    def _protected(self) -> ProtectedDataset:
        return self

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._served(self._admitted([index]))[0]

    def __getitems__(self, indices: Iterable[Any]) -> Any:
        """Returns several records at once, as the fetcher of torch's loaders asks for them."""
        wanted = [*indices]
        places = self._admitted(wanted)
        self.prepare()
        # Only our own loader knows what to do with a batch, and only it marks its indices.
        ours = all(isinstance(index, Counted) for index in wanted[:1])
        if not ours or self._collate is None or self._kept is None or not places:
            return self._served(places)
        rows = np.array(places, dtype=np.int64)
        noisy = self._noised(rows_at(self._kept, rows), places)
        batch = noisy if is_tensor(noisy) else self._collate([noisy])[0]
        if self._features.place is None:
            return Batch(batch)
        if self._columns is not None:
            return Batch(self._features.put(self._columns.at(rows), batch))
        rest = self._collate([self._rest[place] for place in places])
        return Batch(self._features.put(rest, batch))

    def prepare(self) -> None:
        """Reads all records, where their features are to be kept; from then on none is touched.

        A worker that was given none reads them one by one: it would keep all for itself.
        """
        if not self._cached or self._kept is not None or in_worker():
            return
        step = max(1, _CHUNK // self.ledger.channel.dim)
        rest: list[Any] = []
        kept: Any = None
        for start in range(0, self._length, step):
            places = list(range(start, min(start + step, self._length)))
            items = [self._records[place] for place in places]
            features = self._features_of(places, items, together=True)
            # A number in their place, for it has to be collated with the rest.
            rest += [self._features.put(item, 0) for item in items]
            if kept is None:
                kept = empty_like(features, (self._length, *features.shape[1:]))
            kept[start : start + len(places)] = features
        self._rest, self._kept = rest, kept
        if self._collate is not None and self._features.place is not None:
            self._columns = Columns.of(rest, self._collate)
        self._forget()

    def collate_with(self, collate: Any) -> Any:
        """Has a loader's batches made from kept features at once; returns its collation for that.

        Args:
          collate: What the loader collates with: torch's default, which only stacks.
        """
        if self._transform is not None:
            return collate
        self._collate = collate
        return Collate(collate)

    @abstractmethod
    def admit(self, indices: list[Any]) -> list[Any] | None:
        """Returns indices that may be served, their use counted; None if the budget forbids."""

    @abstractmethod
    def _admitted(self, indices: list[Any]) -> list[Any]:
        """Returns the places of indices, admitted if they are not yet."""

    @abstractmethod
    def _features_of(self, places: list[int], items: list[Any], *, together: bool) -> Any:
        """Returns the features to keep of some records, as one new array or tensor."""

    def _noised(self, features: Any, places: list[Any]) -> Any:
        """Returns features as they are served."""
        return features

    def _forget(self) -> None:
        """Lets go of what is not needed once features are kept."""
        self._records = None

    def _fetched(self, places: list[Any]) -> tuple[list[Any], Any]:
        if self._kept is not None:
            items = [self._rest[place] for place in places]
            kept = rows_at(self._kept, np.array(places, dtype=np.int64))
            return items, self._noised(kept, places)
        items = [self._records[int(place)] for place in places]
        return items, self._noised(self._features_of(places, items, together=False), places)

    def _served(self, places: list[Any]) -> list[Any]:
        if not places:
            return []
        self.prepare()
        items, noisy = self._fetched(places)
        values = list(noisy)
        if self._transform is not None:
            values = [self._transform(value) for value in values]
        return [self._features.put(item, value) for item, value in zip(items, values, strict=True)]

    def __getstate__(self) -> dict[str, Any]:
        # What a worker gets: the ledger stays where it counts.
        return {**self.__dict__, "_ledger": None}


def in_worker() -> bool:
    """Tells whether this process is a worker of one of torch's loaders."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
