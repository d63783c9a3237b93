"""Norms that rounding can only make larger: what is clipped by them is never clipped too little.

Two ways lead to the norm of a sample's gradient. Either the gradient itself is measured, and the
same numbers are then summed; or it follows from products that are quicker, with a rigorous bound
on their rounding added (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1: an
inner product of k terms is off by at most k·u times that of the absolute values, in any order of
summation). Where the bound is not small against the norm, or numbers leave the range in which it
holds, the answer is NaN: the caller measures those samples' gradients.

On a GPU nobody can look at an answer without waiting for it. Within :func:`unseen` there is no NaN
for a finite gradient: squares are added in double precision, which holds them at any scale, and a
bound that is not small is taken as it is. Such a sample is clipped more than need be, never less.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

import torch

from recondite.numerics.device_noise import fused, row_squares

__all__ = [
    "SLACK",
    "UNIT",
    "above",
    "full_precision",
    "gram",
    "in_memory",
    "measured",
    "quick",
    "sizes",
    "unseen",
    "with_errors",
]

# Terms of one sum in single precision; the sums are then added in double precision.
_BLOCK = 32
# Roundings of a squared norm, of the factor made from it and of what both bound, beside those of
# its terms. Norms and factors are in double precision always: fewer are in single precision.
_MORE = {torch.float32: 8, torch.float64: 32}
# Outside these norms squares in single precision may be lost, or products overflow.
_LEAST, _MOST = 2.0**-40, 2.0**60
# Below this much of a squared norm a bound on its error is added to it; above, it is measured.
SLACK = 0.02
# Numbers whose squares are as quick to add in double precision.
_FEW = 1 << 17
# Half the distance from 1 to the next number, and the smallest number with all its digits.
UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
_TINY = {torch.float32: 2.0**-126, torch.float64: 2.0**-1022}


def quick(values: torch.Tensor) -> torch.Tensor:
    """Upper bounds on the squared norms of rows, in double precision; NaN where unknown.

    >>> squared = quick(torch.tensor([[3.0, 4.0], [3e-30, 4e-30], [3e30, 4e30]]))
    >>> 25.0 <= float(squared[0]) < 25.001, squared[1:].isnan().all().item()
    (True, True)
    """
    if _unseen[-1]:
        return measured(values)
    flat = in_memory(values)[0].reshape(len(values), -1)
    whole = flat.shape[1] // _BLOCK * _BLOCK
    parts = []
    if whole:
        blocks = flat[:, :whole].reshape(len(flat), -1, _BLOCK)
        parts.append(torch.linalg.vector_norm(blocks, dim=2))
    if whole < flat.shape[1]:
        parts.append(torch.linalg.vector_norm(flat[:, whole:], dim=1, keepdim=True))
    terms = min(_BLOCK, flat.shape[1])
    squared = torch.cat(parts, 1).double().square().sum(1)
    squared.mul_(above(values.dtype, terms, flat.shape[1] // _BLOCK))
    known = (squared >= _LEAST**2) & (squared <= _MOST**2)
    return squared.masked_fill_(~known, torch.nan)


def sizes(values: torch.Tensor) -> torch.Tensor:
    """As ``quick``; without NaN for finite numbers where there are so few that all is overhead."""
    return measured(values) if values.numel() <= _FEW else quick(values)


def measured(values: torch.Tensor) -> torch.Tensor:
    """Upper bounds on the squared norms of rows, in double precision, at any scale of theirs."""
    flat = values
    if flat.dim() != 2:
        flat = in_memory(values)[0].reshape(len(values), -1)
    squared: torch.Tensor
    if flat.dtype == torch.float32 and fused(flat, None):
        squared = row_squares(flat)  # one kernel, and no copy
    else:  # the root and its square are two of the many roundings that are allowed for
        squared = torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64).square_()
    return squared.mul_(above(flat.dtype, 0, flat.shape[1]))


def in_memory(values: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...]]:
    """Rows with their axes turned to the order they have in memory, and where each axis went.

    >>> turned, places = in_memory(torch.zeros(2, 5, 7, 3).permute(0, 3, 1, 2))
    >>> turned.shape, places, turned.permute(places).shape
    (torch.Size([2, 5, 7, 3]), (0, 3, 1, 2), torch.Size([2, 3, 5, 7]))
    """
    if values.dim() < 3 or values.is_contiguous():
        return values, tuple(range(values.dim()))
    steps = values.stride()
    order = (0, *sorted(range(1, values.dim()), key=lambda axis: -steps[axis]))
    return values.permute(order), tuple(order.index(axis) for axis in range(values.dim()))


def above(dtype: torch.dtype, terms: int, sums: int) -> float:
    """What a computed squared norm is multiplied with, so that no rounding leaves it too small.

    Args:
      dtype: Of the numbers; those narrower than single precision were widened before.
      terms: Squares that are added in that precision.
      sums: Sums of them that are added in double precision.
    """
    return 1.0 + (terms + _MORE[dtype]) * UNIT[dtype] + (sums + 1) * UNIT[torch.float64]


def with_errors(
    squared: torch.Tensor,
    sizes: torch.Tensor,
    lengths: tuple[int, int],
    unit: float,
    lost: torch.Tensor | float = 0.0,
) -> torch.Tensor:
    """Upper bounds on squared norms of Σ_t b_t a_tᵀ that were computed with rounding.

    Args:
      squared: What was computed, in double precision.
      sizes: Σ_t ‖a_t‖·‖b_t‖, or more: rounding is relative to it, not to the norm.
      lengths: Terms k of the products behind ``squared``, which are off by k·u·sizes², and terms of
        the sums that make the gradient from the same numbers, which are off by k·u·sizes.
      unit: u, half the distance from 1 to the next number.
      lost: What ``squared`` may have lost where products fell below the smallest numbers.

    Returns:
      The bounds; NaN where they are more than ``SLACK`` above ``squared``, unless ``unseen``.
    """
    raised = squared + 1.1 * lengths[0] * unit * sizes.square() + lost
    upper = (raised.clamp(min=0.0).sqrt() + 1.1 * lengths[1] * unit * sizes).square()
    if _unseen[-1]:
        return upper
    known = (upper <= (1.0 + SLACK) * squared) & (upper >= _LEAST**2) & (upper <= _MOST**2)
    return upper.masked_fill(~known, torch.nan)


def gram(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Upper bounds on ‖Σ_t b_t a_tᵀ‖² from ⟨aaᵀ, bbᵀ⟩; NaN where the products cancel too much.

    Args:
      a: Samples, positions, inputs.
      b: Samples, positions, outputs.
    """
    with full_precision():
        left, right = a @ a.mT, b @ b.mT
    squared = (left * right).sum((1, 2), dtype=torch.float64)
    unit, tiny = UNIT[a.dtype], _TINY[a.dtype]
    inner = a.shape[2], b.shape[2]
    # The diagonals are the rows' squared norms; what underflowed in them is put back.
    rows = [
        products.diagonal(dim1=1, dim2=2).double() + 2 * length * tiny
        for products, length in zip((left, right), inner, strict=True)
    ]
    sizes = (rows[0] * rows[1]).sqrt().sum(1) * (1.0 + 2 * max(inner) * unit)
    steps = a.shape[1]
    lost = 2 * tiny * steps * (inner[1] * rows[0].sum(1) + inner[0] * rows[1].sum(1) + steps)
    summed = steps**2 if a.dtype == torch.float64 else 0  # in double precision, in either case
    return with_errors(squared, sizes, (sum(inner) + summed + 2, steps + 2), unit, lost)


