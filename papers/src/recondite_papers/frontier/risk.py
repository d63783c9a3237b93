"""From scores to risk: identification out of n, and what public records rebuild of a victim."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recondite.attacks import identification

__all__ = ["Public", "gains", "identified", "wiener"]

CANDIDATES = (10, 100)
# Scores are divided by one of these: as they are, a discrete prior trusts its best record too much.
_TEMPERATURES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 1e4, 1e9)


@dataclass(frozen=True)
class Public:
    """What the intruder holds, and what it is judged by.

    Attributes:
      victims: (V, features), pixels in [0, 1].
      labels: Of the victims, which the intruder knows.
      pool: (M, features) of held-out records.
      pool_labels: Of the pool.
    """

    victims: Tensor
    labels: Tensor
    pool: Tensor
    pool_labels: Tensor

    @property
    def same(self) -> Tensor:
        """(V, M): whether a record of the pool has the victim's label."""
        return self.labels[:, None] == self.pool_labels[None, :]

    @property
    def blind(self) -> Tensor:
        """(V, features): the pool's mean of the victim's class."""
        weight = self.same.float()
        return (weight / weight.sum(1, keepdim=True)) @ self.pool

    def errors(self, images: Tensor) -> Tensor:
        """(…, V): mean squared error of each victim."""
        return (images - self.victims).square().mean(-1)


def identified(scores: Tensor) -> dict[str, float]:
    """Success rates in one run, by the number of candidates: means over its games."""
    found = scores.cpu().numpy()
    if not np.isfinite(found).all():
        return {}
    return {
        str(n): identification.identified([found], n).rate
        for n in CANDIDATES
        if n <= found.shape[1]
    }


def gains(scores: Tensor, public: Public) -> dict[str, float]:
    """1 - MSE/MSE of the class mean, of posterior means over the pool's records of the label.

    ``plain`` takes the scores as they are. ``gain`` divides them by a temperature: each half of the
    victims by the one that is best for the other half, as an intruder would choose it on records
    of its own. The largest temperature is the class mean itself.

    Args:
      scores: (V, M), of the pool.
      public: The records.
    """
    logits = torch.where(public.same, scores, -torch.inf)
    logits = logits - logits.amax(1, keepdim=True)
    weights = torch.stack([torch.softmax(logits / t, 1) for t in _TEMPERATURES]).float()
    errors = public.errors(weights @ public.pool)  # (temperatures, V)
    blind = public.errors(public.blind)
    half = torch.arange(len(blind), device=blind.device) % 2 == 0
    chosen = torch.empty_like(blind)
    for here in (half, ~half):
        best = errors[:, ~here].mean(1).argmin()
        chosen[here] = errors.index_select(0, best[None])[0, here]
    size = 1.0 / weights[0].square().sum(1)
    return {
        "gain": float(1.0 - chosen.mean() / blind.mean()),
        "plain": float(1.0 - errors[0].mean() / blind.mean()),
        "records": float(size.mean()),
    }


def wiener(copies: Tensor, variance: float, public: Public, within: tuple[Tensor, Tensor]) -> float:
    """The gain of the best linear guess from noisy copies, given the victim's class mean.

    Args:
      copies: (V, features): the mean of what was seen of each victim.
      variance: Of the noise on that mean.
      public: The records.
      within: Eigenvalues and eigenvectors of the pool's covariance around its class means.
    """
    values, vectors = within
    kept = (values / (values + variance)).float()
    guess = public.blind + ((copies - public.blind) @ vectors * kept) @ vectors.T
    return float(1.0 - public.errors(guess).mean() / public.errors(public.blind).mean())
