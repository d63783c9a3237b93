"""Whether a pass saw the records of the batch in hand, or an earlier pass's inputs once more.

The account says how often a record is drawn; a batch that is kept, and trained on at later steps
too, is used more often. People may preprocess a batch as they like (scale, augment, tokenise), so
inputs need not be what was handed out. But inputs that are those of an earlier pass, bit by bit,
are no preprocessing of other records.

The first 16 batches (or pieces) are looked at, and of later ones one in 16 by chance: a batch that
is kept is seen sooner or later, one that is used once more hardly. There every row of a pass gets a
digest. Of the rows whose digest an earlier pass had, as many are
explained as the two batches have records in common, by their places or by the digests of what was
handed out (records that are twice in a data set, or of few kinds). Where three quarters of a batch
were one earlier batch's, and not even half of them are explained, the step is refused.

False alarms: inputs that do not depend on the records (the same public rows passed beside every
batch) look the same, and are refused. Others would have to agree by chance at all of 8 to 16 rows,
or three quarters of more, in batches whose rows hardly agree with each other.

What cannot be noticed: kept records that were changed a little, that are less than three quarters
of a batch or come from several, that share half of theirs with the batch in hand, in batches of
fewer than 8; records kept for longer than the last 131,072 rows; where a step takes its own passes
there is nothing to notice. Of a row 64 numbers are looked at, the first 32 and some of the others.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recondite.training.sampling import Draw

__all__ = ["Reuse"]

_NUMBERS = 64  # of a row
_HISTORY = 2**17  # rows
_FIRST = 16
_FEWEST, _ALL_OF, _MOST_OF = 8, 16, 0.75


@dataclass(eq=False)
class _Piece:
    """What was handed out, and what passes saw: lists of digests, a row each."""

    places: Sequence[int]
    parts: list[list[int]]
    passes: list[list[int]]

    @property
    def rows(self) -> int:
        return sum(map(len, self.passes))


@dataclass(eq=False)
class _Asked:
    """Digests that are on their way from a GPU."""

    draw: Draw
    parts: list[Tensor]
    passes: list[Tensor]
    arrived: Any


class Reuse:
    """Remembers what recent passes saw, and refuses a step on the same again.

    Guarantee: where no row of a pass has numbers that an earlier one had, nothing is refused; nor
    where whatever an earlier pass had too is explained by records that both batches hold. On a GPU
    nothing waits: digests are compared when they have arrived, some steps later.
    """

    def __init__(self, every: int = 16) -> None:
        """Looks at the first 16 pieces, and at one in ``every`` of later ones."""
        self._every, self._opened, self._looking = every, 0, False
        self._chance = random.SystemRandom()
        self._columns: dict[int, Tensor] = {}
        generator = torch.Generator().manual_seed(secrets.randbits(62))
        # Odd, so that a change of one word is always one of the digest.
        drawn = torch.randint(-(2**62), 2**62, (_NUMBERS + 8,), generator=generator)
        self._factors = {"cpu": 2 * drawn + 1}
        self._delivered: list[Tensor] = []
        self._pieces: dict[int, _Piece] = {}
        self._seen: dict[int, int] = {}
        self._count = self._rows = 0
        self._asked: list[_Asked] = []

    def opened(self, batch: Any) -> None:
        """A piece is handed out: what it holds is looked at before anybody writes to it."""
        self._opened += 1
        self._looking = self._opened <= _FIRST or not self._chance.randrange(self._every)
        parts = _tensors(batch) if self._looking else ()
        self._delivered = [self._digests(tensor, 0) for tensor in parts]

    def judge(self, draw: Draw, passes: Iterable[Sequence[Tensor]]) -> None:
        """Raises ``ValueError``, in one line, where a pass saw an earlier one's records.

        Args:
          draw: The piece in hand.
          passes: The tensors that each pass since it was handed out was called with.
        """
        if not (self._looking and draw.keep):
            return
        found = [self._of_pass(tensors) for tensors in passes if tensors]
        asked = _Asked(draw, self._delivered, found, None)
        if not any(digests.is_cuda for digests in (*asked.parts, *asked.passes)):
            self._arrived(asked)
            return
        asked.parts = [_on_its_way(digests) for digests in asked.parts]
        asked.passes = [_on_its_way(digests) for digests in asked.passes]
        asked.arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        asked.arrived.record()
        self._asked.append(asked)
        self.check()

    def check(self, *, wait: bool = False) -> None:
        """Looks at what has arrived from a GPU, or waits for everything."""
        while self._asked:
            if wait:
                self._asked[0].arrived.synchronize()
            elif not self._asked[0].arrived.query():
                return
            self._arrived(self._asked.pop(0))

    def _arrived(self, asked: _Asked) -> None:
        parts = [digests.tolist() for digests in asked.parts]
        piece = _Piece(asked.draw.records, parts, [digests.tolist() for digests in asked.passes])
        for rows in piece.passes:
            self._compare(piece, rows)
        self._count += 1
        self._pieces[self._count] = piece
        for rows in piece.passes:
            self._seen.update(dict.fromkeys(rows, self._count))
        self._rows += piece.rows
        while self._rows > _HISTORY and len(self._pieces) > 1:
            self._forget(next(iter(self._pieces)))

    def _forget(self, count: int) -> None:
        piece = self._pieces.pop(count)
        self._rows -= piece.rows
        for rows in piece.passes:
            for digest in rows:
                if self._seen.get(digest) == count:
                    del self._seen[digest]

    def _compare(self, piece: _Piece, rows: list[int]) -> None:
        needed = max(_MOST_OF * len(rows), min(len(rows), _ALL_OF))
        distinct = set(rows)
        if len(rows) < _FEWEST or len(distinct) < len(rows) * (1 - 1 / _ALL_OF):
            return
        counts = Counter(map(self._seen.get, distinct))
        del counts[None]
        for count, same in counts.most_common(1):
            assert count is not None
            if same < needed:
                return
            explained = _in_common(piece, self._pieces[count], len(distinct))
            if 2 * explained < same:
                raise ValueError(
                    f"{same} of {len(rows)} rows that the model saw are those of an earlier batch, "
                    f"which has {explained} in common with the batch in hand: train on each batch "
                    "at its own step only"
                )

    def _of_pass(self, tensors: Sequence[Tensor]) -> Tensor:
        total = self._digests(tensors[0], 0)
        for shift, tensor in enumerate(tensors[1:], 1):
            total = total + self._digests(tensor.to(total.device), shift)
        return total

    @torch.no_grad()
    def _digests(self, values: Tensor, shift: int) -> Tensor:
        """One whole number for each row, the same wherever and among whichever rows it is."""
        if values.numel() == 0 or values.is_complex():
            return torch.zeros(len(values), dtype=torch.int64, device=values.device)
        flat = values.detach().reshape(len(values), -1)
        if flat.shape[1] > _NUMBERS:
            flat = flat.index_select(1, self._chosen(flat))
        if flat.dtype not in (torch.int64, torch.float64):
            flat = flat.float()
        flat = flat.contiguous()
        odd = flat.element_size() == 4 and flat.shape[1] % 2
        words = flat.view(torch.int32 if odd else torch.int64)
        factors = self._factors.get(words.device.type)
        if factors is None:
            factors = self._factors[words.device.type] = self._factors["cpu"].to(words.device)
        return (words * factors[8 - shift % 8 :][: words.shape[1]]).sum(1)

    def _chosen(self, flat: Tensor) -> Tensor:
        """Columns that are looked at: the first ones (texts may be short), some of the others."""
        width = flat.shape[1]
        held = self._columns.get(width)
        if held is None or held.device != flat.device:
            half = _NUMBERS // 2
            others = torch.linspace(half, width - 1, _NUMBERS - half).round().long()
            held = torch.cat([torch.arange(half), others]).to(flat.device)
            self._columns[width] = held
        return held


def _in_common(piece: _Piece, other: _Piece, distinct: int) -> int:
    """How many rows two batches share: by their places, or by what was handed out.

    A part with fewer kinds of rows than the pass saw, such as labels, is not where they came from.
    """
    most = len(set(piece.places) & set(other.places))
    for mine, theirs in zip(piece.parts, other.parts, strict=False):
        if len(set(mine)) >= distinct:
            known = set(theirs)
            most = max(most, sum(digest in known for digest in mine))
    return most


def _on_its_way(digests: Tensor) -> Tensor:
    if not digests.is_cuda:
        return digests
    copy = torch.empty(digests.shape, dtype=digests.dtype, pin_memory=True)
    copy.copy_(digests, non_blocking=True)
    return copy


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        if batch.dim() > 0 and batch.layout is torch.strided and not batch.is_nested:
            yield batch
    elif isinstance(batch, Mapping):
        yield from (tensor for value in batch.values() for tensor in _tensors(value))
    elif isinstance(batch, list | tuple):
        yield from (tensor for value in batch for tensor in _tensors(value))
