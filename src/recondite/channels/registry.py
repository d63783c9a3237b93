"""Channels by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recondite import _validate as check
from recondite.channels.base import Channel
from recondite.channels.personalized import PersonalizedChannel
from recondite.channels.spectral import MinimumPowerChannel, NaturalChannel, WhiteChannel

__all__ = ["CHANNELS", "centre_weights", "fit", "rectangle_weights"]

CHANNELS: dict[str, type[Any]] = {
    "natural": NaturalChannel,
    "white": WhiteChannel,
    "personalized": PersonalizedChannel,
    "minimum-power": MinimumPowerChannel,
}


def fit(
    name: str, records: Any, capacity: float, *, beta: Any = None, method: str = "exact"
) -> Channel:
    """Returns a fitted channel.

    Args:
      name: natural, white, personalized or minimum-power.
      records: The records, as in :meth:`Spectrum.of`.
      capacity: What one noisy copy of a record may tell of it, in nats.
      beta: For the personalized channel: the weight of each feature.
      method: For the personalized channel: "exact", or "paper" for the bound of Tan et al. (2024).
    """
    kind = CHANNELS[check.choice("channel", name, tuple(CHANNELS))]
    options = {} if beta is None else {"beta": beta, "method": method}
    if beta is None and kind.weighted:
        raise ValueError(f"beta is needed for the {name} channel: a weight for each feature")
    if beta is not None and not kind.weighted:
        only = " or ".join(known for known, other in CHANNELS.items() if other.weighted)
        raise ValueError(f"beta belongs to the {only} channel: leave it out")
    fitted: Channel = kind.fit(records, capacity=capacity, **options)
    return fitted


def centre_weights(shape: tuple[int, ...], ratio: float = 50.0) -> NDArray[np.float64]:
    """Weights for images: ``ratio`` in the middle half of rows and columns, 1 around it.

    The same for every colour, as the position-based weights of Tan et al. (2024), which have
    the same ratio around the eyes of a face.

    >>> centre_weights((1, 4, 4), 2.0)[0].tolist()[1]
    [1.0, 2.0, 2.0, 1.0]
    """
    channels, height, width = _image(shape)
    weights = np.ones((channels, height, width))
    rows, columns = (slice(side // 4, side - side // 4) for side in (height, width))
    weights[:, rows, columns] = check.positive("ratio", ratio)
    return weights


def rectangle_weights(
    shape: tuple[int, ...],
    *,
    rows: Sequence[int],
    columns: Sequence[int],
    weight: float = 50.0,
) -> NDArray[np.float64]:
    """Weights for images: ``weight`` in a rectangle, 1 around it, the same for every colour.

    Args:
      shape: (c, h, w).
      rows: First and last row, from 0.
      columns: First and last column.
      weight: Inside.

    >>> rectangle_weights((1, 3, 4), rows=[1, 1], columns=[2, 3], weight=9)[0].tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 9.0, 9.0], [1.0, 1.0, 1.0, 1.0]]
    """
    _, height, width = _image(shape)
    for name, pair, side in (("rows", rows, height), ("columns", columns, width)):
        if len(pair) != 2 or not 0 <= pair[0] <= pair[1] < side:
            raise ValueError(f"beta {name} must be [first, last] from 0 to {side - 1}, got {pair}")
    weights = np.ones(shape)
    inside = slice(rows[0], rows[1] + 1), slice(columns[0], columns[1] + 1)
    weights[:, inside[0], inside[1]] = check.positive("beta weight", weight)
    return weights


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(
            f"beta of rows and columns is for images, and records have the shape {shape}: give a "
            ".npy file with a weight for each feature"
        )
    return shape[0], shape[1], shape[2]
