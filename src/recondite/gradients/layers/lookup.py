"""Embeddings and bags of them, without a table for every record.

A record's gradient has rows for its own tokens only: those of equal tokens are added up, what comes
out is measured, and the same numbers are summed into one table for the batch. A record of T tokens
takes T rows of memory, whatever the size of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recondite.gradients.forwards import WatchedForward
from recondite.gradients.layers import norms
from recondite.gradients.layers.base import GenericRule, Grads
from recondite.gradients.tape import Entry, Tape, run_linked, wide, zeroed

__all__ = ["BagRule", "LookupRule"]


@dataclass(eq=False)
class _Looked(Entry):
    """One call; what norms were measured of is kept for the sum.

    Attributes:
      sums: Tokens and the sums of their rows, (records, T) and (records, T, width); a token that
        stands there again, or fills up, has a row of zeros.
      shares: Of a bag: what every token counts in it.
      winners: Of a bag's largest: the token of each place.
    """

    sums: tuple[torch.Tensor, torch.Tensor] | None = None
    shares: torch.Tensor | None = None
    winners: torch.Tensor | None = None

    def rows(self, which: torch.Tensor) -> Entry:
        """The same call, as if it had been made with these samples only."""
        assert self.backprop is not None
        shares, winners = (None if t is None else t[which] for t in (self.shares, self.winners))
        return _Looked(
            self.layer, self.activation[which], self.backprop[which], shares=shares, winners=winners
        )

    def silence(self, finite: torch.Tensor) -> None:
        """Zeroes the samples that are not finite, in the sums too."""
        super().silence(finite)
        if self.sums is not None:
            self.sums = self.sums[0], zeroed(self.sums[1], finite)

    def scale(self, factor: float) -> None:
        """Every sample's gradient times a number."""
        super().scale(factor)
        self.sums = None


