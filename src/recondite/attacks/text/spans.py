"""The span of a layer's inputs, read off its gradient.

A linear layer y = W·x has the gradient Σ δ·xᵀ over all tokens of a batch: its rows lie in the span
of the inputs x. With fewer tokens than the width, that span is a thin subspace: the input of a
token of the batch lies in it, that of any other does not. Of an adapter B·A beside W, the rows of
A's gradient lie in the same span, and those of B's in the span of A·x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Seen", "Span", "span_of"]

_FLOOR = 1e-5  # of the largest singular value: what float32 leaves of 0 lies well below
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class Seen:
    """A gradient whose rows lie in the span of (mapped) inputs.

    Attributes:
      rows: (m, width).
      through: (width, inputs) where the rows are of mapped inputs; None for inputs themselves.
      noise: A draw of the defence's noise on the same rows; None without noise.
    """

    rows: Tensor
    through: Tensor | None = None
    noise: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Span:
    """Spans of a layer's inputs, each orthonormal rows, perhaps of mapped inputs.

    Attributes:
      parts: Map (None for none) and basis.
      rank: Of the first part: how many independent inputs there were.
      noisy: Whether only what exceeds noise is in it: inputs of the batch may then lie outside.
      room: Share of directions that lie outside, of the first part.
    """

    parts: tuple[tuple[Tensor | None, Tensor], ...]
    rank: int
    noisy: bool
    room: float

    def distance(self, inputs: Tensor) -> Tensor:
        """Relative distance of inputs (…, width) to the span, the root mean square of its parts."""
        total = torch.zeros(inputs.shape[:-1], dtype=torch.float64, device=inputs.device)
        wide = inputs.double()
        for through, basis in self.parts:
            mapped = wide if through is None else wide @ through.mT
            rest = mapped - (mapped @ basis.mT) @ basis
            size = mapped.norm(dim=-1)
            # An input of 0, such as the padding's embedding, leaves no trace that could be found.
            total += torch.where(size > 0, (rest.norm(dim=-1) / size.clamp(min=1e-30)).square(), 1)
        return (total / len(self.parts)).sqrt()


def span_of(seen: Sequence[Seen]) -> Span | None:
    """The span that gradients show; None where they leave no direction out, or none stands out.

    Without noise the rank is where the singular values fall to what rounding leaves. With noise,
    only those above the noise's own largest count: the strongest directions of the batch.

    Layers that share an input need not see the same of it: a decoder's first token attends to
    itself alone, and its query has no gradient. Without noise only those that saw most count.

    Args:
      seen: Of one layer's inputs.
    """
    groups: list[list[Seen]] = [[one for one in seen if one.through is None]]
    groups += [[one] for one in seen if one.through is not None]
    parts, ranks, noisy = [], [], False
    for group in (group for group in groups if group):
        rows = torch.cat([_even(one) for one in group]).double()
        values, right = torch.linalg.svd(rows, full_matrices=False)[1:]
        if not float(values[0]) > 0:
            continue  # an adapter that is still 0 gives its other half no gradient
        edge = 0.0
        if group[0].noise is not None:
            drawn = torch.cat([one.noise for one in group if one.noise is not None]).double()
            edge = 1.1 * float(torch.linalg.matrix_norm(drawn, 2))
        rank = int((values > edge).sum()) if edge else _rank(values)
        if not 0 < rank < min(rows.shape):
            continue  # nothing stands out, or the gradient has no room for all tokens
        noisy = noisy or edge > 0
        through = group[0].through
        parts.append((None if through is None else through.double(), right[:rank]))
        ranks.append((rank, 1 - rank / rows.shape[1]))
    if not parts:
        return None
    if not noisy:
        most = max(rank for rank, _ in ranks)
        kept = [place for place, (rank, _) in enumerate(ranks) if rank == most]
        parts, ranks = [parts[at] for at in kept], [ranks[at] for at in kept]
    return Span(tuple(parts), ranks[0][0], noisy, ranks[0][1])


def _even(one: Seen) -> Tensor:
    """Rows of one length without noise: rounding is in proportion, and weak units help as much."""
    if one.noise is not None:
        return one.rows
    even: Tensor = one.rows / one.rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return even


def _rank(values: Tensor) -> int:
    """Where singular values fall the most, among those that rounding may have left."""
    relative = (values / values[0].clamp(min=1e-300)).clamp(min=_LEAST)
    falls = relative[:-1] / relative[1:]
    falls = torch.where(relative[1:] < _FLOOR, falls, 0.0)
    return int(falls.argmax()) + 1 if bool((falls > 0).any()) else len(values)
