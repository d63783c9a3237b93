"""Noise on records: channels of the Natural kind, trained on and attacked by their noisy copies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from recondite_papers.frontier.risk import gains, identified, wiener
from recondite_papers.frontier.world import World

__all__ = ["judged", "noisy_inputs", "noisy_training_set", "variance_of"]


def variance_of(values: Tensor, capacity: float) -> float:
    """The variance at which ½·Σ ln(1 + λ/variance) is the capacity, from above."""
    low, high = 1e-9, 1e9
    for _ in range(120):
        middle = math.sqrt(low * high)
        told = 0.5 * float(torch.log1p(values / middle).sum())
        low, high = (middle, high) if told > capacity else (low, middle)
    return high


def noisy_training_set(world: World, variance: float, seed: int) -> tuple[Tensor, Tensor]:
    """One noisy copy of every record as the model sees it, and the victims' copies in pixels."""
    generator = torch.Generator(world.device).manual_seed(seed)
    images = world.data.images
    noise = torch.randn(images.shape, device=world.device, generator=generator)
    noisy = images + math.sqrt(variance) * noise
    return world.seen(noisy), noisy[: world.sizes.victims].flatten(1)


def noisy_inputs(
    world: World, variances: list[float], repeats: int, seed: int
) -> Callable[[Tensor], Tensor]:
    """From indices to (R, B, 1, …) with fresh noise at every use, one variance a run.

    Args:
      world: The records.
      variances: One for each group of runs.
      repeats: Runs that share their noise.
      seed: Of the noise.
    """
    generator = torch.Generator(world.device).manual_seed(seed)
    scales = torch.tensor(variances, device=world.device).sqrt().view(-1, 1, 1, 1, 1)

    def inputs(index: Tensor) -> Tensor:
        images = world.data.images[index]
        shape = (len(variances), *images.shape)
        noise = torch.randn(shape, device=world.device, generator=generator)
        made = torch.stack([world.seen(some) for some in images + scales * noise])
        return made.repeat_interleave(repeats, 0).unsqueeze(2)

    return inputs


def judged(
    world: World, variance: float, uses: np.ndarray, seed: int, copies: Tensor | None = None
) -> dict[str, float]:
    """What the holder of the noisy copies makes of them: the better of two attackers.

    Args:
      world: The records.
      variance: Of the noise on one copy.
      uses: Copies that were made of each victim.
      seed: Of the noise, where the copies are not given: the mean of k copies is drawn by its law.
      copies: (V, features), where there is one of each.
    """
    public = world.public
    count = torch.as_tensor(np.maximum(uses, 0), device=world.device, dtype=torch.float64)[:, None]
    seen = copies
    if seen is None:
        generator = torch.Generator(world.device).manual_seed(seed)
        noise = torch.randn(public.victims.shape, device=world.device, generator=generator)
        seen = public.victims + noise * (variance / count.clamp(min=1.0)).sqrt().float()
    true = (seen - public.victims).double().square().sum(1)[:, None]
    others = torch.cdist(seen.double(), public.pool.double()).square()
    scores = -0.5 * count / variance * torch.cat([true, others], 1)
    weights = gains(scores[:, 1:], public)
    # Victims that were never used have no copy; there are hardly any.
    linear = wiener(seen, variance / max(1.0, float(np.mean(uses))), public, world.within)
    out = {f"identified_{n}": rate for n, rate in identified(scores).items()}
    return {**out, "gain": max(weights["gain"], linear), "plain": weights["plain"],
            "wiener": linear, "records": weights["records"]}  # fmt: skip
