"""The exact attack on a first linear layer: its gradient is an outer product with the input."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from recondite.attacks.gradient.base import AttackProgress, GradientAttack, Reconstruction
from recondite.attacks.gradient.victims import Victims

__all__ = ["Analytic", "distinct"]


@dataclass(frozen=True)
class Analytic(GradientAttack):
    """Phong et al., "Privacy-preserving deep learning via … homomorphic encryption" (2018).

    Where records enter a linear layer first, row i of its weight's gradient is (derivative at
    output i) times the record, and the bias's gradient is that derivative: their quotient is the
    record, exactly, for a batch of one; under noise the rows' quotients are combined by least
    squares. Without a bias the gradient of one record has rank one: its direction is found up to
    a factor, which the bounds fix (an estimate). From a larger batch with a bias come weighted
    averages, exact for every output that only one record activates.

    The loss is the share of the layer's gradient (squared norm) that records like these cannot
    explain: 0 where nothing was added.
    """

    name: ClassVar[str] = "analytic"
    paper: ClassVar[str] = "Phong et al., Privacy-preserving deep learning (2018)"

    def _attack(
        self,
        victims: Victims,
        progress: Callable[[AttackProgress], None] | None,
        time_limit: float | None,
    ) -> Reconstruction:
        del progress, time_limit
        began = time.perf_counter()
        name, bias = first_linear(victims)
        weight = victims.gradients[name].double()
        if bias is not None:
            flat, notes = quotients(weight, victims.gradients[bias].double(), victims)
        elif victims.batch_size == 1:
            flat, notes = _rank_one(weight, victims)
        else:
            raise ValueError(
                "analytic needs a bias in the first linear layer for batches above 1: a sum of "
                "outer products does not tell the records apart"
            )
        images = flat.to(victims.dtype).reshape(victims.count, victims.batch_size, *victims.shape)
        return Reconstruction(
            images=images,
            labels=victims.labels,
            loss=_unexplained(weight, flat).to(victims.dtype),
            seconds=time.perf_counter() - began,
            notes=notes,
        )


def first_linear(victims: Victims) -> tuple[str, str | None]:
    """Names of the weight and the bias of the layer that records enter."""
    pixels = math.prod(victims.shape)
    for name, module in victims.model.named_modules():
        if isinstance(module, nn.Linear) and module.in_features == pixels:
            prefix = f"{name}." if name else ""
            if f"{prefix}weight" in victims.gradients:
                bias = f"{prefix}bias"
                return f"{prefix}weight", bias if bias in victims.gradients else None
        if next(module.parameters(recurse=False), None) is not None:
            break
    raise ValueError(
        f"analytic needs a model whose first layer is linear on all {pixels} pixels: choose "
        "inverting-gradients"
    )


def quotients(weight: Tensor, bias: Tensor, victims: Victims) -> tuple[Tensor, tuple[str, ...]]:
    batch = victims.batch_size
    if not bool(bias.any(1).all()):
        raise ValueError("analytic: the first layer's bias has a zero gradient: nothing to divide")
    if batch == 1:
        found = bias.unsqueeze(1) @ weight / bias.square().sum(1).reshape(-1, 1, 1)
        exact = bool((_unexplained(weight, found) < 1e-8).all())
        how = "exact" if exact else "an estimate, since noise or other records were added"
        return found, (f"{how}: one record, a first linear layer with a bias",)
    silent = bias == 0
    candidates = weight / torch.where(silent, torch.inf, bias).unsqueeze(2)
    outside = _outside(candidates, victims).masked_fill(silent, torch.inf)
    images = []
    for rows, miss in zip(candidates, outside, strict=True):
        images.append(distinct(rows[miss.argsort()], batch))
    return torch.stack(images), (
        "rows that one record alone activates are exact, others are weighted averages: an estimate",
    )


def _unexplained(weight: Tensor, records: Tensor) -> Tensor:
    """Share of (victims, out, in) outside the span of (victims, batch, in), (victims,)."""
    _, size, basis = torch.linalg.svd(records, full_matrices=False)
    # A record found twice spans nothing more.
    kept = (size > 1e-9 * size[:, :1]).unsqueeze(1)
    inside = ((weight @ basis.transpose(1, 2)) * kept).square().sum((1, 2))
    rest: Tensor = 1.0 - inside / weight.square().sum((1, 2)).clamp_min(1e-300)
    return rest.clamp_min(0.0)


def _outside(candidates: Tensor, victims: Victims) -> Tensor:
    """How far candidates lie beyond the bounds: averages with negative weights leave them."""
    if victims.low is None or victims.high is None:
        return candidates.square().mean(2)
    shaped = candidates.reshape(*candidates.shape[:2], *victims.shape)
    return (shaped - victims.clamp(shaped)).abs().flatten(2).mean(2)


def distinct(rows: Tensor, count: int) -> Tensor:
    """The first rows that differ from each other; repeated when there are not enough."""
    chosen: list[Tensor] = []
    for row in rows:
        if all(float((row - other).abs().max()) > 1e-4 for other in chosen):
            chosen.append(row)
        if len(chosen) == count:
            break
    chosen += [chosen[-1]] * (count - len(chosen))
    return torch.stack(chosen)


def _rank_one(weight: Tensor, victims: Victims) -> tuple[Tensor, tuple[str, ...]]:
    direction = torch.linalg.svd(weight, full_matrices=False).Vh[:, 0]
    if victims.low is None or victims.high is None:
        note = "up to a factor: without a bias and bounds the scale and sign stay unknown"
        return direction.unsqueeze(1), (note,)
    # The sign that keeps most of the image within the bounds, at the largest scale that does.
    fits = []
    for sign in (1.0, -1.0):
        shaped = (sign * direction).reshape(victims.count, *victims.shape)
        room = torch.where(shaped > 0, victims.high, victims.low).expand_as(shaped).double()
        ratio = torch.where(shaped.abs() > 1e-9, room / shaped, torch.inf).clamp_min(0.0)
        fits.append((ratio.flatten(1).amin(1), sign))
    plus, minus = fits[0][0], fits[1][0]
    scale = torch.where(plus >= minus, plus, -minus).unsqueeze(1)
    return (scale * direction).unsqueeze(1), (
        "up to a factor: without a bias the scale is the largest the bounds allow (an estimate)",
    )