_unseen = [False]


@contextmanager
def unseen() -> Iterator[None]:
    """Norms that nobody will look at before they are used."""
    _unseen.append(True)
    try:
        yield
    finally:
        _unseen.pop()


@lru_cache
def _settings() -> tuple[tuple[Any, str, Any], ...]:
    """Where torch says how products are computed: the place, its attribute, and exactly."""
    found = []
    for name in ("cuda.matmul", "cudnn.conv", "mkldnn.matmul", "mkldnn.conv"):
        place: Any = torch.backends
        for part in name.split("."):
            place = getattr(place, part, None)
        attribute, exact = "fp32_precision", "ieee"
        if not hasattr(place, attribute):  # torch before 2.9
            attribute, exact = "allow_tf32", False  # type: ignore[assignment]
            place = torch.backends.cudnn if name == "cudnn.conv" else place
        if place is not None and hasattr(place, attribute):
            found.append((place, attribute, exact))
    return tuple(found)


class full_precision:  # noqa: N801 (it is used as a function)
    """Products of single-precision numbers without TensorFloat-32 or bfloat16 in between.

    The bounds on rounding above are those of single precision. Gradients that are measured need no
    such care: what is measured is what is summed.
    """

    # Settings are the process's: whoever comes first sets them, and the last one sets them back.
    _inside: ClassVar[int] = 0
    _before: ClassVar[list[tuple[Any, str, Any]]] = []

    def __enter__(self) -> None:
        kind = type(self)
        kind._inside += 1
        if kind._inside > 1:
            return
        for place, attribute, exact in _settings():
            before = getattr(place, attribute)
            if before != exact:
                setattr(place, attribute, exact)
                kind._before.append((place, attribute, before))

    def __exit__(self, *error: object) -> None:
        kind = type(self)
        kind._inside -= 1
        while kind._inside == 0 and kind._before:
            setattr(*kind._before.pop())
