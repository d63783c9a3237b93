"""Every record's gradient of a convolution's weights, by the quicker of two ways on a CPU.

One way is a convolution with the records side by side as groups: quick where a kernel for the
number of channels exists, those that are multiples of 8. The other is a product of patches with the
output's gradient, record by record: patches are copied a few records at a time, so that they stay
in the cache, and channels last, so that a row of the kernel is copied as one piece. It is quicker
for other numbers of channels, and for few positions, where the first way spends its time on
arranging weights. Which way is taken depends on shapes only, never on a clock: a run that is
repeated, or resumed, gets the same numbers.

Either way the gradients are formed, and what is measured is what is summed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from recondite.gradients.patches import copied_patches

__all__ = ["from_patches", "patches_are_quicker"]

# Positions up to which arranging weights costs more than the products.
_FEW = 16
# Channels for which the convolution has a kernel of its own, as groups.
_LANES = 8
# Numbers of a kernel's row, all channels of it, below which copies are too short to be quick.
_RUN = 32
# Numbers that are copied at a time, on each thread: half a megabyte.
_AT_A_TIME = 1 << 17


def patches_are_quicker(conv: Any, positions: int) -> bool:
    """Whether products of patches make every record's gradient, not a convolution of groups.

    Args:
      conv: The layer.
      positions: Of the kernel in an image.
    """
    if conv.groups > 1:
        return False
    even = conv.in_channels % _LANES == 0 and conv.out_channels % _LANES == 0
    wide = conv.in_channels * conv.kernel_size[1] >= _RUN
    return bool(positions <= _FEW or (wide and not even))


def from_patches(conv: Any, a: Tensor, b: Tensor, padding: tuple[int, int]) -> Tensor:
    """Every record's gradient, of the weights' shape; in memory the channels come last.

    Args:
      conv: The layer, of one group.
      a: Its input.
      b: The gradient of its output, in the same precision.
      padding: Zeros around the image, above and below, left and right.
    """
    count, channels = a.shape[:2]
    rows, columns = conv.kernel_size
    outputs, *places = b.shape[1:]
    positions, numbers = places[0] * places[1], rows * columns * channels
    found = a.new_empty(count, outputs, numbers)
    slopes = b.reshape(count, outputs, positions)
    most = _AT_A_TIME * torch.get_num_threads() // max(1, positions * numbers)
    start = 0
    for held in copied_patches(
        a, conv.kernel_size, conv.dilation, padding, conv.stride, places, max(1, most)
    ):
        end = start + len(held)
        torch.bmm(slopes[start:end], held, out=found[start:end])
        start = end
    return found.view(count, outputs, rows, columns, channels).permute(0, 1, 4, 2, 3)
