"""One row from many attempts: matched, pooled cell by cell, and how far the attempts agree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recondite.attacks.tabular.relaxation import Relaxation
from recondite.metrics.images import assignment

__all__ = ["Pooled", "pool"]

_APART = 1e6  # what matching records of different classes costs
_BINS = 0.1  # of a standard deviation: numbers nearer than that agree


@dataclass(frozen=True, eq=False)
class Pooled:
    """The attempts at one batch, as one.

    Attributes:
      entries: (batch, features): one-hot entries and standard scores.
      entropy: (batch, columns), in [0, 1]: 0 where all attempts agree on a cell, 1 where they say
        nothing of it. The attacker's own estimate of what is right: no original is needed.
    """

    entries: Tensor
    entropy: Tensor


def pool(relaxation: Relaxation, attempts: Tensor, labels: Tensor, losses: Tensor) -> Pooled:
    """Pools the attempts at one batch.

    Each is brought into the order of the best one by the matching of least distance among records
    of one class. A category is that of the largest mean entry, a number the median.

    Args:
      relaxation: What the entries are.
      attempts: (restarts, batch, features), entries.
      labels: (batch,), of the positions: the same in every attempt.
      losses: (restarts,).
    """
    best = attempts[int(losses.nan_to_num(nan=torch.inf).argmin())].double()
    apart = _APART * (labels[:, None] != labels[None]).double()
    ordered = []
    for one in attempts.double():
        order = assignment(torch.cdist(best, one).square() + apart)
        ordered.append(one[order.to(one.device)])
    stacked = torch.stack(ordered)
    entries, entropy = [], []
    for (start, stop), hot in zip(relaxation.blocks, relaxation.hot, strict=True):
        part = stacked[..., start:stop]
        if hot:
            mean = part.mean(0)
            entries.append(mean)
            spread = -(mean * mean.clamp_min(1e-12).log()).sum(1)
            entropy.append(spread / math.log(max(stop - start, 2)))
        else:
            entries.append(part.median(0).values)
            entropy.append(_spread(part[..., 0]))
    return Pooled(torch.cat(entries, 1), torch.stack(entropy, 1).clamp(0.0, 1.0))


def _spread(numbers: Tensor) -> Tensor:
    """Entropy of (restarts, batch) numbers over bins, as a share of its largest."""
    restarts = len(numbers)
    if restarts == 1:
        return torch.ones_like(numbers[0])  # one attempt agrees with nobody
    bins = torch.round(numbers / _BINS)
    shares = (bins[:, None] == bins[None]).double().mean(1)  # of each attempt's own bin
    return -shares.log().mean(0) / math.log(restarts)
