"""The records of the ready app: one data set, cut into shares, read once a process."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from recondite.configuration import TrainingConfig
from recondite.defences import find
from recondite.federated.partition import shares
from recondite.federated.policy import Policy
from recondite.models import resolve
from recondite.records import ImageSet, load

__all__ = ["channel_for", "held_out_set", "initial_model", "share_of"]


def _plan(policy: Policy) -> TrainingConfig:
    prepare = policy.prepare or None
    return TrainingConfig(policy.data, policy.model, prepare=prepare)


@functools.lru_cache(maxsize=8)
def _records(data: str, data_dir: str, prepare: str, model: str, split: str) -> ImageSet:
    plan = _plan(Policy("none", data=data, model=model, prepare=prepare))
    found = load(data, split, directory=data_dir or None, prepare=plan.preparation)
    return found.normalised(*plan.pixel_scale())


def _split(policy: Policy, split: str) -> ImageSet:
    return _records(policy.data, policy.data_dir, policy.prepare, policy.model, split)


@functools.lru_cache(maxsize=32)
def _parts(policy: Policy) -> tuple[Any, ...]:
    labels = _training(policy).labels.numpy()
    # The cut is public in a demonstration: it must be the same in every process.
    seed = max(policy.seed, 0)
    return shares(policy.partition, labels, policy.clients, alpha=policy.alpha, seed=seed)


def _training(policy: Policy) -> ImageSet:
    """The records that are shared out; those after them stay for fitting channels."""
    found = _split(policy, "train")
    count = policy.records or len(found)
    if count >= len(found):
        return found
    return found.subset(_spread(found, policy)[:count].tolist())


def _spread(found: ImageSet, policy: Policy) -> Any:
    return np.random.default_rng(max(policy.seed, 0)).permutation(len(found))


def share_of(policy: Policy, client: int) -> ImageSet:
    """The share of one client."""
    return _training(policy).subset(_parts(_undefended(policy))[client % policy.clients])


def _undefended(policy: Policy) -> Policy:
    """What decides the cut, and no more: rounds and defences share what was read and cut."""
    kept = ("data", "data_dir", "prepare", "model", "clients", "partition", "alpha")
    values = {name: getattr(policy, name) for name in (*kept, "records", "seed")}
    return Policy("none", **values)


def held_out_set(policy: Policy) -> ImageSet:
    """Records that no client has."""
    return _split(policy, "test")


def initial_model(policy: Policy) -> Any:
    """The network with its first weights."""
    records = _split(policy, "train")
    seed = policy.seed_or_none
    return resolve(policy.model, records.shape, len(records.classes), seed=seed)


def channel_for(policy: Policy) -> Any:
    """The channel of the policy, fitted to held-out records: clients' own stay out of it."""
    return _channel(_undefended(policy), policy.defence, policy.capacity)


@functools.lru_cache(maxsize=4)
def _channel(policy: Policy, defence: str, capacity: float) -> Any:
    held_out = held_out_set(policy)
    dim = int(np.prod(held_out.shape))
    noise: Any = find(defence).build(capacity * dim)
    return noise.fit(held_out.images.numpy(), held_out.shape)
