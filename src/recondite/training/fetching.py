"""Which records of a data set a private loader draws from, and how they are fetched."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import (
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
)

from recondite.records import Records
from recondite.records.sources import as_tensor, is_picture_object

__all__ = ["chosen", "collated", "taken", "tensors_of"]


def taken(part: torch.Tensor, indices: list[int]) -> torch.Tensor:
    """Rows of a tensor; those of one on a GPU without waiting for it."""
    if not part.is_cuda:
        return part[indices]
    places = torch.tensor(indices).to(part.device, non_blocking=True)
    return part.index_select(0, places)


def tensors_of(dataset: Any) -> tuple[torch.Tensor, ...] | None:
    """The tensors of a dataset that is nothing but tensors in memory.

    A class of its own may hand out other records than its tensors hold: it must take them as it is.
    """
    kind = type(dataset)
    whole = kind is TensorDataset or (
        issubclass(kind, Records)
        and (kind.__getitem__, kind.tensors) == (Records.__getitem__, Records.tensors)
    )
    return dataset.tensors if whole else None


def collated(records: list[Any]) -> Any:
    """A batch as torch makes it, with images of PIL as numbers in [0, 1] (c, h, w).

    Raises:
      ValueError: In one line, where the records cannot be put together.
    """
    try:
        return default_collate([_numbers(record) for record in records])
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"records of data_loader make no batch ({str(error).splitlines()[0]}): have the data "
            "set return tensors of one shape, or give data_loader a collate_fn"
        ) from error


def _numbers(value: Any) -> Any:
    if is_picture_object(value):
        return as_tensor(value, "the data set")
    if isinstance(value, dict):
        return {key: _numbers(part) for key, part in value.items()}
    return tuple(map(_numbers, value)) if type(value) in (tuple, list) else value


def chosen(loader: DataLoader[Any]) -> Any:
    """The records that a loader's sampler lets through.

    Raises:
      ValueError: The sampler is neither torch's default nor a ``SubsetRandomSampler``.
    """
    dataset: Any = loader.dataset
    sampler: Any = loader.sampler
    own_batches = loader.batch_size is None and loader.batch_sampler is not None
    if type(sampler) is SubsetRandomSampler and not own_batches:
        places = [int(place) for place in sampler.indices]
        if len(set(places)) < len(places):
            raise ValueError("the sampler of data_loader names a record twice: name each once")
        return Subset(dataset, places)
    plain = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler
        and not sampler.replacement
        and sampler.num_samples == len(dataset)
    )
    if own_batches or not plain or len(sampler.data_source) != len(dataset):
        name = type(loader.batch_sampler if own_batches else sampler).__name__
        raise ValueError(
            f"the sampler of data_loader ({name}) would not be used: leave it out, and choose "
            "records with torch.utils.data.Subset or SubsetRandomSampler"
        )
    return dataset
