"""Protected records: what data sets and loaders that serve noisy copies have in common."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from recondite.channels._items import Features, is_tensor
from recondite.channels.ledger import Ledger

__all__ = ["Protected", "ProtectedDataset", "add_noise", "in_worker"]

Augmentation = Callable[[Any], Any]

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
            "noise": self._protected.noise,
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
    """

    noise: ClassVar[str]

    _guarantee = True
    _note = ""

    def __init__(
        self, records: Any, ledger: Ledger, features: Features, transform: Augmentation | None
    ) -> None:
        self._records = records
        self._ledger: Ledger | None = ledger
        self._features = features
        self._transform = transform
        self._length = ledger.records

    @property
    def _protected(self) -> ProtectedDataset:
        return self

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._serve([index])[0]

    def __getitems__(self, indices: Iterable[Any]) -> Any:
        """Returns several records at once, as the fetcher of torch's loaders asks for them."""
        return self._serve([*indices])

    def prepare(self) -> None:
        """Does what should be done once, before workers start."""
        return

    @abstractmethod
    def admit(self, indices: list[Any]) -> list[Any] | None:
        """Returns indices that may be served, their use counted; None if the budget forbids."""

    @abstractmethod
    def _serve(self, indices: list[Any]) -> list[Any]:
        """Returns noisy copies of records."""

    def _finished(self, items: list[Any], noisy: Iterable[Any]) -> list[Any]:
        """Returns items with noisy features, transformed, in the place of their own."""
        if self._transform is not None:
            # A copy, lest a transform that works in place changes a noisy record that is kept.
            noisy = [self._transform(value + 0) for value in noisy]
        return [self._features.put(item, value) for item, value in zip(items, noisy, strict=True)]

    def __getstate__(self) -> dict[str, Any]:
        # What a worker gets: the ledger stays where it counts.
        return {**self.__dict__, "_ledger": None}


def add_noise(batch: Any, noise: NDArray[Any]) -> Any:
    """Adds noise (n, d) to n records in place, rounded to their precision first."""
    shape = tuple(batch.shape)
    if math.prod(shape[1:]) != noise.shape[1]:
        raise ValueError(f"records must have {noise.shape[1]} features each, got {shape[1:]}")
    if is_tensor(batch):
        import torch  # noqa: PLC0415  (only where tensors came in)

        batch += torch.from_numpy(np.ascontiguousarray(noise)).reshape(shape).to(batch)
    else:
        batch += noise.reshape(shape).astype(batch.dtype, copy=False)
    return batch


def in_worker() -> bool:
    """Tells whether this process is a worker of one of torch's loaders."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None
