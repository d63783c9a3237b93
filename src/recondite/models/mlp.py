"""The multi-layer perceptrons of the directional-noise papers."""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import nn

from recondite._validate import at_least

__all__ = ["mlp", "mlp2"]


def mlp(shape: tuple[int, int, int], classes: int, norm: str) -> nn.Module:
    """Biswas et al. (2025): inputs-50-15-classes, sigmoid, no bias; 13,700 on 1x16x16."""
    del norm
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(math.prod(shape), 50, bias=False),
            act1=nn.Sigmoid(),
            fc2=nn.Linear(50, 15, bias=False),
            act2=nn.Sigmoid(),
            fc3=nn.Linear(15, classes, bias=False),
        )
    )


def mlp2(shape: tuple[int, int, int], classes: int, norm: str, *, hidden: int = 1024) -> nn.Module:
    """Faustini et al.: "a simple multilayer perceptron with 2 layers".

    Args:
      shape: (c, h, w) of an image.
      classes: How many.
      norm: It has none.
      hidden: The width of the hidden layer.
    """
    del norm
    width = at_least("hidden", hidden, 1)
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(math.prod(shape), width),
            act1=nn.ReLU(),
            fc2=nn.Linear(width, classes),
        )
    )
