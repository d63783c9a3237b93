"""Embeddings: a record's gradient has a row for every token it holds, and is never more than that.

The gradients of a record's equal tokens are added up first, in no more memory than the output's
gradient takes. What is measured are these sums, and the same numbers are then added to the table.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recondite.gradients.layers import norms
from recondite.gradients.layers.base import Grads, LayerRule, trainable
from recondite.gradients.tape import Entry, Tape, record_detached, wide

__all__ = ["EmbeddingRule"]


class EmbeddingRule(LayerRule):
    """``nn.Embedding``, of tokens with any number of axes; its padding's row is not trained."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape, out of autograd's sight."""
        layer.forward = record_detached(tape, layer)

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """Of the sums over equal tokens, which are kept."""
        entry.sums = _sums(entry)
        return norms.sizes(entry.sums[1].flatten(1))

    def settle(self, entry: Entry, rows: torch.Tensor) -> torch.Tensor:
        """At any scale, of the same sums."""
        return norms.measured(_held(entry)[1][rows].flatten(1))

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Every token's sum, weighted, added to its row of the table."""
        weight = _table(entry)
        tokens, sums = _held(entry)
        scaled = sums * weights.to(sums.dtype)[:, None, None]
        total = sums.new_zeros(weight.shape)
        return {weight: total.index_add_(0, tokens.flatten(), scaled.flatten(0, 1))}

    def weighted_sum(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """As ``product``, of what was measured; gradients of several calls are formed."""
        if entry.gradients is not None:
            return super().weighted_sum(entry, weights)
        return self.product(entry, weights)

    def per_sample(self, entry: Entry) -> Grads:
        """A whole table for every record."""
        weight = _table(entry)
        tokens, sums = _held(entry)
        count, rows = len(sums), weight.shape[0]
        out = sums.new_zeros(count * rows, weight.shape[1])
        first = rows * torch.arange(count, device=sums.device)[:, None]
        out.index_add_(0, (tokens + first).flatten(), sums.flatten(0, 1))
        return {weight: out.view(count, *weight.shape)}


def _table(entry: Entry) -> nn.Parameter:
    weight = trainable(entry.layer, "weight")
    assert weight is not None
    return weight


def _held(entry: Entry) -> tuple[torch.Tensor, torch.Tensor]:
    return _sums(entry) if entry.sums is None else entry.sums


def _sums(entry: Entry) -> tuple[torch.Tensor, torch.Tensor]:
    """A record's tokens, and the sum of the output's gradients over each: zeros fill up the rest.

    Returns:
      (records, positions), and (records, positions, width).
    """
    assert entry.backprop is not None
    layer: Any = entry.layer
    tokens, slopes = entry.activation, wide(entry.backprop)
    tokens = tokens.flatten(1) if tokens.dim() > 1 else tokens[:, None]
    slopes = slopes.flatten(1, -2) if slopes.dim() > 2 else slopes[:, None]
    if layer.padding_idx is not None:
        slopes = slopes.masked_fill((tokens == layer.padding_idx)[..., None], 0.0)
    count, positions = tokens.shape
    tokens = tokens.long()
    ordered, order = tokens.sort(1)
    kinds = torch.zeros_like(tokens)
    kinds[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).cumsum(1)
    places = torch.empty_like(tokens).scatter_(1, order, kinds)
    places += positions * torch.arange(count, device=tokens.device)[:, None]
    total = slopes.new_zeros(count * positions, slopes.shape[-1])
    total.index_add_(0, places.flatten(), slopes.flatten(0, 1))
    names = torch.zeros_like(tokens).scatter_(1, kinds, ordered)
    return names, total.view(count, positions, -1)
