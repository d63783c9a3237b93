"""Shares of one data set for many clients: alike, or skewed by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate

__all__ = ["dirichlet", "iid", "shares"]

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
