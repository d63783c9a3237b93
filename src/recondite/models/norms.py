"""What stands where an architecture normalises its channels."""

from __future__ import annotations

import math

from torch import nn

__all__ = ["NORMS", "norm_layer"]

NORMS = ("group", "batch", "none")


def norm_layer(norm: str, channels: int) -> nn.Module:
    """Returns the layer that normalises so many channels.

    "batch" mixes the records of a batch, so that no gradient belongs to one record: private
    training refuses it. "group" (at most 32 groups) has as many parameters and does not.
    """
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if norm == "group":
        return nn.GroupNorm(math.gcd(32, channels), channels)
    return nn.Identity()
