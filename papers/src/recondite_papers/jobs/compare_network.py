"""The network of Biswas et al. (2025), and how its initial weights are drawn.

The paper does not say. With Glorot's (Xavier's) uniform law and the printed decay all of its
Gaussian accuracies come out at every batch size, and its errors under VMF noise; Kaiming's and
orthogonal weights do as well where they were tried, torch's own do not. Picked after the fact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from recondite.models import build
from recondite.models.weights import seeded

__all__ = ["FIRST", "mlp", "network"]

# How a weight is drawn in place; None leaves it as torch has drawn it.
FIRST: dict[str, Callable[[Any], Any] | None] = {
    "xavier": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_uniform_,
    "orthogonal": nn.init.orthogonal_,
    "torch": None,
}


def network(
    shape: tuple[int, int, int], classes: int, seed: int | None, first: str = "xavier"
) -> nn.Module:
    """256-50-15-classes with sigmoids and no bias, its weights drawn from a seed."""
    with seeded(seed):
        net = build("mlp", shape, classes)
        draw = FIRST[first]
        if draw is not None:
            for weight in net.parameters():
                draw(weight)
    return net


def mlp(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The network for ``model:`` of a study file."""
    return network(shape, classes, None)
