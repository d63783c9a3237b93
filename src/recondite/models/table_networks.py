"""Networks for rows of a table: a perceptron, and one with an embedding for every category."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recondite._validate import at_least

__all__ = ["Embeddings", "table_embedding", "table_mlp"]

_WIDEST = 16  # numbers of an embedding


def _perceptron(width: int, classes: int, hidden: int) -> OrderedDict[str, nn.Module]:
    size = at_least("hidden", hidden, 1)
    return OrderedDict(
        fc1=nn.Linear(width, size),
        act1=nn.ReLU(),
        fc2=nn.Linear(size, size),
        act2=nn.ReLU(),
        fc3=nn.Linear(size, classes),
    )


def table_mlp(shape: tuple[int, ...], classes: int, norm: str, *, hidden: int = 100) -> nn.Module:
    """Vero et al. (2023): inputs-100-100-classes, ReLU, with biases.

    Args:
      shape: Of a record.
      classes: How many outputs.
      norm: It has none.
      hidden: The width of both hidden layers.
    """
    del norm
    width = math.prod(shape)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), **_perceptron(width, classes, hidden)))


class Embeddings(nn.Module):
    """One-hot columns as embeddings, other features as they are, side by side.

    A column's embedding is a linear layer without bias on its one-hot features: the row of a table
    of weights that its category picks, written so that every gradient rule and attack can read it.
    """

    def __init__(self, width: int, one_hot: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.one_hot = tuple((int(start), int(stop)) for start, stop in one_hot)
        inside = {place for start, stop in self.one_hot for place in range(start, stop)}
        self.numbers = tuple(place for place in range(width) if place not in inside)
        self.columns = nn.ModuleList(
            nn.Linear(stop - start, _size(stop - start), bias=False) for start, stop in self.one_hot
        )
        self.width = len(self.numbers) + sum(_size(stop - start) for start, stop in self.one_hot)

    def forward(self, rows: Tensor) -> Tensor:
        """Returns (n, width)."""
        parts = [
            column(rows[:, start:stop])
            for column, (start, stop) in zip(self.columns, self.one_hot, strict=True)
        ]
        return torch.cat([rows[:, list(self.numbers)], *parts], 1)


def _size(categories: int) -> int:
    """How many numbers stand for a category: half as many as there are, within reason."""
    return min(_WIDEST, (categories + 1) // 2)


def table_embedding(
    shape: tuple[int, ...],
    classes: int,
    norm: str,
    *,
    hidden: int = 100,
    one_hot: Sequence[tuple[int, int]] = (),
) -> nn.Module:
    """An embedding for each column of categories, then two hidden layers of ReLU.

    Args:
      shape: Of a record: (features,).
      classes: How many outputs.
      norm: It has none.
      hidden: The width of both hidden layers.
      one_hot: The features of each column of categories, as the records say.
    """
    del norm
    if len(shape) != 1:
        raise ValueError(f"model table-embedding takes rows of a table, got records of {shape}")
    embed = Embeddings(shape[0], one_hot)
    return nn.Sequential(OrderedDict(embed=embed, **_perceptron(embed.width, classes, hidden)))
