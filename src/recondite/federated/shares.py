"""The records of the ready app: one data set, cut into shares, read once a process."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from recondite.data import ImageSet, load
from recondite.federated.partition import shares
from recondite.federated.settings import CHANNELS, Settings
from recondite.mechanisms import NoNoise
from recondite.models import resolve
from recondite.training.plan import Plan

__all__ = ["channel_for", "held_out_set", "initial_model", "share_of"]


def _plan(settings: Settings) -> Plan:
    prepare = settings.prepare or None
    return Plan(data=settings.data, model=settings.model, mechanism=NoNoise(), prepare=prepare)


@functools.lru_cache(maxsize=8)
def _records(data: str, data_dir: str, prepare: str, model: str, split: str) -> ImageSet:
    plan = _plan(Settings(data=data, model=model, prepare=prepare))
    found = load(data, split, directory=data_dir or None, prepare=plan.preparation)
    return found.normalised(*plan.pixel_scale())


def _split(settings: Settings, split: str) -> ImageSet:
    return _records(settings.data, settings.data_dir, settings.prepare, settings.model, split)


@functools.lru_cache(maxsize=32)
def _parts(settings: Settings) -> tuple[Any, ...]:
    labels = _training(settings).labels.numpy()
    # The cut is public in a demonstration: it must be the same in every process.
    seed = max(settings.seed, 0)
    return shares(settings.partition, labels, settings.clients, alpha=settings.alpha, seed=seed)


def _training(settings: Settings) -> ImageSet:
    """The records that are shared out; those after them stay for fitting channels."""
    found = _split(settings, "train")
    count = settings.records or len(found)
    if count >= len(found):
        return found
    return found.subset(_spread(found, settings)[:count].tolist())


def _spread(found: ImageSet, settings: Settings) -> Any:
    return np.random.default_rng(max(settings.seed, 0)).permutation(len(found))


def share_of(settings: Settings, client: int) -> ImageSet:
    """The share of one client."""
    cut = settings.with_values(
        **{name: getattr(Settings(), name) for name in ("defence", "strength", "out", "truth")}
    )
    return _training(settings).subset(_parts(cut)[client % settings.clients])


def held_out_set(settings: Settings) -> ImageSet:
    """Records that no client has."""
    return _split(settings, "test")


def initial_model(settings: Settings) -> Any:
    """The network with its first weights."""
    records = _split(settings, "train")
    seed = settings.seed_or_none
    return resolve(settings.model, records.shape, len(records.classes), seed=seed)


@functools.lru_cache(maxsize=4)
def channel_for(settings: Settings) -> Any:
    """The channel of the settings, fitted to held-out records: clients' own stay out of it."""
    from recondite import channels

    kinds: tuple[Any, ...] = (
        channels.NaturalChannel,
        channels.WhiteChannel,
        channels.MinimumPowerChannel,
    )
    kind = dict(zip(CHANNELS, kinds, strict=True))[settings.defence]
    held_out = held_out_set(settings)
    dim = int(np.prod(held_out.shape))
    return kind.fit(held_out.images.numpy(), settings.capacity * dim)
