"""Protected loaders: torch's own, serving noisy copies and counting before they do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from recondite.channels.protected import Protected, ProtectedDataset

__all__ = ["ProtectedLoader", "protected_loader"]


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
