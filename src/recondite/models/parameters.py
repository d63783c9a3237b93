"""How many parameters, and where their first values come from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from recondite._validate import at_least

__all__ = ["count_parameters", "seeded"]


def count_parameters(model: nn.Module, trainable_only: bool = True) -> int:
    """Tells how many numbers the model learns: the dimension of its gradient.

    Args:
      model: Any module. A parameter that several layers share counts once.
      trainable_only: Leaves out frozen parameters, which have no gradient.
    """
    parameters = model.parameters()
    return sum(p.numel() for p in parameters if p.requires_grad or not trainable_only)


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draws what is drawn inside from a seed, on the CPU, and puts the generator back.

    With a seed, the weights are the same on every machine and device, and torch's generators are
    after it what they were before. Without one, this does nothing.
    """
    if seed is None:
        yield
        return
    number = at_least("seed", seed, 0)
    if number >= 2**63:
        raise ValueError(f"seed must lie below 2^63, got {seed!r}")
    # torch.manual_seed would also set the generators of every accelerator.
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(number)
    try:
        with torch.device("cpu"):
            yield
    finally:
        generator.set_state(state)
