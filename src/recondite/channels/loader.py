"""From a channel and a data set or loader to protected records.

Protected loaders are torch's own, serving noisy copies and counting before they do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from recondite import _validate as check
from recondite.channels._items import FeaturesPlace, as_numbers, stacked
from recondite.channels._records import Transform
from recondite.channels.ledger import BudgetSpentError, RecordLedger
from recondite.channels.once import Identity, OnceDataset, OnceNoise
from recondite.channels.per_step import FreshNoise, PerStepDataset
from recondite.channels.protected import Protected, ProtectedDataset
from recondite.channels.secret import NoiseDraw, Secret

if TYPE_CHECKING:
    from recondite.channels.base import Channel

__all__ = ["ProtectedLoader", "protect", "protected_loader"]


class ProtectedLoader(Protected):
    """What a torch ``DataLoader`` gains when it serves protected records.

    A protected loader is of the class of the one it was made from, with the same samplers,
    workers and collation. Uses are counted in this process, when the batch of indices is drawn,
    before any worker sees it; batches that workers fetch ahead count even if nobody takes them.
    """

    dataset: ProtectedDataset

    @property
    def _protected(self) -> ProtectedDataset:
        return self.dataset

    @property
    def _index_sampler(self) -> Any:
        # Where torch's loaders get their indices. Were it ever renamed, indices would arrive
        # uncounted at the data set, which then counts them itself or refuses.
        loader: Any = super()  # the class of the loader it was made from
        return _CountedIndices(loader._index_sampler, self.dataset)

    def __iter__(self) -> Any:
        self.dataset.prepare()
        loader: Any = super()
        return loader.__iter__()


class _CountedIndices:
    """The sampler of a loader, batches or single indices, that stops when the budget is spent."""

    def __init__(self, sampler: Any, dataset: ProtectedDataset) -> None:
        self._sampler = sampler
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        for drawn in self._sampler:
            single = hasattr(drawn, "__index__") and not getattr(drawn, "shape", ())
            counted = self._dataset.admit([drawn] if single else [*drawn])
            if counted is None:
                return
            yield counted[0] if single else counted


def protected_loader(loader: Any, dataset: ProtectedDataset) -> Any:
    """Returns a loader of the same class and settings over protected records."""
    kind = type(loader)
    made: Any = object.__new__(type(f"Protected{kind.__name__}", (ProtectedLoader, kind), {}))
    # torch forbids setting the data set of a loader, for its samplers might not fit another.
    # These records have the same numbers.
    made.__dict__.update(loader.__dict__, dataset=dataset, _iterator=None)
    if loader.collate_fn is sys.modules["torch.utils.data"].default_collate:
        made.collate_fn = dataset.collate_with(loader.collate_fn)
    return made


_CACHE_BYTES = 1 << 30


def protect(
    channel: Channel,
    data: Any,
    noise: str = "once",
    *,
    secret: Any = None,
    features: Any = None,
    identity: Identity | None = None,
    transform: Transform | None = None,
    cache: bool | None = None,
    total_information: float | None = None,
    ledger: Any = None,
    seed: int | None = None,
) -> Any:
    """Returns protected records; see :meth:`Channel.protect`."""
    check.choice("noise", noise, ("once", "per_step"))
    _check_options(noise, secret=secret, identity=identity, seed=seed)
    records = _dataset_of(data)
    first = records[0]
    place = FeaturesPlace.of(first, features)
    size = as_numbers(place.get(first)).size
    if size != channel.dim:
        raise ValueError(f"records must have {channel.dim} features each, got {size}")
    if total_information is not None and channel.capacity_nats > total_information:
        raise BudgetSpentError(
            f"total_information={total_information:g} is less than the capacity of a single use, "
            f"{channel.capacity_nats:.6g} nats: fit the channel with a smaller capacity"
        )
    _refuse_changing(records, place)
    account = RecordLedger(channel, len(records), total=total_information, path=ledger)
    single = "float64" not in str(stacked([place.get(first)]).dtype)
    protected: ProtectedDataset
    cached = _fits(first, place, len(records)) if cache is None else cache
    parts = (records, account, place)
    if noise == "once":
        key = Secret(secret)
        once = OnceNoise(channel.noise, key, single=single, identity=identity)
        draw = NoiseDraw(once.name, account.law, channel.capacity_nats)
        account.draw(*key.draws, draw)
        key.remember(draw)
        if account.uses > 1:
            warnings.warn(
                f"this is not the first draw for these records: {account.uses} uses are counted "
                "(another secret, or a channel that is not the same to the last bit)",
                stacklevel=3,
            )
        protected = OnceDataset(once, *parts, transform=transform, cached=cached)
    else:
        if seed is not None:
            account.simulate()
        fresh = FreshNoise(channel.noise, single=single, seed=seed)
        protected = PerStepDataset(fresh, *parts, transform=transform, cached=cached)
    return protected if records is data else protected_loader(data, protected)


def _check_options(noise: str, *, secret: Any, identity: Any, seed: Any) -> None:
    if noise == "once" and seed is not None:
        raise ValueError("seed is for per_step noise: once noise repeats with the same secret")
    if noise == "per_step" and not (secret is None and identity is None):
        raise ValueError("secret and identity are for once noise: per_step noise is always fresh")
    if seed is not None:
        check.at_least("seed", seed, 0)


def _dataset_of(data: Any) -> Any:
    """Returns the map-style data set in a loader, or the one given."""
    torch_data = sys.modules.get("torch.utils.data")
    if isinstance(data, Protected):
        raise ValueError("these records are protected already: protect the ones they came from")
    if torch_data is not None and isinstance(data, torch_data.DataLoader):
        if hasattr(data, "state_dict"):
            raise ValueError(
                f"a {type(data).__name__} keeps a state of its own: protect a plain DataLoader"
            )
        data = data.dataset
    iterable = torch_data is not None and isinstance(data, torch_data.IterableDataset)
    if iterable or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise ValueError(
            "data must be a loader or a data set whose records have numbers (map-style), "
            f"got {type(data).__name__}: a stream has no record to bind noise to"
        )
    if len(data) == 0:
        raise ValueError("data holds no records")
    return data


def _refuse_changing(records: Any, place: FeaturesPlace) -> None:
    """Refuses a data set that gives another record at the second reading."""
    for index in {0, len(records) // 2, len(records) - 1}:
        first, second = (as_numbers(place.get(records[index])) for _ in range(2))
        if not np.array_equal(first, second):
            raise ValueError(
                f"record {index} changes from one reading to the next: protect the data set below "
                "its augmentation, and give the augmentation as transform="
            )


def _fits(item: Any, place: FeaturesPlace, count: int) -> bool:
    """Tells whether all features, and what comes with them, take at most 1 GiB."""
    rest = place.put(item, None)
    parts = rest.values() if isinstance(rest, Mapping) else rest or ()
    size = sum(int(getattr(part, "nbytes", 64)) for part in parts)
    return count * (int(stacked([place.get(item)]).nbytes) + size) <= _CACHE_BYTES
