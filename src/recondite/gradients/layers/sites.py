"""Layers that are made of several linear maps: attention and recurrent layers.

Each map is recorded like a linear layer of its own: its inputs, and the gradient of what it gave.
Maps own different weights, so the squared norm of a record's gradient is the sum of theirs, and
none of it is formed where products are less work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recondite.gradients.layers.base import Grads, LayerRule
from recondite.gradients.layers.linear import LinearRule
from recondite.gradients.tape import Entry, Tape, run_recorded, wide

__all__ = ["Site", "SitesEntry", "SitesRule"]

_LINEAR = LinearRule()


class Site(nn.Module):
    """One linear map in a layer: which rows of which of the layer's parameters are its own.

    Its own parameters are without data (they lie on torch's "meta" device): names of gradients.
    """

    def __init__(
        self, weight: nn.Parameter, bias: nn.Parameter | None, rows: slice | None = None
    ) -> None:
        super().__init__()
        self.places: dict[nn.Parameter, tuple[nn.Parameter, slice]] = {}
        self.add(weight, "weight", rows)
        self.add(bias, "bias", rows)

    def add(self, whole: nn.Parameter | None, name: str, rows: slice | None = None) -> None:
        """Its weight or bias: all of one of the layer's parameters, or some rows of it."""
        if whole is not None and whole.requires_grad:
            where = slice(0, len(whole)) if rows is None else rows
            size = (where.stop - where.start, *whole.shape[1:])
            own = nn.Parameter(torch.empty(size, device="meta"))
            self.register_parameter(name, own)
            self.places[own] = whole, where


@dataclass(eq=False)
class _MapCall(Entry):
    """One map's call; what it learns its layer's entry learns too."""

    of: SitesEntry | None = None
    then: Callable[[torch.Tensor], None] | None = None

    def keep(self, grad: torch.Tensor) -> None:
        """Takes the gradient of what the map gave."""
        super().keep(grad)
        assert self.of is not None
        self.of.backprop = torch.ones(len(grad), device=grad.device, dtype=wide(grad).dtype)
        if self.then is not None:
            self.then(grad.detach())


@dataclass(eq=False)
class SitesEntry(Entry):
    """One call of a layer, by its maps; ``activation`` and ``backprop`` only have its length."""

    parts: list[Entry] = field(default_factory=list)

    def rows(self, which: torch.Tensor) -> Entry:
        """The same call, as if it had been made with these records only."""
        assert self.backprop is not None
        parts = [part.rows(which) for part in self.seen()]
        return SitesEntry(self.layer, self.activation[which], self.backprop[which], parts=parts)

    def seen(self) -> Iterator[Entry]:
        """The maps that the backward pass reached and that have something to train."""
        for part in self.parts:
            if part.backprop is not None and any(True for _ in part.layer.parameters()):
                yield part

    def silence(self, finite: torch.Tensor) -> None:
        """Zeroes the records that are not finite, in every map."""
        super().silence(finite)
        for part in self.seen():
            part.silence(finite)

    def scale(self, factor: float) -> None:
        """Every record's gradient times a number."""
        super().scale(factor)
        for part in self.seen():
            part.scale(factor)

    def linear(
        self,
        site: Site,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        then: Callable[[torch.Tensor], None] | None = None,
    ) -> torch.Tensor:
        """``functional.linear``, recorded.

        Args:
          site: The map.
          x: Records first.
          weight: Its weights, as the layer has them now.
          bias: And its bias.
          then: Called with the gradient of the result.
        """
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        part = _MapCall(site, x.detach(), of=self, then=then)
        self.parts.append(part)

        def run(x: torch.Tensor) -> torch.Tensor:
            return functional.linear(x, weight, bias)

        def pull(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = (grad @ weight.to(grad.dtype)).to(x.dtype)
            return out

        anchor = next(p for p in self.layer.parameters() if p.requires_grad)
        return run_recorded(x, anchor, part, run, pull)

    def known(self, site: Site, x: torch.Tensor) -> Entry:
        """A map's call whose gradient somebody else will say."""
        part = Entry(site, x.detach())
        self.parts.append(part)
        return part


class SitesRule(LayerRule):
    """A layer by its linear maps, each with weights of its own."""

    def parameters(self, layer: nn.Module) -> list[nn.Parameter]:
        """Of the layer and of everything in it."""
        return [p for p in layer.parameters() if p.requires_grad]

    def begin(self, tape: Tape, layer: nn.Module, rows: int, like: torch.Tensor) -> SitesEntry:
        """A new entry on the tape."""
        entry = SitesEntry(layer, torch.zeros(rows, device=like.device))
        tape.entries.append(entry)
        return entry

    def squared_norms(self, entry: Entry) -> torch.Tensor:
        """The sum of the maps'."""
        assert isinstance(entry, SitesEntry)
        return _summed(entry, [_LINEAR.squared_norms(part) for part in entry.seen()])

    def settle(self, entry: Entry, rows: torch.Tensor) -> torch.Tensor:
        """Of each map."""
        if entry.gradients is not None:
            return super().settle(entry, rows)
        assert isinstance(entry, SitesEntry)
        return _summed(entry, [_LINEAR.settle(part, rows) for part in entry.seen()], len(rows))

    def weighted_sum(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Of each map, from what was measured."""
        if entry.gradients is not None:
            return super().weighted_sum(entry, weights)
        assert isinstance(entry, SitesEntry)
        found = ((part.layer, _LINEAR.weighted_sum(part, weights)) for part in entry.seen())
        return self._put(entry, found, ())

    def product(self, entry: Entry, weights: torch.Tensor) -> Grads:
        """Of each map."""
        assert isinstance(entry, SitesEntry)
        found = ((part.layer, _LINEAR.product(part, weights)) for part in entry.seen())
        return self._put(entry, found, ())

    def per_sample(self, entry: Entry) -> Grads:
        """Of each map; zeros for weights that the call did not use."""
        assert isinstance(entry, SitesEntry)
        found = ((part.layer, _LINEAR.per_sample(part)) for part in entry.seen())
        return self._put(entry, found, (len(entry.activation),))

    def _put(
        self, entry: Entry, found: Iterable[tuple[nn.Module, Grads]], first: tuple[int, ...]
    ) -> Grads:
        """Gradients of the maps, each in its place of the layer's."""
        out: Grads = {}
        for site, gradients in found:
            places: Any = site.places
            for own, gradient in gradients.items():
                whole, where = places[own]
                if whole not in out and where.stop - where.start == len(whole):
                    out[whole] = gradient
                    continue
                if whole not in out:
                    out[whole] = gradient.new_zeros((*first, *whole.shape))
                target = out[whole][:, where] if first else out[whole][where]
                target.add_(gradient)
        for parameter in self.parameters(entry.layer):
            if parameter not in out:
                out[parameter] = wide(parameter.detach()).new_zeros((*first, *parameter.shape))
        return out


def _summed(entry: Entry, parts: list[torch.Tensor], rows: int | None = None) -> torch.Tensor:
    if parts:
        return torch.stack(parts).sum(0)
    rows = len(entry.activation) if rows is None else rows
    return torch.zeros(rows, dtype=torch.float64, device=entry.activation.device)
