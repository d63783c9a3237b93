"""Whether a data loader's own ``collate_fn`` mixes the records of a batch before the model sees it.

MixUp, CutMix and whatever scales a batch by its own statistics make every row of several records. A
row's gradient is then clipped as if it were one record's, and one record moves several of them. No
layer does it, so that nothing in the model can tell. It is tried: one record of a small batch is
exchanged, with the same random numbers, and no more than one row may change.

What cannot be noticed: mixing that does not happen in nine tries, that draws from a generator of
its own or from the operating system, or that goes through the length of a padded batch; and what a
training loop does to a batch after it was handed out.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from recondite.channels.protected import ProtectedDataset
from recondite.training.fetching import collated

__all__ = ["refuse_mixing"]

_ROWS, _SEEDS = 3, (1, 2, 3)

Collate = Callable[[list[Any]], Any]


def refuse_mixing(dataset: Any, collate: Collate) -> None:
    """Raises ``ValueError``, in one line, where rows of a batch are made of several records.

    Rows may be sorted, padded, augmented or drawn anew: each is looked for among all others, and
    parts of a batch without a row for every record are left alone.

    Args:
      dataset: Where a few records are read.
      collate: Makes a batch of a list of them.
    """
    # Torch's own only stacks; records of a channel are counted whenever they are read.
    if collate is collated or len(dataset) <= _ROWS or isinstance(dataset, ProtectedDataset):
        return
    places = np.linspace(0, len(dataset) - 1, _ROWS + 1).astype(int).tolist()
    try:
        with _same_numbers(0):
            *batch, spare = (dataset[place] for place in places)
        mixes = any(_mixes(batch, spare, collate, seed) for seed in _SEEDS)
    except Exception:  # what fails on so few fails again, where its own error is seen
        return
    if mixes:
        raise ValueError(
            "collate_fn of data_loader makes a row of several records (MixUp, CutMix, or a "
            "statistic of the batch), so that no row's gradient is one record's own: leave that out"
        )


def _mixes(batch: list[Any], spare: Any, collate: Collate, seed: int) -> bool:
    """Whether exchanging one record changes more than one row."""

    def made(records: Sequence[Any]) -> list[torch.Tensor]:
        with _same_numbers(seed):
            return list(_tensors(collate(copy.deepcopy(list(records)))))

    before, again, fewer = made(batch), made(batch), made(batch[:-1])
    for place in range(len(batch)):
        after = made([*batch[:place], spare, *batch[place + 1 :]])
        if not len(before) == len(again) == len(fewer) == len(after):
            return False
        for one, same, less, other in zip(before, again, fewer, after, strict=True):
            rows = len(one) == len(batch) and len(less) == len(batch) - 1
            if (
                rows
                and one.shape == other.shape
                and _left(one, same) == 0
                and _left(one, other) > 1
            ):
                return True
    return False


def _left(rows: torch.Tensor, others: torch.Tensor) -> int:
    """How many rows are not among others, each of which stands for one."""
    pool = list(others)
    left = 0
    for row in rows:
        place = next((at for at, other in enumerate(pool) if _equal(row, other)), None)
        if place is None:
            left += 1
        else:
            pool.pop(place)
    return left


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=1e-5, atol=1e-8, equal_nan=True)


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        if batch.dim() > 0 and batch.layout is torch.strided:
            yield batch
    elif isinstance(batch, Mapping):
        yield from (tensor for value in batch.values() for tensor in _tensors(value))
    elif isinstance(batch, list | tuple):
        yield from (tensor for value in batch for tensor in _tensors(value))


@contextmanager
def _same_numbers(seed: int) -> Iterator[None]:
    """The global generators from a known state, and given back as they were."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - what other people's code uses
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