class LookupRule(GenericRule):
    """``nn.Embedding``, also with ``padding_idx``."""

    cost = "one row a token in memory"

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape, out of autograd's sight."""
        super().attach(tape, layer)
        tape.kinds[layer] = _Looked

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """Of the sums of each token's rows, at any scale of theirs."""
        return norms.measured(self._sums(entry)[1])

    def settle(self, entry: Entry, rows: torch.Tensor) -> torch.Tensor:
        """Nothing is left to settle: what is not finite here is not finite."""
        if entry.gradients is not None:  # formed within another module
            return super().settle(entry, rows)
        return self.squared_norms(entry)[rows]

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Σ_i w_i times the measured sums, in one table."""
        layer: Any = entry.layer
        tokens, sums = self._sums(entry)
        total = sums.new_zeros(layer.weight.shape)
        scaled = sums * weights.to(sums.dtype)[:, None, None]
        return {layer.weight: total.index_add_(0, tokens.flatten(), scaled.flatten(0, 1))}

    def per_sample(self, entry: Entry) -> Grads:
        """One table a record."""
        layer: Any = entry.layer
        tokens, sums = self._sums(entry)
        out = sums.new_zeros(len(tokens), *layer.weight.shape)
        out.scatter_add_(1, tokens[:, :, None].expand_as(sums), sums)
        return {layer.weight: out}

    def _sums(self, entry: Entry) -> tuple[torch.Tensor, torch.Tensor]:
        assert isinstance(entry, _Looked)
        if entry.sums is None:
            tokens, rows = self._rows(entry)
            padding: Any = entry.layer.padding_idx
            if padding is not None:  # its row is not trained
                rows = rows.masked_fill((tokens == padding)[:, :, None], 0.0)
            entry.sums = _summed(tokens, rows)
        return entry.sums

    def _rows(self, entry: _Looked) -> tuple[torch.Tensor, torch.Tensor]:
        """Every token and the gradient of what was looked up for it."""
        assert entry.backprop is not None
        rows = wide(entry.backprop)
        tokens = entry.activation
        if tokens.dim() == 1:
            return tokens[:, None], rows[:, None]
        return tokens.flatten(1), rows.flatten(1, -2)


class BagRule(LookupRule):
    """``nn.EmbeddingBag`` on a row of tokens a record: sums, means (also weighted) and largest."""

    def attach(self, tape: Tape, layer: nn.Module) -> None:
        """Runs the layer through the tape while training."""
        plain = layer.forward
        layer.forward = WatchedForward(layer, _Bag(tape, layer, plain), plain)

    def _rows(self, entry: _Looked) -> tuple[torch.Tensor, torch.Tensor]:
        assert entry.backprop is not None
        tokens, grad = entry.activation.flatten(1), wide(entry.backprop)
        if entry.shares is not None:
            return tokens, entry.shares.to(grad.dtype)[:, :, None] * grad[:, None, :]
        assert entry.winners is not None
        places = torch.arange(tokens.shape[1], device=grad.device)
        won = entry.winners[:, None, :] == places[:, None]
        return tokens, torch.where(won, grad[:, None, :], 0.0)


class _Bag:
    """The forward function of one bag."""

    def __init__(self, tape: Tape, layer: Any, plain: Any) -> None:
        self.tape, self.layer, self.plain = tape, layer, plain

    def __call__(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        layer, tape = self.layer, self.tape
        training = tape.recording and layer.training and torch.is_grad_enabled()
        if tape.probe is None and not training:
            return self.plain(input, offsets, per_sample_weights)  # type: ignore[no-any-return]
        if input.dim() != 2 or offsets is not None:
            raise ValueError(
                "layer EmbeddingBag saw bags of several lengths in one line (offsets): give it a "
                "row of tokens for each record, filled up with padding_idx"
            )
        tokens = tape.for_each_record(input)
        if tape.probe is not None:
            given = (tokens,) if per_sample_weights is None else (tokens, per_sample_weights)
            tape.probe += [(layer, x.detach()) for x in given]
        if not training:
            return self.plain(tokens, None, per_sample_weights)  # type: ignore[no-any-return]
        entry = _Looked(layer, tokens.detach())
        tape.entries.append(entry)
        self._note(entry, tokens, per_sample_weights)

        def run(weights: torch.Tensor | None) -> torch.Tensor:
            return functional.embedding_bag(
                tokens,
                layer.weight.detach(),
                mode=layer.mode,
                sparse=layer.sparse,
                per_sample_weights=weights,
                padding_idx=layer.padding_idx,
            )

        shares = per_sample_weights
        learns = shares is not None and shares.requires_grad
        out = run(shares) if learns else run_linked(layer.weight, run, shares)
        out.register_hook(entry.keep)  # type: ignore[no-untyped-call]  # torch gives it no types
        return out

    def _note(self, entry: _Looked, tokens: torch.Tensor, weights: torch.Tensor | None) -> None:
        """What the bags were made of."""
        layer = self.layer
        counted = torch.ones_like(tokens, dtype=wide(layer.weight).dtype)
        if layer.padding_idx is not None:
            counted = counted.masked_fill(tokens == layer.padding_idx, 0.0)
        if layer.mode == "max":
            with torch.no_grad():
                looked = layer.weight[tokens].masked_fill((counted == 0.0)[:, :, None], -torch.inf)
                best = looked.max(1, keepdim=True).values
                # The first of equal ones, as torch's own.
                entry.winners = (looked == best).to(torch.uint8).argmax(1)
        elif layer.mode == "mean":
            entry.shares = counted / counted.sum(1, keepdim=True).clamp(min=1.0)
        else:
            entry.shares = counted if weights is None else counted * weights.detach()


def _summed(tokens: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Every token with the sum of its rows, record by record."""
    ordered, order = tokens.sort(1)
    new = torch.ones_like(ordered)
    new[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).to(new.dtype)
    place = new.cumsum(1) - 1
    names = torch.zeros_like(ordered).scatter_(1, place, ordered)
    sorted_rows = rows.gather(1, order[:, :, None].expand_as(rows))
    sums = torch.zeros_like(rows).scatter_add_(1, place[:, :, None].expand_as(rows), sorted_rows)
    return names, sums
