"""Optimizers on stacked weights: elementwise, so runs do not mix."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Optimizer"]


class Optimizer:
    """SGD with momentum, Adam (decay added to the gradient) or AdamW (decoupled decay).

    Torch's own defaults and order of operations; ``rate`` and ``decay`` may differ between runs.
    """

    def __init__(
        self,
        kind: str,
        parameters: list[Tensor],
        rate: float | Tensor,
        *,
        momentum: float = 0.0,
        decay: float | Tensor = 0.0,
    ) -> None:
        if kind not in ("sgd", "adam", "adamw"):
            raise ValueError(f"optimizer must be sgd, adam or adamw, got {kind!r}")
        self.kind, self.momentum = kind, momentum
        self.parameters = parameters
        runs, device = len(parameters[0]), parameters[0].device
        # Steps done: on the device, so that a recorded step can count.
        self.count = torch.zeros((), device=device, dtype=torch.float64)
        self.sizes = [p[0].numel() for p in parameters]
        self.rate = torch.as_tensor(rate, device=device).expand(runs)[:, None].float()
        self.decay = torch.as_tensor(decay, device=device).expand(runs)[:, None].float()
        self.decays = bool((self.decay != 0).any())
        shape = (runs, sum(self.sizes))
        self.flat = torch.cat([p.reshape(runs, -1) for p in parameters], 1)
        self.first = torch.zeros(shape, device=device)
        self.second = torch.zeros(shape if kind != "sgd" else (0,), device=device)

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """Moves the weights by a joined gradient (R, dim)."""
        self.count += 1
        flat = self.flat
        if self.kind == "adamw" and self.decays:
            flat.mul_(1.0 - self.rate * self.decay)
        elif self.decays:
            gradient = gradient + self.decay * flat
        if self.kind == "sgd":
            if self.momentum:
                # Torch starts momentum with the first gradient itself.
                self.first.mul_(self.momentum).add_(gradient)
                gradient = self.first
            flat.sub_(self.rate * gradient)
        else:
            self.first.lerp_(gradient, 0.1)
            self.second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            grown_first = (1 - 0.9**self.count).float()
            grown_second = (1 - 0.999**self.count).sqrt().float()
            root = (self.second.sqrt() / grown_second).add_(1e-8)
            flat.sub_(self.rate / grown_first * self.first / root)
        pieces = torch.split(flat, self.sizes, 1)
        for parameter, piece in zip(self.parameters, pieces, strict=True):
            parameter.copy_(piece.view_as(parameter))
