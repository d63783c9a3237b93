"""What a mechanism is told of a model's gradients, and what it is handed of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from recondite.mechanisms import Mechanism, Setting, Units
from recondite.training.bounding import Bound
from recondite.training.collector import Collector

__all__ = ["bound_rows", "setting_of", "state_of", "units_of"]


def setting_of(collector: Collector, bound: Bound, batch_size: int, max_batch_size: int) -> Setting:
    """What a mechanism is told: nothing that it could scale its noise by wrongly."""
    return Setting(
        tuple(tuple(p.shape) for p in collector.parameters),
        max_batch_size=max_batch_size,
        batch_size=batch_size,
        layers=None if bound.layer_norms() is None else collector.layer_sizes,
    )


def units_of(collector: Collector, bound: Bound, batch_size: int) -> Units:
    """The units of a run: one record's bound, and the divisor of its sums.

    Gradients that nothing bounds are handed over as they are; only a mechanism that promises
    nothing, or releases directions, may get them.
    """
    norms = bound.layer_norms()
    if norms is None:
        return Units((bound.norm if math.isfinite(bound.norm) else 1.0,), batch_size)
    owner = _owners(collector)
    return Units(
        tuple(norms[owner[p]] for p in collector.parameters),
        batch_size,
        tuple(p.numel() for p in collector.parameters),
    )


def bound_rows(rows: Tensor, collector: Collector, bound: Bound) -> Tensor:
    """Bounds every record's gradient, a row each, in place.

    Norms are taken in double precision: squares of large gradients must not overflow.
    """
    columns = [torch.zeros(len(rows), dtype=torch.float64, device=rows.device)] * len(
        collector.rules
    )
    owner, start = _owners(collector), 0
    for parameter in collector.parameters:
        piece = rows[:, start : start + parameter.numel()]
        norms = torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64)
        columns[owner[parameter]] = columns[owner[parameter]] + norms.square()
        start += parameter.numel()
    factors = bound.factors(torch.stack(columns, 1)).to(rows.dtype)
    start = 0
    for parameter in collector.parameters:
        rows[:, start : start + parameter.numel()] *= factors[:, owner[parameter], None]
        start += parameter.numel()
    return rows


def state_of(mechanism: Mechanism) -> dict[str, Any] | None:
    """The state that a run keeps for a mechanism, before its first step."""
    return mechanism.initial_state() if mechanism.stateful else None


def _owners(collector: Collector) -> dict[nn.Parameter, int]:
    """The layer of every parameter, as a column of the norms."""
    return {
        parameter: column
        for column, layer in enumerate(collector.rules)
        for parameter in layer.parameters(recurse=False)
        if parameter.requires_grad
    }
