"""Where attempts begin: random images, and the patterned starts of CPL."""

from __future__ import annotations

import torch
from torch import Tensor

from recondite import _validate
from recondite.attacks.gradient.base import torch_generator
from recondite.attacks.gradient.victims import Victims

__all__ = ["STARTS", "starts"]

# Wei et al., "A framework for evaluating client privacy leakages in federated learning" (2020):
# geometric starts, a small random tile repeated, or one colour, need fewer iterations.
STARTS = ("normal", "uniform", "tiled", "grey", "colour")


def starts(victims: Victims, restarts: int, how: str = "normal") -> Tensor:
    """First images of every trial, (victims · restarts, batch, c, h, w).

    Args:
      victims: For shape, bounds and seed.
      restarts: Attempts a victim.
      how: "normal" (standard normal), "uniform" (within the bounds), "tiled" (a random quarter
        repeated four times), "grey" (the middle of the bounds, nudged) or "colour" (one random
        colour an image).
    """
    _validate.choice("start", how, STARTS)
    generator = torch_generator(victims.seed, victims.device)
    channels, height, width = victims.shape
    count = (victims.count * restarts, victims.batch_size)

    def normal(*sides: int) -> Tensor:
        return torch.randn(
            *count, *sides, generator=generator, device=victims.device, dtype=victims.dtype
        )

    def uniform(*sides: int) -> Tensor:
        made = torch.rand(
            *count, *sides, generator=generator, device=victims.device, dtype=victims.dtype
        )
        if victims.low is None or victims.high is None:
            return made
        return victims.low + made * (victims.high - victims.low)

    if how == "normal":
        return normal(channels, height, width)
    if how == "uniform":
        return uniform(channels, height, width)
    if how == "tiled":
        tile = normal(channels, -(-height // 2), -(-width // 2))
        return tile.repeat(1, 1, 1, 2, 2)[..., :height, :width].contiguous()
    if how == "colour":
        return uniform(channels, 1, 1).expand(*count, channels, height, width).clone()
    middle = 0.0
    if victims.low is not None and victims.high is not None:
        return 0.5 * (victims.low + victims.high) + 1e-3 * normal(channels, height, width)
    return middle + 1e-3 * normal(channels, height, width)
