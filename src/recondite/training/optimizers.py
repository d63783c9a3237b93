"""What becomes of a person's optimizer: its step releases a noised gradient first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

__all__ = ["check_optimizer", "release_first"]


def check_optimizer(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> None:
    """Refuses an optimizer that does not hold exactly these parameters."""
    own = {p for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    missing = [p for p in parameters if p not in own]
    if missing or len(own) != len(parameters):
        raise ValueError(
            "optimizer must hold exactly the module's trainable parameters: freeze the others with "
            "requires_grad_(False)"
        )


def release_first(optimizer: Optimizer, release: Callable[[], bool]) -> None:
    """Has ``optimizer.step`` call ``release``, and go on only where that says so.

    Args:
      optimizer: Any torch optimizer; it keeps its class.
      release: Turns the last backward pass into gradients; False while a batch is incomplete.
    """
    original = optimizer.step

    def step(own: Optimizer, closure: Any = None, *, grad_scaler: Any = None) -> Any:
        del own
        if grad_scaler is not None:
            raise ValueError(
                "GradScaler scales the loss, which would undo the bound on gradients: use "
                "bfloat16 autocast, which needs no scaler"
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if release():
            original()
        return loss

    # A bound method, since learning-rate schedulers wrap what they find here.
    altered: Any = optimizer
    altered.step = MethodType(step, optimizer)
    # A copy would have the class's own step, and go on without noise.
    altered.__deepcopy__ = altered.__reduce_ex__ = _refuse_copy
    # Has a GradScaler hand itself over, so that it can be refused instead of failing elsewhere.
    altered._step_supports_amp_scaling = True


def _refuse_copy(_: Any) -> Any:
    raise ValueError(
        "a private optimizer cannot be copied, for the copy would step without noise: keep its "
        "state_dict(), or make a new one private"
    )
