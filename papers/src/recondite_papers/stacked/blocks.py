"""DirDP noise on every record of every run, block by block, for any partition of the gradient.

A record's gradient is cut into blocks, every block's direction gets a von Mises-Fisher draw of its
own, and the record's noisy gradient is joined again with weights. Cosines are taken at random from
a pool of 2¹⁸ exact draws for each block size and κ: with a million draws a step, drawing each anew
would cost more than the training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from recondite.numerics.sphere import cosines
from recondite_papers.stacked.network import Stack, Taps

__all__ = ["Partition", "block_shapes"]

_POOL = 1 << 18
_SELDOM = 1e-3  # chance of a flipped sign from which on flips are drawn rather than signs


def block_shapes(shapes: Sequence[tuple[int, ...]], blocks: str | int) -> list[tuple[int, int]]:
    """(number, size) of the blocks of each parameter, or of the whole gradient if joined.

    >>> block_shapes([(6, 3, 5, 5), (6,)], "rows")
    [(6, 75), (1, 6)]
    >>> block_shapes([(6, 3, 5, 5), (6,)], "last-axis")
    [(90, 5), (1, 6)]
    >>> block_shapes([(6, 3, 5, 5), (6,)], "flat")
    [(1, 456)]
    >>> block_shapes([(6, 3, 5, 5), (6,)], 4)
    [(4, 114)]
    """
    sizes = [math.prod(shape) for shape in shapes]
    if blocks == "flat":
        return [(1, sum(sizes))]
    if isinstance(blocks, int):
        return [(blocks, math.ceil(sum(sizes) / blocks))]
    if blocks == "layers":
        return [(1, size) for size in sizes]
    if blocks == "elements":
        return [(size, 1) for size in sizes]
    out = []
    for shape, size in zip(shapes, sizes, strict=True):
        if len(shape) == 1:
            out.append((1, size))
        else:
            last = size // shape[0] if blocks == "rows" else shape[-1]
            out.append((size // last, last))
    return out


class Partition:
    """Draws noise for (R, B, ·) per-sample gradients and sums over the samples."""

    def __init__(
        self,
        stack: Stack,
        kappas: Sequence[float],
        blocks: str | int,
        weights: str,
        generator: torch.Generator,
        pool: int = _POOL,
    ) -> None:
        self.pool = pool
        self.shapes = block_shapes(stack.shapes, blocks)
        self.joined = blocks == "flat" or isinstance(blocks, int)
        self.dim, self.own, self.generator = stack.dim, weights != "public", generator
        self.clipped = weights == "clipped"
        self.kappas = list(kappas)
        self.pools: dict[int, tuple[Tensor, Tensor]] = {}
        device = stack.device
        like = torch.empty(1, device=device)
        for size in {size for _, size in self.shapes if size > 1}:
            pairs = [cosines(pool, size, kappa, like, generator) for kappa in self.kappas]
            self.pools[size] = (
                torch.stack([pair[0].float() for pair in pairs]),
                torch.stack([pair[1].float() for pair in pairs]),
            )
        self.keep = torch.sigmoid(2.0 * torch.tensor(self.kappas, device=device))
        # Chances of a flip in double precision. How many flips there are is known on the host
        # alone, so that a GPU, whose steps are recorded, draws every sign.
        chances = [math.exp(-2.0 * k) / (1.0 + math.exp(-2.0 * k)) for k in self.kappas]
        seldom = [p < _SELDOM and device.type == "cpu" for p in chances]
        self.seldom = {run: p for run, p in enumerate(chances) if seldom[run]}
        self.often = [run for run in range(len(chances)) if not seldom[run]]

    def __call__(self, gradients: list[Tensor], mask: Tensor) -> Tensor:
        """Σ over the samples of their noised gradients, (R, dim).

        Args:
          gradients: Per-sample gradients of each parameter, (R, B, …).
          mask: (R, B).
        """
        flats = [g.flatten(2) for g in gradients]
        # A record that the network is sure of may have a gradient of 1e-30: squares underflow.
        peaks = torch.stack([g.abs().amax(-1) for g in flats]).amax(0)
        scale = torch.where(peaks > 0, peaks, torch.ones_like(peaks))[:, :, None]
        flats = [g / scale for g in flats]
        squared = torch.stack([g.square().sum(-1) for g in flats]).sum(0)
        norms = torch.where(squared > 0, squared, torch.ones_like(squared)).sqrt()[:, :, None]
        if self.clipped:
            mask = mask * (scale * norms)[:, :, 0].clamp(max=1.0) * (squared > 0)
        pieces = [torch.cat(flats, 2)] if self.joined else flats
        out = []
        for piece, (count, size) in zip(pieces, self.shapes, strict=True):
            out.append(self._noised(piece / norms, count, size, mask)[:, : piece.shape[2]])
        return torch.cat(out, 1)

    @property
    def single(self) -> bool:
        """Whether every block is one coordinate."""
        return all(size == 1 for _, size in self.shapes)

    def flipped(self, stack: Stack, taps: Taps, factors: Tensor) -> Tensor:
        """The same for single coordinates that keep their sizes, in half as many passes.

        Args:
          stack: The networks.
          taps: Of some samples.
          factors: (R, B), what each sample's gradient is multiplied by.
        """
        scaled = Taps(taps.inputs, [d * factors[:, :, None, None] for d in taps.deltas])
        if not self.seldom:
            return self._all_signs(stack, scaled, self.keep)
        total = stack.weighted_sum(taps, factors[:, :, None].expand(-1, -1, len(taps.inputs)))
        for run, chance in self.seldom.items():
            total[run] -= 2.0 * self._flips(stack, scaled, run, chance)
        if self.often:
            part = Taps(
                [a[self.often] for a in scaled.inputs], [d[self.often] for d in scaled.deltas]
            )
            total[self.often] = self._all_signs(stack, part, self.keep[self.often])
        return total

    def _all_signs(self, stack: Stack, scaled: Taps, keep: Tensor) -> Tensor:
        """Σ over the samples, with a sign drawn for every weight of every sample."""
        out = []
        for gradient in stack.per_sample(scaled):
            flat = gradient.flatten(2)
            uniform = torch.rand(flat.shape, device=flat.device, generator=self.generator)
            kept = uniform < keep.view(-1, 1, 1)
            out.append(torch.where(kept, flat, -flat).sum(1))
        return torch.cat(out, 1)

    def _flips(self, stack: Stack, scaled: Taps, run: int, chance: float) -> Tensor:
        """(dim,): Σ over the samples of what is flipped; gaps between flips are geometric."""
        batch, dim = scaled.deltas[0].shape[1], self.dim
        out = torch.zeros(dim)
        places = self._places(batch * dim, chance)
        if len(places):
            sample = torch.div(places, dim, rounding_mode="floor")
            coordinate = places % dim
            out.index_add_(0, coordinate, stack.entries(scaled, run, sample, coordinate))
        return out

    def _places(self, count: int, chance: float) -> Tensor:
        """Numbers below ``count``, each there with this chance, independently; in order."""
        if count * chance < 1e-12:  # nothing that a random number resolves
            return torch.zeros(0, dtype=torch.long)
        found, last, step = [], -1.0, max(16, round(1.2 * count * chance))
        while last < count:
            uniform = torch.rand(step, dtype=torch.float64, generator=self.generator)
            gaps = (torch.log1p(-uniform) / math.log1p(-chance)).ceil().clamp(min=1.0)
            ends = last + gaps.clamp(max=2.0 * count).cumsum(0)
            found.append(ends)
            last = float(ends[-1])
        places = torch.cat(found)
        return places[places < count].long()

    def _noised(self, piece: Tensor, count: int, size: int, mask: Tensor) -> Tensor:
        runs, batch, width = piece.shape
        pad = count * size - width
        if pad:
            piece = torch.nn.functional.pad(piece, (0, pad))
        blocks = piece.view(runs, batch, count, size)
        if size == 1:
            return self._signs(blocks, mask)
        lengths = blocks.norm(dim=-1, keepdim=True)
        noise = torch.randn(blocks.shape, device=blocks.device, generator=self.generator)
        if pad:
            noise.view(runs, batch, -1)[:, :, width:] = 0.0
        unit = torch.where(lengths > 0, blocks / lengths.clamp(min=1e-38), torch.zeros_like(blocks))
        along = (noise * unit).sum(-1, keepdim=True)
        tangent = (noise.square().sum(-1, keepdim=True) - along.square()).clamp(min=1e-30).sqrt()
        t, s = self._cosines(runs, batch * count, size)
        t, s = t.view_as(along), s.view_as(along)
        weight = lengths if self.own else torch.full_like(lengths, math.sqrt(size / self.dim))
        weight = weight * mask[:, :, None, None]
        zero = lengths == 0
        on_unit = torch.where(zero, torch.zeros_like(t), t - s * along / tangent) * weight
        on_noise = torch.where(zero, torch.ones_like(s), s) / tangent * weight
        return (unit * on_unit + noise * on_noise).sum(1).flatten(1)

    def _cosines(self, runs: int, count: int, size: int) -> tuple[Tensor, Tensor]:
        t, s = self.pools[size]
        index = torch.randint(self.pool, (runs, count), device=t.device, generator=self.generator)
        return t.gather(1, index), s.gather(1, index)

    def _signs(self, blocks: Tensor, mask: Tensor) -> Tensor:
        """Blocks of one coordinate: the sign, kept with probability e^κ/(e^κ + e^-κ)."""
        uniform = torch.rand(blocks.shape, device=blocks.device, generator=self.generator)
        kept = uniform < self.keep.view(-1, 1, 1, 1)
        fair = (uniform < 0.5).to(blocks.dtype) * 2 - 1
        sign = torch.where(blocks == 0, fair, blocks.sign() * (kept.to(blocks.dtype) * 2 - 1))
        weight = blocks.abs() if self.own else math.sqrt(1 / self.dim)
        return (sign * weight * mask[:, :, None, None]).sum(1).flatten(1)
