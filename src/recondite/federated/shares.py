"""Shares of one data set for many clients: cut alike or skewed by label, read once a process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate
from recondite.attacks.scoring import as_images
from recondite.configuration import TrainingConfig
from recondite.defences import find
from recondite.federated.policy import Policy
from recondite.models import resolve
from recondite.records import Records
from recondite.training.setup import load_prepared, scale_of

__all__ = [
    "channel_for",
    "check_auditable",
    "dirichlet",
    "held_out_set",
    "iid",
    "initial_model",
    "share_of",
    "shares",
]

Indices = NDArray[np.int64]


def iid(records: int, clients: int, seed: int = 0) -> tuple[Indices, ...]:
    """Equal shares drawn without regard to labels, each in ascending order.

    >>> [len(share) for share in iid(10, 3)]
    [4, 3, 3]
    """
    count = _checked(records, clients)
    order = np.random.default_rng(seed).permutation(records)
    return tuple(np.sort(part).astype(np.int64) for part in np.array_split(order, count))


def dirichlet(
    labels: Sequence[int] | NDArray[Any], clients: int, alpha: float = 0.3, seed: int = 0
) -> tuple[Indices, ...]:
    """Equal shares whose mixtures of labels are drawn from a Dirichlet law.

    Every client draws its mixture, then takes records of those labels until its share is full;
    when a label runs out, the others fill up. A share is never empty. Small ``alpha`` gives each
    client few labels; large ``alpha`` is :func:`iid`.

    Args:
      labels: The label of every record.
      clients: How many shares.
      alpha: Concentration of the law.
      seed: Decides the draw.
    """
    kinds = np.asarray(labels)
    count = _checked(len(kinds), clients)
    _validate.positive("alpha", alpha)
    rng = np.random.default_rng(seed)
    piles = [list(rng.permutation(np.flatnonzero(kinds == kind))) for kind in np.unique(kinds)]
    parts = []
    for client in range(count):
        size = len(kinds) // count + (client < len(kinds) % count)
        mixture = rng.dirichlet([alpha] * len(piles))
        mine: list[int] = []
        while len(mine) < size:
            left = np.array([bool(pile) for pile in piles], dtype=float)
            weights = mixture * left
            weights = weights / weights.sum() if weights.sum() > 0 else left / left.sum()
            for pile, wanted in zip(piles, rng.multinomial(size - len(mine), weights), strict=True):
                mine += [int(pile.pop()) for _ in range(min(int(wanted), len(pile)))]
        parts.append(np.sort(np.array(mine, dtype=np.int64)))
    return tuple(parts)


def shares(
    how: str, labels: Sequence[int] | NDArray[Any], clients: int, *, alpha: float, seed: int
) -> tuple[Indices, ...]:
    """The shares by a name: "iid" or "dirichlet"."""
    _validate.choice("partition", how, ("iid", "dirichlet"))
    if how == "iid":
        return iid(len(labels), clients, seed)
    return dirichlet(labels, clients, alpha, seed)


def _checked(records: int, clients: int) -> int:
    count = _validate.at_least("clients", clients, 1)
    if count > records:
        raise ValueError(f"clients must be at most {records}, the number of records, got {count}")
    return count


@functools.lru_cache(maxsize=8)
def _records(data: str, data_dir: str, prepare: str, model: str, split: str) -> Records:
    config = TrainingConfig(data, model, prepare=prepare or None)
    found = load_prepared(config, data, split, data_dir or None)
    # Constants only: no client knows the others' statistics.
    scale = scale_of(config, found)
    return found if scale is None else found.normalised(*scale)


def _split(policy: Policy, split: str) -> Records:
    return _records(policy.data, policy.data_dir, policy.prepare, policy.model, split)


@functools.lru_cache(maxsize=32)
def _parts(policy: Policy) -> tuple[Any, ...]:
    labels = _training(policy).labels.numpy()
    # The cut is public in a demonstration: it must be the same in every process.
    seed = max(policy.seed, 0)
    return shares(policy.partition, labels, policy.clients, alpha=policy.alpha, seed=seed)


def _training(policy: Policy) -> Records:
    """The records that are shared out; those after them stay for fitting channels."""
    found = _split(policy, "train")
    count = policy.records or len(found)
    if count >= len(found):
        return found
    return found.subset(_spread(found, policy)[:count].tolist())


def _spread(found: Records, policy: Policy) -> Any:
    return np.random.default_rng(max(policy.seed, 0)).permutation(len(found))


def share_of(policy: Policy, client: int) -> Records:
    """The share of one client."""
    return _training(policy).subset(_parts(_undefended(policy))[client % policy.clients])


def _undefended(policy: Policy) -> Policy:
    """What decides the cut, and no more: rounds and defences share what was read and cut."""
    kept = ("data", "data_dir", "prepare", "model", "clients", "partition", "alpha")
    values = {name: getattr(policy, name) for name in (*kept, "records", "seed")}
    return Policy("none", **values)


def held_out_set(policy: Policy) -> Records:
    """Records that no client has."""
    return _split(policy, "test")


def check_auditable(policy: Policy) -> None:
    """Refuses records that an auditor cannot rebuild from updates."""
    try:
        as_images(held_out_set(policy))
    except ValueError as reason:
        raise ValueError(
            f"no auditor can rebuild these records, so leave it out with --audit-seconds 0 "
            f"(audit_every=0 in Python): {reason}"
        ) from None


def initial_model(policy: Policy) -> Any:
    """The network with its initial weights."""
    records = _split(policy, "train")
    seed = policy.seed_or_none
    return resolve(policy.model, records.shape, records.outputs, seed=seed)


def channel_for(policy: Policy) -> Any:
    """The channel of the policy, fitted to held-out records: clients' own stay out of it."""
    return _channel(_undefended(policy), policy.defence, policy.capacity)


@functools.lru_cache(maxsize=4)
def _channel(policy: Policy, defence: str, capacity: float) -> Any:
    held_out = held_out_set(policy)
    dim = int(np.prod(held_out.shape))
    noise: Any = find(defence).build(capacity * dim)
    return noise.fit(held_out.features.numpy(), held_out.shape)
