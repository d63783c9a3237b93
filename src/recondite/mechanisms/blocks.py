"""How a gradient is cut into blocks that get noise of their own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from recondite import _validate
from recondite.laws import LossLaw, ProductLoss, SphereLoss

__all__ = ["block_sizes", "named_blocks", "product_law", "split"]


def block_sizes(dim: int, blocks: int | Sequence[int] | str) -> tuple[int, ...]:
    """Sizes of the blocks: m nearly equal parts, or the sizes given.

    A block of one coordinate has no direction to noise and is merged into its neighbour.

    >>> block_sizes(10, 3)
    (4, 3, 3)
    >>> block_sizes(6, (4, 1, 1))
    (4, 2)
    >>> block_sizes(6, (1, 5))
    (6,)
    """
    _validate.at_least("dim", dim, 2)
    if isinstance(blocks, str):
        raise ValueError(f"blocks {blocks!r} needs a model: give a number or the sizes")
    if not isinstance(blocks, Sequence):
        count = _validate.at_least("blocks", blocks, 1)
        if count > dim // 2:
            raise ValueError(f"blocks must be {dim // 2} or fewer for dim {dim}, got {blocks}")
        whole, extra = divmod(dim, count)
        return tuple(whole + (i < extra) for i in range(count))
    sizes = [_validate.at_least("blocks", size, 1) for size in blocks]
    if sum(sizes) != dim:
        raise ValueError(f"blocks must add up to dim {dim}, got {sum(sizes)}")
    merged: list[int] = []
    carry = 0
    for size in sizes:
        carry += size
        if carry > 1:
            merged.append(carry)
            carry = 0
    if carry:
        merged[-1] += carry
    return tuple(merged)


def named_blocks(
    blocks: int | Sequence[int] | str, shapes: Sequence[tuple[int, ...]]
) -> int | tuple[int, ...]:
    """Blocks by name: one for each parameter ("layers"), or for each of its rows ("rows").

    >>> named_blocks("rows", [(2, 3), (2,)])
    (3, 3, 2)
    """
    if isinstance(blocks, int):
        return blocks
    if not isinstance(blocks, str):
        return tuple(blocks)
    _validate.choice("blocks", blocks, ("layers", "rows"))
    sizes: list[int] = []
    for shape in shapes:
        size = math.prod(shape)
        rows = shape[0] if blocks == "rows" and len(shape) > 1 else 1
        sizes += [size // rows] * rows
    return tuple(sizes)


def product_law(sizes: Sequence[int], kappas: Sequence[float]) -> LossLaw:
    """The product of the blocks' antipodal pairs; one block is just its own law."""
    counts = Counter(zip(sizes, kappas, strict=True))
    factors = tuple((SphereLoss(size, kappa), n) for (size, kappa), n in counts.items())
    if len(factors) == 1 and factors[0][1] == 1:
        return factors[0][0]
    return ProductLoss(factors)


def split(vector: Any, sizes: Sequence[int]) -> list[Any]:
    """Views of the blocks along the last axis."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(vector[..., start : start + size])
        start += size
    return pieces
